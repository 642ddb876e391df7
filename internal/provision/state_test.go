package provision

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// buyFor is a plan that launches a node for each pod of a problem.
func buyFor(p solve.Problem) check.Verified {
	verified := check.Verified{Sound: true}
	for i := range p.Pods {
		verified.Plan.Create = append(verified.Plan.Create, solve.NewNode{Pool: "p", Pods: []cluster.PodKey{p.Pods[i].Key}})
	}
	return verified
}

// FM B14: two nodes that do not help a pod are all it gets for five minutes, and then the time doubles. Others are planned
// for as always.
func TestFM_B14_NodesThatDoNotHelp(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pod, other := cluster.Pod{Key: cluster.PodKey{Name: "pod"}, UID: "1", Shape: &cluster.Shape{}}, cluster.Pod{Key: cluster.PodKey{Name: "other"}, UID: "2", Shape: &cluster.Shape{}}
	var s State
	view := &cluster.Snapshot{Pending: []cluster.Pod{pod, other}}
	var bought []time.Duration
	for at := time.Duration(0); at < 30*time.Minute; at += 10 * time.Second {
		now, problems := start.Add(at), 0
		round := s.Begin(Request{View: view, Pods: view.Pending})
		plan, done := solve.Plan{}, false
		for ; !done; problems++ {
			plan, done = round.Take(buyFor(round.Problem()), now)
		}
		refused := len(plan.Unplaced) == 1 && plan.Unplaced[0].Pod == pod.Key && plan.Unplaced[0].Why[0].Code == reason.RoomTaken
		if len(plan.Create)+len(plan.Unplaced) != 2 || len(plan.Unplaced) > 0 && (!refused || problems != 2) {
			t.Fatalf("after %s, %d problems: %d nodes, unplaced %v", at, problems, len(plan.Create), plan.Unplaced)
		}
		if len(plan.Create) < 2 {
			continue
		}
		bought = append(bought, at)
		claim := "claim-" + at.String()
		s.RecordOrders([]OrderResult{{Node: solve.NewNode{Pods: []cluster.PodKey{pod.Key}}, Claim: claim}}, view, now)
		view.Nodes = append(view.Nodes, cluster.Node{Name: claim, Claim: claim, Initialized: true})
	}
	for i, want := range []time.Duration{0, 10 * time.Second, 5*time.Minute + 10*time.Second, 15*time.Minute + 10*time.Second} {
		if len(bought) != 4 || bought[i] != want {
			t.Fatalf("nodes after %v, want number %d after %s", bought, i+1, want)
		}
	}
}

// What follows from orders that did not work.
func TestRecordOrders(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		outcome Outcome
		replan  bool
		counts  bool
	}{
		"created":                  {outcome: Created, counts: true},
		"no pod needs it any more": {outcome: Obsolete},
		"others were faster":       {outcome: Outdated, replan: true},
		"denied":                   {outcome: Denied, replan: true},
		"failed":                   {outcome: Failed},
	} {
		var s State
		view := &cluster.Snapshot{Pending: []cluster.Pod{{Key: cluster.PodKey{Name: "pod"}, UID: "1", Shape: &cluster.Shape{}}}}
		s.Begin(Request{View: view, Pods: view.Pending})
		order := OrderResult{Node: solve.NewNode{Pods: []cluster.PodKey{{Name: "pod"}, {Name: "runs on a terminating node"}}}, Claim: "c", Outcome: tc.outcome}
		for _, list := range [][]OrderResult{{order}, {order, {Outcome: Failed}}} {
			if got := s.RecordOrders(list, view, time.Time{}); got != tc.replan {
				t.Errorf("%s: plans again %v, want %v", name, got, tc.replan)
			}
		}
		if (len(s.purchases) == 1) != tc.counts {
			t.Errorf("%s: nodes are known for %d pods", name, len(s.purchases))
		}
	}
}

// A plan that is cut off, or that breaks a rule with no pod to blame, has the next ones made for some of the pods.
func TestRoundPostponesPods(t *testing.T) {
	t.Parallel()
	for name, verified := range map[string]check.Verified{"cut off": {Sound: true, Plan: solve.Plan{Partial: true}}, "unsound": {}} {
		var s State
		request := Request{View: &cluster.Snapshot{}, Pods: somePods(100), PlannedNodes: map[cluster.PodKey]string{{Namespace: "default", Name: "p001"}: "n"}}
		s.Begin(request).Take(verified, time.Time{})
		round := s.Begin(request)
		problem := round.Problem()
		plan, done := round.Take(check.Verified{Sound: true}, time.Time{})
		if n := len(problem.Pods); !done || n == 0 || n == 100 || n+len(plan.Unplaced) != 100 || plan.Unplaced[0].Why[0].Code != reason.OutOfTime || len(problem.PlannedBinds) != 1 {
			t.Errorf("%s: %d pods are planned for, %d are postponed", name, len(problem.Pods), len(plan.Unplaced))
		}
	}
}
