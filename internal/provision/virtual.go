package provision

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// beginVirtual makes the virtual pods the next problem, on the cluster as it is after a plan for real pods.
func (r *Round) beginVirtual(plan solve.Plan) {
	at := make(map[cluster.PodKey]string, len(plan.Bind))
	for _, b := range plan.Bind {
		at[b.Pod] = b.Node
	}
	r.real, r.view, r.pods, r.later, r.blocked = &plan, r.request.View, r.request.Virtual, nil, map[cluster.PodKey]reason.Reason{}
	if len(at) > 0 {
		r.view = r.request.View.With(r.request.Pods, at)
	}
}

// takeVirtual takes the plan for virtual pods, and reports whether it is the last one. A virtual pod is never bound, so it
// counts as served once a node is up that has room for it. Only nodes that came up too small make it wait: that real pods
// use its room is what the room is for.
func (r *Round) takeVirtual(plan solve.Plan, now time.Time) bool {
	purchases := r.state.purchases
	for _, b := range plan.Bind {
		if n := r.view.Node(b.Node); n != nil && n.Initialized {
			delete(purchases, b.Pod)
		}
	}
	blocked := purchases.blocked(plan, now)
	maps.DeleteFunc(blocked, func(_ cluster.PodKey, why reason.Reason) bool { return why.Code != reason.NodeCameUpSmall })
	if len(blocked) > 0 {
		maps.Copy(r.blocked, blocked)
		r.pods = without(r.pods, r.blocked)
		return false
	}
	plan.Unplaced = append(plan.Unplaced, refusedBuyers(r.blocked)...)
	r.virtual, r.state.short = plan, short(plan, r.view)
	return true
}

// short reports whether a plan finds no room on nodes that are up for some virtual pod.
func short(plan solve.Plan, view *cluster.Snapshot) bool {
	return len(plan.Create)+len(plan.Unplaced) > 0 || slices.ContainsFunc(plan.Bind, func(b solve.Bind) bool {
		n := view.Node(b.Node)
		return n != nil && !n.Initialized
	})
}

// BuffersShort reports whether the last plan for virtual pods found no room on nodes that are up for some of them. A plan
// that has them wait for another round changes nothing of it.
func (s *State) BuffersShort() bool { return s.short }

// RecordNoPods records that there are neither real nor virtual pods, so that no plan is made.
func (s *State) RecordNoPods() { s.short = false }

// ReplanDue reports whether a plan is due every ReplanInterval, because real pods are pending or virtual ones have no room on
// nodes that are up: no trigger follows from time alone, and what kept them from their room may be over.
func ReplanDue(pending int, buffersShort bool) bool { return pending > 0 || buffersShort }

// Virtual returns the plan for virtual pods. It is false if they wait for the next round, because nodes are launched for
// real pods first.
func (r *Round) Virtual() (solve.Plan, bool) { return r.virtual, !r.waits }

// Launches returns the plan whose nodes are launched now, given that for real pods: the other one if it launches none, but
// never nodes of both. forVirtual says that it is the one for virtual pods.
func (r *Round) Launches(real solve.Plan) (plan solve.Plan, forVirtual bool) {
	if len(real.Create) > 0 {
		return real, false
	}
	return r.virtual, true
}

// ReplansAfter reports whether to plan again soon because virtual pods waited for these orders, which the next plan sees.
func (r *Round) ReplansAfter(orders []OrderResult) bool {
	return r.waits && slices.ContainsFunc(orders, func(o OrderResult) bool { return o.Outcome == Created })
}
