package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// checker holds one view and the effect of the plan on it.
type checker struct {
	view         *cluster.Snapshot
	policy       solve.Policy
	offerings    map[string]*poolOfferings
	places       []*place // nodes that exist, in the order of the view, then new ones in the order of the plan
	sharedLimits sharedLimits
	prefix       string // of subjects, such as "moves[2] "
	found        []Violation

	overCapacity func() bool // capacityTopology, worked out once
}

// Plan returns what is wrong with a plan, in a fixed order; nothing if it obeys every rule. It is
// total: a problem or a plan that makes no sense gives violations, never a panic.
func Plan(p solve.Problem, plan solve.Plan) []Violation {
	c := newChecker(p.View, p.Policy)
	if plan.Version != c.view.Version {
		c.add(VersionWrong, "", "plan", strconv.FormatUint(c.view.Version, 10), strconv.FormatUint(plan.Version, 10))
	}
	batch := newBatch(p.Pods, p.Moved)
	c.release(batch)
	c.bind(plan.Bind, batch)
	c.create(plan.Create, batch)
	c.unplaced(plan, batch)
	c.everyPodOnce(batch)
	c.checkPlaces()
	c.cost(plan)
	return c.found
}

func newChecker(view *cluster.Snapshot, policy solve.Policy) *checker {
	if view == nil {
		view = &cluster.Snapshot{}
	}
	c := &checker{view: view, policy: policy, offerings: offeringsByPool(view)}
	c.sharedLimits = sharedLimitsOf(view)
	for i := range view.Nodes {
		n := &view.Nodes[i]
		at := &place{name: "node/" + n.Name, words: view.Words, node: n, labels: reqs.FromLabels(n.Labels, view.Words), terminating: n.Deleting}
		for j := range n.Pods {
			at.stay = append(at.stay, &n.Pods[j])
		}
		c.places = append(c.places, at)
	}
	return c
}

func (c *checker) add(code Code, rule, subject, want, have string) {
	c.found = append(c.found, Violation{Code: code, Rule: rule, Subject: c.prefix + subject, Want: want, Have: have})
}

// entry is a pod that the plan has to place.
type entry struct {
	pod    *cluster.Pod
	given  int  // how often the problem has it
	placed int  // how often the plan has it
	moved  bool // from a node that would be removed: neither pending nor from a terminating node
}

// batchPods is the batch, in the order given.
type batchPods struct {
	order []cluster.PodKey
	by    map[cluster.PodKey]*entry
}

func newBatch(pods, moved []cluster.Pod) *batchPods {
	r := &batchPods{by: make(map[cluster.PodKey]*entry, len(pods)+len(moved))}
	for i := range pods {
		r.add(&pods[i], false)
	}
	for i := range moved {
		r.add(&moved[i], true)
	}
	return r
}

func (r *batchPods) add(p *cluster.Pod, moved bool) {
	if e := r.by[p.Key]; e != nil {
		e.given++
		return
	}
	r.order = append(r.order, p.Key)
	r.by[p.Key] = &entry{pod: p, given: 1, moved: moved}
}

// release removes the pods of the batch from the topology counts of the nodes they run on now (SC-27). They still
// take capacity there, unless the node is removed.
func (c *checker) release(batch *batchPods) {
	for _, at := range c.places {
		var stay []*cluster.Pod
		for _, p := range at.stay {
			if batch.by[p.Key] == nil {
				stay = append(stay, p)
			} else {
				at.leave = append(at.leave, p)
			}
		}
		at.stay = stay
	}
}

// recordPlaced counts the pod as placed and returns it, or nil if the batch does not have it.
func (c *checker) recordPlaced(batch *batchPods, key cluster.PodKey) *entry {
	e := batch.by[key]
	if e == nil {
		c.add(PodUnknown, "", "pod/"+key.String(), "a pod of the problem", "none of that name")
		return nil
	}
	e.placed++
	return e
}

func (c *checker) bind(binds []solve.Bind, batch *batchPods) {
	if !slices.IsSortedFunc(binds, func(a, b solve.Bind) int { return byKey(a.Pod, b.Pod) }) {
		c.add(Disordered, "", "bind", "by pod", "another order")
	}
	nodes := map[string]*place{}
	for _, at := range c.places {
		if at.node != nil && nodes[at.node.Name] == nil {
			nodes[at.node.Name] = at
		}
	}
	for _, b := range binds {
		e := c.recordPlaced(batch, b.Pod)
		at := nodes[b.Node]
		switch {
		case at == nil:
			c.add(NodeUnknown, "scheduling 6.1", "pod/"+b.Pod.String(), "a node of the snapshot", b.Node)
		case e == nil:
		case at.terminating:
			c.add(NodeLeaving, "scheduling 3.2", "pod/"+b.Pod.String(), "a node that stays", b.Node)
		case e.moved && (at.node.Settling || !at.node.Initialized):
			c.add(NodeSettling, "scheduling 6.1", "pod/"+b.Pod.String(), "a node that is up and outside consolidateAfter", b.Node)
		default:
			at.come = append(at.come, e.pod)
		}
	}
}

func (c *checker) create(nodes []solve.NewNode, batch *batchPods) {
	for i := range nodes {
		n := &nodes[i]
		name := "create[" + strconv.Itoa(i) + "]"
		at := &place{name: name, host: c.prefix + name, words: c.view.Words, plan: n, offerings: c.offerings[n.Pool]}
		for _, key := range n.Pods {
			if e := c.recordPlaced(batch, key); e != nil {
				at.come = append(at.come, e.pod)
			}
		}
		if at.offerings != nil {
			at.typeCache = at.offerings.typeCacheOf(n)
			at.labelled = at.typeCache.labelled
			for _, name := range n.Types {
				if t := at.offerings.types[name]; t != nil {
					at.types = append(at.types, t)
				}
			}
		}
		c.places = append(c.places, at)
	}
}

func (c *checker) unplaced(plan solve.Plan, batch *batchPods) {
	if !slices.IsSortedFunc(plan.Unplaced, func(a, b solve.Unplaced) int { return byKey(a.Pod, b.Pod) }) {
		c.add(Disordered, "", "unplaced", "by pod", "another order")
	}
	for i := range plan.Unplaced {
		u := &plan.Unplaced[i]
		subject := "pod/" + u.Pod.String()
		c.recordPlaced(batch, u.Pod)
		if len(u.Why) == 0 {
			c.add(ReasonMissing, "scheduling 6.3", subject, "a reason", "none")
		}
		if u.Deferred && (c.policy.ReservedFallback || c.policy.NoReserved) {
			c.add(DeferredWrong, "SC-46", subject, "no waiting for reserved capacity", "deferred")
		}
	}
}

// everyPodOnce counts placements. A pod that the problem lists twice may be placed once or twice, because the two
// entries cannot be distinguished.
func (c *checker) everyPodOnce(batch *batchPods) {
	for _, key := range batch.order {
		e := batch.by[key]
		switch {
		case e.placed == 0:
			c.add(PodLost, "", "pod/"+key.String(), "a place or a reason", "neither")
		case e.placed > e.given:
			c.add(PodTwice, "", "pod/"+key.String(), "one place", strconv.Itoa(e.placed))
		}
	}
}

// checkPlaces checks every place that the plan touches, then at what places share.
func (c *checker) checkPlaces() {
	c.overCapacity = sync.OnceValue(c.capacityTopology)
	for _, at := range c.places {
		switch {
		case at.node != nil && len(at.come) > 0:
			c.oldNode(at)
		case at.node == nil && !at.judged:
			c.newNode(at)
		}
	}
	c.checkLimits()
	c.reservations()
	c.checkSpreads()
	c.checkAffinities()
	c.antiAffinities()
	c.checkDevices()
}

// tolerance is how far apart two sums of prices may be because they were added in another order.
const tolerance = 1e-6

func almostEqual(a, b float64) bool {
	return math.Abs(a-b) <= tolerance*max(1, math.Abs(a), math.Abs(b))
}

func (c *checker) cost(plan solve.Plan) {
	sum := 0.0
	for i := range plan.Create {
		sum += plan.Create[i].Offer.Price
	}
	if !almostEqual(sum, plan.Cost) {
		c.add(CostWrong, "", "plan", fmt.Sprint(sum), fmt.Sprint(plan.Cost))
	}
	if len(plan.Unplaced) == 0 && plan.Bound > plan.Cost && !almostEqual(plan.Bound, plan.Cost) {
		c.add(BoundWrong, "", "plan", fmt.Sprintf("at most %v", plan.Cost), fmt.Sprint(plan.Bound))
	}
}

func byKey(a, b cluster.PodKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
