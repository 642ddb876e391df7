package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// builder fills the constraints of one shape.
type builder struct {
	*Reader
	in    input
	shape *Shape
}

// build reads the constraints of an input. It may read only what writeConstraints writes.
func (r *Reader) build(in input) *constraints {
	b := &builder{Reader: r, in: in, shape: &Shape{}}
	spec := &in.pod.Spec
	b.devices()
	b.needs(spec)
	b.shape.Tolerations = tolerations(spec.Tolerations)
	b.shape.HostPorts = hostPorts(spec.Containers)
	b.spread(spec.TopologySpreadConstraints)
	if a := spec.Affinity; a != nil {
		b.podAffinity(a)
	}
	b.volumes()
	b.shape.clip()
	return &constraints{shape: b.shape, text: r.constraintsKey(b.shape)}
}

// clip leaves no room behind the lists, which many shapes share.
func (s *Shape) clip() {
	s.Required, s.Preferred = slices.Clip(s.Required), slices.Clip(s.Preferred)
	s.Tolerations, s.Spread = slices.Clip(s.Tolerations), slices.Clip(s.Spread)
	s.Affinity, s.AntiAffinity = slices.Clip(s.Affinity), slices.Clip(s.AntiAffinity)
	s.HostPorts, s.Volumes, s.Devices = slices.Clip(s.HostPorts), slices.Clip(s.Volumes), slices.Clip(s.Devices)
	s.Zones, s.Invalid, s.Ignored = slices.Clip(s.Zones), slices.Clip(s.Invalid), slices.Clip(s.Ignored)
}

func (b *builder) refuse(code reason.Code, subject, have, want string) {
	b.shape.Invalid = append(b.shape.Invalid, reason.Reason{Code: code, Subject: subject, Have: have, Want: want})
}

// needs reads nodeSelector and node affinity (SC-12). An alternative that contradicts itself is left
// out, as kube-scheduler would never choose it; in a Set it would read as a label that must be absent.
func (b *builder) needs(spec *corev1.PodSpec) {
	const at = "spec.nodeSelector"
	if len(spec.NodeSelector) == 0 && (spec.Affinity == nil || spec.Affinity.NodeAffinity == nil) {
		b.shape.Required = b.anywhere
		return
	}
	if b.tooMany(at, len(spec.NodeSelector), mostAlternatives) {
		b.shape.Required = b.anywhere
		return
	}
	b.checkSelector(at, spec.NodeSelector)
	selector, faults := reqs.FromSelector(spec.NodeSelector, b.words)
	var impossible []reason.Reason
	for _, f := range faults {
		impossible = append(impossible, faultReason(at, f))
	}
	var node corev1.NodeAffinity
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		node = *spec.Affinity.NodeAffinity
	}
	switch required := node.RequiredDuringSchedulingIgnoredDuringExecution; {
	case len(faults) > 0:
	case required == nil:
		b.shape.Required = []reqs.Set{selector}
	case b.tooMany("spec.affinity.nodeAffinity.required", len(required.NodeSelectorTerms), mostAlternatives) ||
		b.tooMany("spec.affinity.nodeAffinity.required: values", valuesIn(required.NodeSelectorTerms), mostValues):
	case len(required.NodeSelectorTerms) == 0:
		impossible = append(impossible, emptyTerm("spec.affinity.nodeAffinity.required"))
	default:
		impossible = b.alternatives(selector, required.NodeSelectorTerms)
	}
	if len(b.shape.Required) == 0 { // nothing left: the pod is refused, and the Set only shown
		b.shape.Required = []reqs.Set{selector}
		b.shape.Invalid = append(b.shape.Invalid, impossible...)
	} else {
		b.shape.Refuses = !slices.ContainsFunc(b.shape.Required, acceptsManaged)
	}
	b.preferences(node.PreferredDuringSchedulingIgnoredDuringExecution)
}

// acceptsManaged reports whether nodes of a pool satisfy the set: the label that names their pool need
// not be absent (3.4 a).
func acceptsManaged(s reqs.Set) bool {
	pool, requested := s[labelNodePool]
	return !requested || !pool.Empty()
}

// alternatives reads the required terms, each together with the nodeSelector, and returns why those
// that no node can satisfy were left out.
func (b *builder) alternatives(selector reqs.Set, terms []corev1.NodeSelectorTerm) (impossible []reason.Reason) {
	for i := range terms {
		at := index("spec.affinity.nodeAffinity.required", i)
		if len(terms[i].MatchExpressions) == 0 && len(terms[i].MatchFields) == 0 {
			impossible = append(impossible, emptyTerm(at)) // Kubernetes: matches no node
			continue
		}
		b.checkTerm(at, terms[i].MatchExpressions)
		set, faults := reqs.FromNodeSelectorTerm(terms[i], b.words)
		before := len(impossible)
		for _, f := range faults {
			if f.Kind == reqs.Contradiction || b.in.template {
				impossible = append(impossible, faultReason(at, f))
			} else {
				b.shape.Invalid = append(b.shape.Invalid, faultReason(at, f))
			}
		}
		both, why := combineTerms(at, selector, set)
		if impossible = append(impossible, why...); len(impossible) == before {
			b.shape.Required = append(b.shape.Required, both)
		}
	}
	return impossible
}

// combineTerms combines a nodeSelector and a term, and says where they contradict each other.
func combineTerms(at string, selector, term reqs.Set) (both reqs.Set, why []reason.Reason) {
	both = selector.Clone()
	for _, key := range term.Keys() {
		if have := both[key]; !both.Add(key, term[key]) {
			why = append(why, reason.Reason{
				Code: reason.RequirementsContradict, Subject: at,
				Have: key + " " + term[key].String() + " together with " + have.String() + " of spec.nodeSelector",
				Want: "change or remove one of the two",
			})
		}
	}
	return both, why
}

func emptyTerm(at string) reason.Reason {
	return reason.Reason{Code: reason.RequirementsContradict, Subject: at, Have: "an empty term", Want: "an empty term matches nothing; remove it"}
}

// preferences reads preferred terms, heaviest first. One that means nothing or cannot be read is left
// out: a preference never holds a pod up.
func (b *builder) preferences(terms []corev1.PreferredSchedulingTerm) {
	for i := range terms {
		if values := valuesIn([]corev1.NodeSelectorTerm{terms[i].Preference}); values > mostValues {
			b.ignoreExcess(index("spec.affinity.nodeAffinity.preferred", i), values, mostValues)
			continue
		}
		set, faults := reqs.FromNodeSelectorTerm(terms[i].Preference, b.words)
		if len(faults) == 0 && len(set) > 0 && terms[i].Weight > 0 {
			b.shape.Preferred = append(b.shape.Preferred, Preference{Weight: terms[i].Weight, Needs: set})
		}
	}
	slices.SortStableFunc(b.shape.Preferred, func(a, b Preference) int { return cmp.Compare(b.Weight, a.Weight) })
	if n := len(b.shape.Preferred); n > mostPreferences {
		b.ignoreExcess("spec.affinity.nodeAffinity.preferred", n, mostPreferences)
		b.shape.Preferred = b.shape.Preferred[:mostPreferences]
	}
}

// tolerations returns what counts for scheduling, in one order: for how long a taint is tolerated
// does not.
func tolerations(list []corev1.Toleration) []corev1.Toleration {
	if len(list) == 0 {
		return nil
	}
	out := slices.Clone(list)
	for i := range out {
		out[i].TolerationSeconds = nil
		if out[i].Operator == "" {
			out[i].Operator = corev1.TolerationOpEqual
		}
	}
	slices.SortFunc(out, func(a, b corev1.Toleration) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return slices.Compact(out)
}

// hostPorts reads the ports that app containers take of the node (SC-25).
func hostPorts(containers []corev1.Container) []HostPort {
	var ports []HostPort
	for i := range containers {
		for _, p := range containers[i].Ports {
			if p.HostPort <= 0 {
				continue
			}
			port := HostPort{IP: p.HostIP, Port: p.HostPort, Protocol: string(p.Protocol)}
			if port.IP == "" || port.IP == "::" {
				port.IP = anyIP
			}
			if port.Protocol == "" {
				port.Protocol = string(corev1.ProtocolTCP)
			}
			ports = append(ports, port)
		}
	}
	slices.SortFunc(ports, func(a, b HostPort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.IP, b.IP))
	})
	return slices.Compact(ports)
}

// spread reads the constraints of the pod, or the cluster's if it has none (SC-37). One without a
// selector counts nothing and is left out (SC-30).
func (b *builder) spread(own []corev1.TopologySpreadConstraint) {
	const at = "spec.topologySpreadConstraints"
	for i := range own {
		selector := b.selector(place{at, "", i}, ".labelSelector", own[i].LabelSelector)
		var pinned map[string]string
		for _, key := range own[i].MatchLabelKeys {
			if value, has := b.in.pod.Labels[key]; has {
				if pinned == nil {
					pinned = map[string]string{}
				}
				pinned[key] = value
			}
		}
		selector, err := selector.and(pinned)
		if err != nil {
			b.refuse(reason.FieldInvalid, index(at, i)+".matchLabelKeys", err.Error(), "legal labels")
		}
		b.constraint(&own[i], selector)
	}
	b.limitSpread(at)
	if s := b.in.spread; len(own) == 0 && s.Text != everything {
		for i := range b.opts.DefaultSpread {
			b.constraint(&b.opts.DefaultSpread[i], s)
		}
	}
}

func (b *builder) constraint(c *corev1.TopologySpreadConstraint, selector Selector) {
	if selector.Inert() {
		return
	}
	s := Spread{
		Key:        b.words.Canonical(c.TopologyKey),
		MaxSkew:    c.MaxSkew,
		Soft:       c.WhenUnsatisfiable == corev1.ScheduleAnyway,
		Selector:   selector,
		AnyNode:    c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore,
		HonorTaint: c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
	}
	if c.MinDomains != nil {
		s.MinDomains = *c.MinDomains
	}
	b.shape.Spread = append(b.shape.Spread, s)
}

// place is an entry of a list. Few are ever named, so only those are put into words.
type place struct {
	spec, list string
	i          int
}

// selector reads a label selector; a malformed one, which only very old objects have, refuses the pod.
func (b *builder) selector(at place, field string, s *metav1.LabelSelector) Selector {
	b.digest.buf = b.digest.buf[:0]
	b.digest.selector(s)
	if known, found := b.selectors[string(b.digest.buf)]; found {
		return known
	}
	read, err := NewSelector(s)
	if err != nil {
		b.refuse(reason.FieldInvalid, index(at.spec+at.list, at.i)+field, oneLine(err.Error()), "a legal label selector")
		return read
	}
	b.selectors[string(b.digest.buf)] = read
	return read
}

// podAffinity reads affinity and anti-affinity. A term without a selector matches nothing (SC-30):
// as an anti-affinity or a preference it says nothing and is left out, as a required affinity it can
// never be satisfied and stays.
func (b *builder) podAffinity(a *corev1.Affinity) {
	if p := a.PodAffinity; p != nil {
		terms := b.podTerms("spec.affinity.podAffinity", p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
		b.shape.Affinity = without(terms, func(t PodTerm) bool { return t.Weight > 0 && t.Selector.Inert() })
	}
	if p := a.PodAntiAffinity; p != nil {
		terms := b.podTerms("spec.affinity.podAntiAffinity", p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
		b.shape.AntiAffinity = without(terms, func(t PodTerm) bool { return t.Selector.Inert() })
	}
}

// without drops terms; none left is nil, as it is after decoding.
func without(terms []PodTerm, drop func(PodTerm) bool) []PodTerm {
	if terms = slices.DeleteFunc(terms, drop); len(terms) > 0 {
		return terms
	}
	return nil
}

// podTerms reads required terms, then preferred ones, heaviest first. A weight of zero has no effect
// in Kubernetes; here it would mean required.
func (b *builder) podTerms(at string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) []PodTerm {
	var terms []PodTerm
	for i := range required {
		terms = append(terms, b.podTerm(place{at, ".required", i}, &required[i], 0))
	}
	for i := range preferred {
		if preferred[i].Weight > 0 {
			terms = append(terms, b.podTerm(place{at, ".preferred", i}, &preferred[i].PodAffinityTerm, preferred[i].Weight))
		}
	}
	slices.SortStableFunc(terms[len(required):], func(a, b PodTerm) int { return cmp.Compare(b.Weight, a.Weight) })
	b.tooMany(at+".required", len(required), mostPodTerms) // all stay: others keep away from it where it runs
	if n := len(terms) - len(required); n > mostPreferences {
		b.ignoreExcess(at+".preferred", n, mostPreferences)
		terms = terms[:len(required)+mostPreferences]
	}
	return terms
}

// podTerm resolves the namespaces of a term (SC-36).
func (b *builder) podTerm(at place, t *corev1.PodAffinityTerm, weight int32) PodTerm {
	term := PodTerm{Key: b.words.Canonical(t.TopologyKey), Weight: weight, Selector: b.selector(at, ".labelSelector", t.LabelSelector)}
	if t.NamespaceSelector == nil {
		if term.Namespaces = distinct(t.Namespaces); len(term.Namespaces) == 0 {
			term.Namespaces = []string{b.in.pod.Namespace}
		}
		return term
	}
	selector := b.selector(at, ".namespaceSelector.labelSelector", t.NamespaceSelector)
	if term.Everywhere = selector.Text == everything; term.Everywhere {
		return term
	}
	named := slices.Clone(t.Namespaces)
	for _, name := range slices.Sorted(maps.Keys(b.namespaces)) {
		if selector.Matches(b.namespaces[name]) {
			named = append(named, name)
		}
	}
	term.Namespaces = distinct(named)
	return term
}

func index(at string, i int) string { return at + "[" + strconv.Itoa(i) + "]" }

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func compareText(a, b string) int { return strings.Compare(a, b) }
