package model

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/devices"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Model is a Problem compiled: names became ids, requirements bits, quantities flat vectors. It is built once and
// then only read, except for memo tables that are filled on demand. Those must be filled before goroutines share a
// model; otherwise each goroutine uses a Fork.
type Model struct {
	Problem Problem
	View    *cluster.Snapshot
	Lanes   int      // resources of the snapshot, then one lane for each CSI driver
	Drivers []string // sorted

	Table    *reqs.Table
	relevant map[string]bool // keys that a pool, a pod or a topology mentions
	Needs    []*Need
	needIDs  map[string]int
	pins     map[PinKey]int // need that requires one value of a key

	Tolerations   []Tolerations
	tolerationIDs map[string]int
	taints        []TaintSet
	taintIDs      map[string]int

	Catalogues []*Catalogue
	Pools      []Pool
	Daemons    []Daemon
	capacities []*PoolCapacity

	Nodes          []Node
	Signatures     []Signature // label signatures of nodes
	signatureIDs   map[string]int
	Classes        []Class
	Profiles       []*Profile
	ProfileIDs     map[string]int
	labelSets      []LabelSet // distinct (namespace, labels)
	labelSetIDs    map[string]int
	shapeLabelSets map[*cluster.Shape]int
	Groups         []*Group
	groupIDs       map[string]int
	index          groupIndex
	HostCounts     map[HostKey]HostCount        // counts of host groups by bound pods
	SharedClaims   map[string]int               // claims that more than one pod uses
	SoftTaint      bool                         // some pool has a PreferNoSchedule taint (SC-14)
	aliases        map[string][]string          // canonical key → keys as written, sorted
	daemonSums     map[daemonPlace][]int64      // requests of DaemonSets on nodes
	Domains        []KeyDomains                 // by key of the table, as far as topologies use it
	Reservations   []Reservation                // reservations, by id
	Pods           []cluster.Pod                // to be placed: Problem.Pods, then Problem.Moved
	PlannedPods    map[PlannedPlacement][]int32 // into pods, in queue order
	Devices        *devices.Inventory           // nil: dynamic resource allocation is off
	daemonDevices  *devices.Ledger              // for what DaemonSets need; while the model is read
}

// stepsPerLook is the number of reading steps between two checks of the deadline.
const stepsPerLook = 512

// Compile reads a problem, or returns nil once stop says that time is up: many pods with long rules take a while.
// What it has in common with an earlier model, if there is one, is not read again.
func Compile(p Problem, earlier *Model, stop func() bool) *Model {
	view := p.View
	if view == nil {
		view = &cluster.Snapshot{}
	}
	m := &Model{
		Problem: p, View: view,
		relevant: map[string]bool{}, needIDs: map[string]int{}, pins: map[PinKey]int{},
		tolerationIDs: map[string]int{}, taintIDs: map[string]int{}, signatureIDs: map[string]int{},
		ProfileIDs: map[string]int{}, labelSetIDs: map[string]int{},
		shapeLabelSets: map[*cluster.Shape]int{}, groupIDs: map[string]int{}, HostCounts: map[HostKey]HostCount{}, SharedClaims: map[string]int{},
		aliases: map[string][]string{}, daemonSums: map[daemonPlace][]int64{},
	}
	// any order: each list is sorted below
	for alias, canonical := range view.Words.Aliases {
		m.aliases[canonical] = append(m.aliases[canonical], alias)
	}
	// any order: each list is sorted by itself
	for _, list := range m.aliases {
		slices.Sort(list)
	}
	m.Pods = p.Pods
	if len(p.Moved) > 0 {
		m.Pods = slices.Concat(p.Pods, p.Moved)
	}
	m.Devices = devices.New(view, p.Moved)
	m.readClasses()
	m.readLanes()
	if earlier == nil || !m.reuseModel(earlier) {
		m.readKeys()
		m.readCatalogues()
	}
	m.InternNeed(reqs.Set{}) // need 0 requires nothing
	m.readDaemons()
	m.readPools()
	m.readNodes()
	steps := 0
	late := func() bool { // problems of ordinary size are always read, so that unschedulable pods get a reason
		steps++
		return steps%stepsPerLook == 0 && stop != nil && stop()
	}
	if !m.readGroups(late) || !m.ReadProfiles(late) || !m.countBound(late) {
		return nil
	}
	m.readPlannedBinds()
	return m
}

// Fork returns a model for use on another goroutine: it has its own memo tables and shares the rest.
func (m *Model) Fork() *Model {
	f := *m
	f.Needs = make([]*Need, len(m.Needs))
	for i, n := range m.Needs {
		c := *n
		c.masks, c.Pools, c.bySignature = slices.Clone(n.masks), slices.Clone(n.Pools), slices.Clone(n.bySignature)
		f.Needs[i] = &c
	}
	f.Tolerations = slices.Clone(m.Tolerations)
	for i := range f.Tolerations {
		f.Tolerations[i].known = slices.Clone(m.Tolerations[i].known)
	}
	f.Catalogues = m.forkCatalogues()
	f.needIDs, f.pins, f.tolerationIDs = maps.Clone(m.needIDs), maps.Clone(m.pins), maps.Clone(m.tolerationIDs)
	f.labelSets, f.labelSetIDs, f.shapeLabelSets = slices.Clone(m.labelSets), maps.Clone(m.labelSetIDs), maps.Clone(m.shapeLabelSets)
	return &f
}

func (m *Model) forkCatalogues() []*Catalogue {
	list := make([]*Catalogue, len(m.Catalogues))
	for i, c := range m.Catalogues {
		d := *c
		d.byCapacityType, d.byPrice = nil, nil
		list[i] = &d
	}
	return list
}

// reuseModel reuses what moves do not change: the instance types, which take most of the time to read, and the table
// of keys. It reports whether it could. Pods and labels are those of the earlier model or fewer.
func (m *Model) reuseModel(earlier *Model) bool {
	if !slices.Equal(m.Drivers, earlier.Drivers) || !slices.EqualFunc(m.View.Pools, earlier.View.Pools, func(a, b cluster.Pool) bool {
		return a.Name == b.Name && sameTypes(a.Types, b.Types)
	}) {
		return false
	}
	m.Table, m.relevant, m.Reservations, m.Catalogues = earlier.Table, earlier.relevant, earlier.Reservations, earlier.forkCatalogues()
	return true
}

// readLanes gives every CSI driver a lane of its own: attachments are a resource like any other, as
// long as no claim is shared.
func (m *Model) readLanes() {
	seen, uses := map[string]bool{}, map[string]int{}
	note := func(s *cluster.Shape, times int) {
		if s == nil {
			return
		}
		for _, v := range s.Volumes {
			seen[v.Driver] = true
			uses[v.Claim] += times
		}
	}
	for _, c := range m.Classes {
		note(c.Shape, len(c.Pods))
	}
	if len(seen) > 0 {
		placing := map[cluster.PodKey]bool{} // a pod on a node that is removed does not share with itself
		for i := range m.Pods {
			if s := m.Pods[i].Shape; s != nil && len(s.Volumes) > 0 {
				placing[m.Pods[i].Key] = true
			}
		}
		for i := range m.View.Nodes {
			for j := range m.View.Nodes[i].Pods {
				if p := &m.View.Nodes[i].Pods[j]; p.Shape != nil && len(p.Shape.Volumes) > 0 && !placing[p.Key] {
					note(p.Shape, 1)
				}
			}
		}
	}
	for d := range seen {
		m.Drivers = append(m.Drivers, d)
	}
	slices.Sort(m.Drivers)
	m.Lanes = m.View.Resources.Len() + len(m.Drivers)
	shared := make([]string, 0, len(uses))
	for claim, n := range uses {
		if n > 1 {
			shared = append(shared, claim)
		}
	}
	slices.Sort(shared)
	for i, claim := range shared {
		m.SharedClaims[claim] = i
	}
	slab, requested := make([]int64, len(m.Classes)*m.Lanes), make([]int, 0, len(m.Classes)*4)
	for k := range m.Classes {
		c := &m.Classes[k]
		c.Requests = slab[k*m.Lanes : (k+1)*m.Lanes : (k+1)*m.Lanes]
		m.flattenRequests(c.Requests, c.Shape)
		first := len(requested)
		for l, v := range c.Requests {
			if v != 0 {
				requested = append(requested, l)
			}
		}
		c.Lanes = requested[first:len(requested):len(requested)]
		for _, v := range c.Shape.Volumes {
			if id, found := m.SharedClaims[v.Claim]; found {
				c.SharedClaims = append(c.SharedClaims, id)
			}
		}
	}
}

// flattenRequests flattens what a pod requests, attachments included.
func (m *Model) flattenRequests(req []int64, s *cluster.Shape) {
	base := m.View.Resources.Len()
	for l := range base {
		req[l] = max(0, s.Requests.At(l))
	}
	for _, v := range s.Volumes {
		req[base+m.DriverIndex(v.Driver)]++
	}
}

// DriverIndex returns the position of a driver, or -1 if no pod to be placed uses it.
func (m *Model) DriverIndex(name string) int {
	at, found := slices.BinarySearch(m.Drivers, name)
	if !found {
		return -1
	}
	return at
}

// readKeys builds the table of every key and value that the problem uses.
func (m *Model) readKeys() {
	b := reqs.NewBuilder(m.View.Words)
	add := func(s reqs.Set) {
		if len(s) == 0 {
			return
		}
		b.AddSet(s)
		for key := range s {
			m.relevant[key] = true
		}
	}
	for i := range m.View.Pools {
		add(m.View.Pools[i].Requirements)
	}
	shapes := make(map[*cluster.Shape]bool, len(m.Classes))
	for _, c := range m.Classes {
		m.addShape(c.Shape, shapes, add)
	}
	for _, d := range m.View.Daemons {
		if d.Shape != nil {
			m.addShape(d.Shape, shapes, add)
		}
	}
	for i := range m.View.Nodes { // their anti-affinity binds others (SC-35)
		add(m.View.Nodes[i].Needs)
		for _, p := range m.View.Nodes[i].Pods {
			if p.Shape != nil && len(p.Shape.AntiAffinity) > 0 {
				for _, t := range p.Shape.AntiAffinity {
					m.relevant[t.Key] = true
				}
			}
		}
	}
	delete(m.relevant, corev1.LabelHostname) // its domains are the nodes themselves
	m.addValues(b)
	m.Table = b.Build()
}

func (m *Model) addShape(s *cluster.Shape, seen map[*cluster.Shape]bool, add func(reqs.Set)) {
	if seen[s] {
		return
	}
	seen[s] = true
	for _, r := range s.Required {
		add(r)
	}
	for _, p := range s.Preferred {
		add(p.Needs)
	}
	for _, z := range m.PlacesOf(s) {
		add(z)
	}
	for _, t := range s.Spread {
		m.relevant[t.Key] = true
	}
	for _, t := range s.Affinity {
		m.relevant[t.Key] = true
	}
	for _, t := range s.AntiAffinity {
		m.relevant[t.Key] = true
	}
}

// addValues adds the values that types, offerings and nodes have of the keys in use.
func (m *Model) addValues(b *reqs.Builder) {
	// any order: the builder sorts keys and values
	for key := range m.relevant {
		b.AddValues(key)
	}
	for i := range m.View.Pools {
		if i > 0 && sameTypes(m.View.Pools[i].Types, m.View.Pools[i-1].Types) {
			continue
		}
		for t := range m.View.Pools[i].Types {
			it := &m.View.Pools[i].Types[t]
			// any order: the builder sorts keys and values
			for key, r := range it.Labels {
				if m.relevant[key] {
					b.AddValues(key, r.Values...)
				}
			}
			for o := range it.Offerings {
				for _, l := range OfferingLabels(&it.Offerings[o]) {
					if m.relevant[l.Key] {
						b.AddValues(l.Key, l.Value)
					}
				}
			}
		}
	}
	for i := range m.View.Nodes {
		// any order: the builder sorts keys and values
		for key, value := range m.View.Nodes[i].Labels {
			if canonical := m.View.Words.Canonical(key); m.relevant[canonical] {
				b.AddValues(canonical, m.View.Words.Value(canonical, value))
			}
		}
	}
}

// AppendKey writes text with a separator that no label contains.
func AppendKey(b *strings.Builder, parts ...string) {
	size := len(parts)
	for _, p := range parts {
		size += len(p)
	}
	b.Grow(size)
	for _, p := range parts {
		b.WriteString(p)
		b.WriteByte(0)
	}
}
