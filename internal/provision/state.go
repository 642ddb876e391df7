package provision

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// State is what provisioning carries from one plan to the next. It ends with the process: a new one begins with the zero
// State.
type State struct {
	partitions podPartitions
	expected   expectations // of the last plan
	purchases  purchases    // for pending pods, and for virtual ones until a node has room for them

	virtual map[cluster.PodKey]string // UIDs of the virtual pods of the last round
	short   bool                      // BuffersShort
}

// Request is what a plan is made for.
type Request struct {
	View         *cluster.Snapshot
	Pods         []cluster.Pod             // to be placed
	Virtual      []cluster.Pod             // to be placed after them: pods that CapacityBuffers keep room for
	PlannedNodes map[cluster.PodKey]string // node where an earlier plan placed some of them
	Policy       solve.Policy
}

// Round is the making of one plan. It leaves out pods that nodes were launched for recently without success: the
// nodes were too small for them, or other pods took the capacity. Which pods are affected shows only in a plan, so a
// Round may have several problems to solve, one after another.
//
// Virtual pods are the last problem, on the cluster as it is after the plan for the real ones. So they take
// nothing that a real pod could use, and change nothing of its plan (CB-12). If that plan launches nodes, virtual pods wait
// for the next round: then the nodes count as they were ordered.
type Round struct {
	state   *State
	request Request
	pods    []cluster.Pod                    // of the next problem
	later   []cluster.Pod                    // of later partitions
	blocked map[cluster.PodKey]reason.Reason // pods that get no further node now

	real    *solve.Plan       // once it is made
	view    *cluster.Snapshot // with the plan for real pods carried out
	virtual solve.Plan
	waits   bool // virtual pods were not planned for
}

// Begin begins a round with the outcome of the nodes that were launched earlier.
func (s *State) Begin(r Request) *Round {
	if s.purchases == nil {
		s.purchases = purchases{}
	}
	s.virtual = make(map[cluster.PodKey]string, len(r.Virtual))
	for i := range r.Virtual {
		s.virtual[r.Virtual[i].Key] = r.Virtual[i].UID
	}
	s.purchases.observe(r.View.Nodes, slices.Concat(r.View.Pending, r.Virtual), r.View.Resources)
	round := &Round{state: s, request: r, blocked: map[cluster.PodKey]reason.Reason{}}
	round.pods, round.later = s.partitions.split(r.Pods, r.PlannedNodes)
	if len(r.Pods) == 0 && len(r.Virtual) > 0 {
		round.beginVirtual(solve.Plan{Version: r.View.Version})
	}
	return round
}

// Problem is what is to be solved next.
func (r *Round) Problem() solve.Problem {
	problem := solve.Problem{View: r.request.View, Pods: r.pods, Policy: r.request.Policy}
	if r.real != nil {
		problem.View = r.view
	}
	for _, pod := range slices.SortedFunc(maps.Keys(r.request.PlannedNodes), cluster.PodKey.Compare) {
		if _, virtual := r.state.virtual[pod]; virtual != (r.real != nil) {
			continue
		}
		problem.PlannedBinds = append(problem.PlannedBinds, solve.Bind{Pod: pod, Node: r.request.PlannedNodes[pod]})
	}
	return problem
}

// Take takes the solution of the problem. It returns the plan of the round, or false if another problem is to be
// solved. The plan is for real pods; Virtual has that for the others.
func (r *Round) Take(verified check.Verified, now time.Time) (solve.Plan, bool) {
	if r.real != nil {
		return *r.real, r.takeVirtual(verified.Plan, now)
	}
	s, plan := r.state, verified.Plan
	s.partitions.next(plan.Partial || !verified.Sound)
	plan.Unplaced = append(plan.Unplaced, postponed(r.later)...)
	blocked := s.purchases.blocked(plan, now)
	if len(blocked) == 0 {
		plan.Unplaced = append(plan.Unplaced, refusedBuyers(r.blocked)...)
		switch {
		case len(r.request.Virtual) == 0:
			s.short = false
			return plan, true
		case len(plan.Create) > 0 || plan.Partial || len(r.later) > 0:
			r.waits = true
			return plan, true
		}
		r.beginVirtual(plan)
		return plan, false
	}
	maps.Copy(r.blocked, blocked)
	r.pods, r.later = s.partitions.split(without(r.request.Pods, r.blocked), r.request.PlannedNodes)
	return solve.Plan{}, false
}

// Outcome is how the attempt to create the claim of a planned node ended.
type Outcome int8

// Outcomes of an order.
const (
	Created  Outcome = iota
	Obsolete         // no pod needs the node any more
	Outdated         // others were faster than the plan: another one is due
	Denied           // the API server denies claims of the pool
	Failed           // for another reason
)

// OrderResult is a planned node and what became of it.
type OrderResult struct {
	Node    solve.NewNode
	Claim   string // that was created
	Outcome Outcome
}

// RecordOrders records the outcome of the nodes of a plan, and reports whether to plan again soon: the next plan sees what
// others did, or uses other offerings.
func (s *State) RecordOrders(list []OrderResult, view *cluster.Snapshot, now time.Time) (replan bool) {
	uids := make(map[cluster.PodKey]string, len(view.Pending))
	for i := range view.Pending {
		uids[view.Pending[i].Key] = view.Pending[i].UID
	}
	maps.Copy(uids, s.virtual)
	for _, o := range list {
		switch o.Outcome {
		case Created:
			s.purchases.recordPurchase(o.Node.Pods, uids, o.Claim, now)
		case Outdated, Denied:
			replan = true
		case Obsolete, Failed: // the next plan comes by itself
		}
	}
	return replan
}

// Undersized returns the nodes that are too small for pods of a plan, and counts the pods.
func (s *State) Undersized(plan solve.Plan) (nodes []string, pods int) {
	return s.purchases.undersized(plan)
}

// Displaced counts the pods that need a new node although an earlier plan reserved capacity for them: the scheduler
// bound other pods there, and they leave too little headroom.
func (s *State) Displaced(plan solve.Plan, planned map[cluster.PodKey]string) int {
	n := 0
	for i := range plan.Create {
		for _, pod := range plan.Create[i].Pods {
			if _, had := planned[pod]; had && !s.purchases.cameUpSmall(pod) {
				n++
			}
		}
	}
	return n
}
