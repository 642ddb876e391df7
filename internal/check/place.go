package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const (
	zoneKey     = corev1.LabelTopologyZone
	hostKey     = corev1.LabelHostname
	typeKey     = corev1.LabelInstanceTypeStable
	capacityKey = "karpenter.sh/capacity-type"
	reserved    = "reserved"
)

// place is a node after the plan was carried out: an existing one, or one to be launched.
type place struct {
	name  string
	host  string // placeholder of a new node's hostname (SC-21)
	words reqs.Vocabulary

	node   *cluster.Node // nil: to be launched
	labels reqs.Set      // labels of an existing node

	plan      *solve.NewNode // nil: exists
	offerings *poolOfferings // where a new node is launched from; nil if its pool is unknown
	types     []*catalog.InstanceType
	typeCache *typeCache // what the plan's needs leave of the types; nil if the pool is unknown

	stay  []*cluster.Pod // were here before the plan
	leave []*cluster.Pod // are here now but are planned for: they count in no topology
	come  []*cluster.Pod // the plan puts them here

	terminating bool // being deleted: takes no pods, and is no domain of its own
	removed     bool // by a move
	judged      bool // launched by an earlier move
	spots       map[string]nodeDomain
	labelled    map[string][]label // cached results of could: the same for every pod, and shared by equal nodes
	sum         *resources.Vec     // sum of the requests of the pods placed here, while one list of types is verified
}

// requestsOfArrivals is the sum of the requests of the pods placed here.
func (p *place) requestsOfArrivals() resources.Vec {
	if p.sum != nil {
		return *p.sum
	}
	return total(shapesOf(p.come))
}

// label is the possible values of a node's label.
type label struct {
	have   reqs.Req
	absent bool // the node may come without the label
}

func (l label) equal(other label) bool { return l.absent == other.absent && l.have.Equal(other.have) }

// possibleValues returns the possible values of a label of a new node, by the types it lists. Every offering that the needs
// leave open counts, available or not: insufficient capacity while planning may be over at launch. So only the needs
// and the list of types exclude a value.
func (p *place) possibleValues(key string) []label {
	if p.node != nil {
		return []label{p.knownLabel(key)}
	}
	if key == hostKey { // SC-21
		return []label{{have: one(p.host)}}
	}
	if all, known := p.labelled[key]; known {
		return all
	}
	var all []label
	for _, t := range p.types {
		// Neighbours in the list mostly agree.
		if l := p.couldAs(t, key); len(all) == 0 || !l.equal(all[len(all)-1]) {
			all = append(all, l)
		}
	}
	if len(all) == 0 {
		all = append(all, p.neededLabel(key))
	}
	if p.labelled == nil {
		p.labelled = map[string][]label{}
	}
	p.labelled[key] = all
	return all
}

// knownLabel is the label of an existing node. Of a claim that is not launched yet only its needs may be known, and they
// cannot be narrowed any more.
func (p *place) knownLabel(key string) label {
	if have, found := p.labels[key]; found {
		return label{have: have}
	}
	if key == hostKey { // SC-27: falls back to the name
		return label{have: one(p.node.Name)}
	}
	have, claimed := p.node.Needs[key]
	return label{have: have.WithMinValues(0), absent: !claimed || have.Negative()}
}

// couldAs is the label if the node becomes one of this type. The type defines it, or the offering, or only the needs
// do; then the controller sets the label.
func (p *place) couldAs(t *catalog.InstanceType, key string) label {
	wanted, narrowed := p.plan.Needs[key]
	if have, known := labelsOf(t)[key]; known {
		absent := have.Negative()
		if narrowed {
			have = have.Intersect(wanted)
		}
		return label{have: have.WithMinValues(0), absent: absent}
	}
	var values []string
	labelled, absent := false, false
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if !p.compatible(o, p.plan.Needs) {
			continue
		}
		if v, found := p.labelOf(o, key); found {
			labelled, values = true, append(values, v)
		} else {
			absent = true
		}
	}
	if !labelled {
		return p.neededLabel(key)
	}
	return label{have: several(values), absent: absent}
}

// neededLabel is a label that neither types nor offerings know: the needs alone decide. Of a label that
// must not have a value nothing is set, so it is absent.
func (p *place) neededLabel(key string) label {
	r, narrowed := p.plan.Needs[key]
	return label{have: r.WithMinValues(0), absent: !narrowed || r.Negative()}
}

// certainlySatisfies reports whether every node this place may turn out to be satisfies the requirement.
func (p *place) certainlySatisfies(key string, want reqs.Req) bool {
	return !slices.ContainsFunc(p.possibleValues(key), func(l label) bool {
		return l.absent && !want.Negative() || !l.have.Empty() && !within(l.have, want)
	})
}

// fits reports whether every node that this place may become satisfies the set, and if not the first key that may
// fail. A required label must exist (scheduling 6.1).
func (p *place) fits(want reqs.Set) (failing string, ok bool) {
	for _, key := range want.Keys() {
		if !p.certainlySatisfies(key, want[key]) {
			return key, false
		}
	}
	return "", true
}

// compatible reports whether launching this way gives a node that the needs allow (SC-19).
func (p *place) compatible(o *catalog.Offering, needs reqs.Set) bool {
	if !needs.Allows(zoneKey, o.Zone) || !needs.Allows(capacityKey, o.CapacityType) {
		return false
	}
	for key, value := range o.Labels {
		if !needs.Allows(p.words.Canonical(key), p.words.Value(key, value)) {
			return false
		}
	}
	return true
}

// labelOf is a label that a node gets from the offering it is launched as.
func (p *place) labelOf(o *catalog.Offering, key string) (string, bool) {
	switch key {
	case zoneKey:
		return o.Zone, true
	case capacityKey:
		return o.CapacityType, true
	}
	// any order: an offering has a label under one name
	for k, v := range o.Labels {
		if p.words.Canonical(k) == key {
			return p.words.Value(k, v), true
		}
	}
	return "", false
}

// nodeDomain is where a node is, or may turn out to be, in one topology.
type nodeDomain struct {
	values []string
	open   bool // or somewhere that cannot be listed
	absent bool // or nowhere: it may come without the label
}

// onlyDomain returns the domain if a single one is left.
func (s nodeDomain) onlyDomain() (string, bool) {
	if len(s.values) != 1 || s.open || s.absent {
		return "", false
	}
	return s.values[0], true
}

// isEmpty reports that the node is in no domain.
func (s nodeDomain) isEmpty() bool { return len(s.values) == 0 && !s.open }

// String lists the domains.
func (s nodeDomain) String() string {
	text := several(s.values).String()
	switch {
	case s.open:
		text = "any"
	case len(s.values) == 0:
		return "no label"
	}
	if s.absent {
		text += " or no label"
	}
	return text
}

// domainOf returns where the node may be in the topology of a key.
func (p *place) domainOf(key string) nodeDomain {
	if s, known := p.spots[key]; known {
		return s
	}
	var s nodeDomain
	for _, l := range p.possibleValues(key) {
		s.absent = s.absent || l.absent
		switch {
		case l.have.Not && !l.absent: // Exists or bounds; for NotIn nothing is set
			s.open = true
		case !l.have.Not:
			s.values = append(s.values, l.have.Values...)
		}
	}
	slices.Sort(s.values)
	s.values = slices.Compact(s.values)
	if p.spots == nil {
		p.spots = map[string]nodeDomain{}
	}
	p.spots[key] = s
	return s
}

// pods are those that are here in the end.
func (p *place) pods() []*cluster.Pod { return slices.Concat(p.stay, p.come) }

// labelsOf are the labels of a type, its name among them.
func labelsOf(t *catalog.InstanceType) reqs.Set {
	if _, named := t.Labels[typeKey]; named {
		return t.Labels
	}
	labels := t.Labels.Clone()
	labels[typeKey] = one(t.Name)
	return labels
}

// within reports whether every value that inner allows is allowed by outer.
func within(inner, outer reqs.Req) bool {
	return inner.Intersect(outer).WithMinValues(0).Equal(inner.WithMinValues(0))
}

func one(value string) reqs.Req { return reqs.Req{Values: []string{value}} }

func several(values []string) reqs.Req {
	return reqs.Req{Values: slices.Compact(slices.Sorted(slices.Values(values)))}
}
