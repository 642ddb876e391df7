package check_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check/random"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A planner that takes one pod after another, as the specification describes it, and decides zone,
// capacity type, rack and instance type of each new node at once. It is slow and wasteful, knows no
// open domains, and shares nothing with the checker: whatever it does is valid, and must pass.
type naive struct {
	p     solve.Problem
	batch map[cluster.PodKey]bool
	nodes []*stand
	plan  solve.Plan
}

// stand is a node with labels that are known, or a claim that may be in several zones.
type stand struct {
	labels      map[string]string
	taints      []corev1.Taint
	needs       reqs.Set
	pods        []cluster.Pod // that topologies see
	old         *cluster.Node
	terminating bool
	used        []*cluster.Shape // of the plan
}

func TestWhatFollowsTheRulesPasses(t *testing.T) {
	t.Parallel()
	placed := 0
	rapid.Check(t, func(t *rapid.T) {
		p := problems(random.Options{Pods: 12, Nodes: 5, Types: 5}).Draw(t, "problem")
		p.Policy.ReservedFallback = true
		n := newNaive(p)
		for i := range p.Pods {
			n.place(&p.Pods[i])
		}
		placed += len(p.Pods) - len(n.plan.Unplaced)
		mustObey(t, "naive plan", p, n.sorted())
	})
	if placed == 0 {
		t.Error("nothing was ever placed: the test tests nothing")
	}
}

func newNaive(p solve.Problem) *naive {
	n := &naive{p: p, batch: map[cluster.PodKey]bool{}, plan: solve.Plan{Version: p.View.Version}}
	for _, pod := range p.Pods {
		n.batch[pod.Key] = true
	}
	for i := range p.View.Nodes {
		old := &p.View.Nodes[i]
		s := &stand{labels: old.Labels, taints: old.Taints, needs: old.Needs, old: old, terminating: old.Deleting}
		for _, pod := range old.Pods {
			if !n.batch[pod.Key] && !pod.Terminating {
				s.pods = append(s.pods, pod)
			}
		}
		n.nodes = append(n.nodes, s)
	}
	return n
}

func (n *naive) sorted() solve.Plan {
	byPod := func(a, b cluster.PodKey) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	}
	slices.SortFunc(n.plan.Bind, func(a, b solve.Bind) int { return byPod(a.Pod, b.Pod) })
	slices.SortFunc(n.plan.Unplaced, func(a, b solve.Unplaced) int { return byPod(a.Pod, b.Pod) })
	for _, c := range n.plan.Create {
		n.plan.Cost += c.Offer.Price
	}
	return n.plan
}

func (n *naive) place(pod *cluster.Pod) {
	if len(pod.Shape.Invalid) == 0 && !pod.Shape.Refuses && (n.onOld(pod) || n.onNew(pod)) {
		return
	}
	n.plan.Unplaced = append(n.plan.Unplaced, solve.Unplaced{Pod: pod.Key, Why: []reason.Reason{{Code: "NoPlace"}}})
}

func (n *naive) onOld(pod *cluster.Pod) bool {
	for _, s := range n.nodes {
		if s.old == nil || s.terminating || len(s.needs) > 0 || !n.room(s, pod.Shape) || !n.agrees(s, pod) {
			continue
		}
		s.pods, s.used = append(s.pods, *pod), append(s.used, pod.Shape)
		n.plan.Bind = append(n.plan.Bind, solve.Bind{Pod: pod.Key, Node: s.old.Name})
		return true
	}
	return false
}

// room looks at resources, ports and volumes of a node that exists.
func (n *naive) room(s *stand, shape *cluster.Shape) bool {
	free := s.old.Allocatable
	there := append(slices.Clone(s.used), shape)
	var daemons, held resources.Vec
	for _, p := range s.old.Pods {
		there = append(there, p.Shape)
		if p.Daemon {
			held = resources.Add(held, p.Shape.Requests)
		}
	}
	for _, d := range n.p.View.Daemons {
		if tolerated(d.Shape, s.taints) && len(n.holding(s, d.Shape.Required)) > 0 {
			daemons = resources.Add(daemons, d.Shape.Requests)
		}
	}
	free = resources.Sub(free, resources.Max(resources.Sub(daemons, held), resources.Vec{}))
	claims := map[string]bool{}
	for i, other := range there {
		free = resources.Sub(free, other.Requests)
		for _, v := range other.Volumes {
			claims[v.Claim] = true
		}
		if i != len(s.used) && hostPortsConflict(other, shape) {
			return false
		}
	}
	limit, limited := s.old.VolumeLimits["disk.example"]
	return resources.Fits(&resources.Vec{}, &free) && (!limited || len(claims) <= limit)
}

func hostPortsConflict(a, b *cluster.Shape) bool {
	for _, p := range a.HostPorts {
		if slices.ContainsFunc(b.HostPorts, p.Conflicts) {
			return true
		}
	}
	return false
}

func tolerated(s *cluster.Shape, taints []corev1.Taint) bool {
	for _, taint := range taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(s.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == "" || t.Key == taint.Key) && (t.Effect == "" || t.Effect == taint.Effect) && (t.Operator == corev1.TolerationOpExists || t.Value == taint.Value)
		}) {
			return false
		}
	}
	return true
}

func (n *naive) holding(s *stand, terms []reqs.Set) []reqs.Set {
	return slices.DeleteFunc(slices.Clone(terms), func(term reqs.Set) bool {
		_, ok := reqs.Compatible(term, reqs.FromLabels(s.labels, n.p.View.Words), reqs.Options{})
		return !ok
	})
}

// agrees looks at everything but room.
func (n *naive) agrees(s *stand, pod *cluster.Pod) bool {
	strict := n.holding(s, pod.Shape.Required)
	if len(strict) == 0 || !tolerated(pod.Shape, s.taints) || len(pod.Shape.Zones) > 0 && len(n.holding(s, pod.Shape.Zones)) == 0 {
		return false
	}
	for i := range pod.Shape.Spread {
		if c := &pod.Shape.Spread[i]; !c.Soft && c.Selector.Is != nil && !n.spreads(s, pod, c, strict[0]) {
			return false
		}
	}
	for i := range pod.Shape.Affinity {
		if t := &pod.Shape.Affinity[i]; t.Weight == 0 && !n.attracts(s, pod, t, strict[0]) {
			return false
		}
	}
	return !n.repelled(s, pod)
}

// spreads is SC-32 at the moment the pod comes.
func (n *naive) spreads(s *stand, pod *cluster.Pod, c *cluster.Spread, strict reqs.Set) bool {
	domain, found := s.labels[c.Key]
	if !found {
		return false
	}
	counts := map[string]int{}
	for _, other := range n.nodes {
		d, found := other.labels[c.Key]
		if !found || !c.AnyNode && len(n.holding(other, pod.Shape.Required)) == 0 || c.HonorTaint && !tolerated(pod.Shape, other.taints) {
			continue
		}
		for _, p := range other.pods {
			if p.Key.Namespace == pod.Key.Namespace && c.Selector.Matches(p.Shape.Labels) {
				counts[d]++
			}
		}
	}
	least := 0
	if c.Key != host {
		universe := n.universe(c, pod.Shape)
		maps.DeleteFunc(universe, func(d string, _ bool) bool { return !strict.Allows(c.Key, d) })
		if len(universe) >= int(c.MinDomains) && len(universe) > 0 {
			least = 1 << 30
			for d := range universe {
				least = min(least, counts[d])
			}
		}
	}
	self := 0
	if c.Selector.Matches(pod.Shape.Labels) {
		self = 1
	}
	return counts[domain]+self-least <= int(c.MaxSkew)
}

// universe is SC-26, word by word.
func (n *naive) universe(c *cluster.Spread, shape *cluster.Shape) map[string]bool {
	domains := map[string]bool{}
	for _, pool := range n.p.View.Pools {
		if pool.Closed || c.HonorTaint && !tolerated(shape, pool.Taints) {
			continue
		}
		for _, d := range pool.Requirements[c.Key].Values {
			domains[d] = !pool.Requirements[c.Key].Not
		}
		for _, t := range pool.Types {
			for _, o := range t.Offerings {
				if d, offered := map[string]string{zone: o.Zone, capacity: o.CapacityType}[c.Key]; offered && pool.Requirements.Allows(c.Key, d) {
					domains[d] = true
				}
			}
		}
	}
	for _, s := range n.nodes {
		if d, found := s.labels[c.Key]; found && s.old != nil && !s.terminating {
			domains[d] = true
		}
	}
	return domains
}

func chosen(t *cluster.PodTerm, p *cluster.Pod) bool {
	return (t.Everywhere || slices.Contains(t.Namespaces, p.Key.Namespace)) && t.Selector.Matches(p.Shape.Labels)
}

// attracts is SC-33 at the moment the pod comes.
func (n *naive) attracts(s *stand, pod *cluster.Pod, t *cluster.PodTerm, strict reqs.Set) bool {
	domain, found := s.labels[t.Key]
	if !found {
		return false
	}
	elsewhere := false
	for _, other := range n.nodes {
		d, found := other.labels[t.Key]
		for i := range other.pods {
			if found && chosen(t, &other.pods[i]) {
				if d == domain {
					return true
				}
				elsewhere = elsewhere || strict.Allows(t.Key, d)
			}
		}
	}
	return chosen(t, pod) && !elsewhere
}

// repelled is SC-34 and SC-35.
func (n *naive) repelled(s *stand, pod *cluster.Pod) bool {
	close := func(t *cluster.PodTerm, other *stand) bool {
		d, found := s.labels[t.Key]
		o, known := other.labels[t.Key]
		may := slices.Contains(other.needs[t.Key].Values, d) // a claim may land there
		return t.Weight == 0 && found && (known && d == o || !known && may)
	}
	for _, other := range n.nodes {
		for i := range other.pods {
			p := &other.pods[i]
			for j := range pod.Shape.AntiAffinity {
				if t := &pod.Shape.AntiAffinity[j]; chosen(t, p) && close(t, other) {
					return true
				}
			}
			for j := range p.Shape.AntiAffinity {
				if t := &p.Shape.AntiAffinity[j]; chosen(t, pod) && close(t, other) {
					return true
				}
			}
		}
	}
	return false
}

// onNew tries every pool without limits and minValues, type, offering and rack.
func (n *naive) onNew(pod *cluster.Pod) bool {
	for i := range n.p.View.Pools {
		pool := &n.p.View.Pools[i]
		minimums := slices.ContainsFunc(slices.Collect(maps.Values(pool.Requirements)), func(r reqs.Req) bool { return r.MinValues > 0 })
		if pool.Closed || minimums || pool.NodeLimit != nil || len(pool.Limits) > 0 {
			continue
		}
		racks := []string{""}
		if r, requested := pool.Requirements["example.com/rack"]; requested {
			racks = slices.Concat(r.Values, []string{"r1"})[:max(1, len(r.Values))] // where any will do, r1
		}
		for j := range pool.Types {
			for k := range pool.Types[j].Offerings {
				if slices.ContainsFunc(racks, func(rack string) bool { return n.tryNew(pod, pool, &pool.Types[j], &pool.Types[j].Offerings[k], rack) }) {
					return true
				}
			}
		}
	}
	return false
}

func (n *naive) tryNew(pod *cluster.Pod, pool *cluster.Pool, t *catalog.InstanceType, o *catalog.Offering, rack string) bool {
	if !o.Available || o.Reservation != "" {
		return false
	}
	pinned := reqs.Set{zone: in(o.Zone), capacity: in(o.CapacityType), corev1.LabelInstanceTypeStable: in(t.Name)}
	if rack != "" {
		pinned["example.com/rack"] = in(rack)
	}
	if _, conflict := pool.Requirements.Conflict(pinned); conflict {
		return false
	}
	if _, conflict := pool.Requirements.Conflict(t.Labels); conflict {
		return false
	}
	needs := pool.Requirements.Intersect(pinned)
	s := &stand{labels: map[string]string{host: "new-" + strconv.Itoa(len(n.nodes))}, taints: pool.Taints}
	for key, r := range t.Labels.Intersect(needs) {
		if len(r.Values) == 1 && !r.Not {
			s.labels[key] = r.Values[0]
		}
	}
	sum := pod.Shape.Requests
	for _, d := range n.p.View.Daemons {
		if !n.daemonCounts(d.Shape, pool, t) {
			continue
		}
		sum = resources.Add(sum, d.Shape.Requests)
		if hostPortsConflict(d.Shape, pod.Shape) {
			return false
		}
	}
	claims := map[string]bool{}
	for _, v := range pod.Shape.Volumes {
		claims[v.Claim] = true
	}
	limit, limited := t.VolumeLimits["disk.example"]
	have := t.Allocatable()
	if !resources.Fits(&sum, &have) || limited && len(claims) > limit || !n.agrees(s, pod) {
		return false
	}
	offer := solve.Offer{Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price}
	s.pods = []cluster.Pod{*pod}
	n.nodes = append(n.nodes, s)
	n.plan.Create = append(n.plan.Create, solve.NewNode{Pool: pool.Name, Needs: needs, Types: []string{t.Name}, Requests: sum, Pods: []cluster.PodKey{pod.Key}, Offer: offer, Overlaid: t.Overlaid, CapacityOverlaid: t.CapacityOverlaid})
	return true
}

// daemonCounts is SC-23.
func (n *naive) daemonCounts(d *cluster.Shape, pool *cluster.Pool, t *catalog.InstanceType) bool {
	side := pool.Requirements.Clone()
	side["karpenter.sh/registered"], side["karpenter.sh/initialized"] = in("true"), in("true")
	return tolerated(d, pool.Taints) && slices.ContainsFunc(d.Required, func(term reqs.Set) bool {
		_, fits := reqs.Compatible(term, side, reqs.Options{AllowUndefined: n.p.View.Words.WellKnownKeys})
		_, conflict := t.Labels.Conflict(term)
		return fits && !conflict
	})
}
