package disrupt_test

import (
	"strings"
	"testing"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// after is a cluster some time after noon, when a move has begun: what it costs, and its nodes.
func after(at time.Duration, price float64, nodes ...cluster.ManagedNode) disrupt.View {
	shape := &cluster.Shape{Key: "w"}
	return disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon.Add(at), Nodes: nodes, Cluster: &cluster.Snapshot{Nodes: []cluster.Node{
		{Name: "a", Price: price, Pods: []cluster.Pod{{Shape: shape}, {Shape: shape}}},
	}}}}
}

func grown(v disrupt.View) disrupt.View {
	v.Cluster.Nodes[0].Pods = append(v.Cluster.Nodes[0].Pods, cluster.Pod{Shape: &cluster.Shape{Key: "w"}})
	return v
}

// Issue 6, no oscillation: what moves brought is looked at for half an hour, and what did not last counts
// for a day. Moves that were not made, prices and other workloads do not.
func TestMoveOutcomes(t *testing.T) {
	t.Parallel()
	old := cluster.ManagedNode{Node: cluster.Node{Name: "n1", Claim: "c1"}, Created: noon.Add(-time.Hour)}
	removed, bought := old, cluster.ManagedNode{Node: cluster.Node{Name: "n2", Claim: "c2"}, Created: noon.Add(3 * time.Minute)}
	removed.BeingRemoved = true
	deleting, gone := after(time.Minute, 0.8, removed), after(2*time.Minute, 0.8)
	for name, tc := range map[string]struct {
		looks  []disrupt.View
		counts bool
		broken bool
	}{
		"on its way":                 {looks: []disrupt.View{deleting}},
		"given up":                   {looks: []disrupt.View{after(time.Minute, 1, old), after(time.Hour, 1, bought)}},
		"given up on the way":        {looks: []disrupt.View{deleting, after(2*time.Minute, 1, old), after(time.Hour, 1, bought)}},
		"just made":                  {looks: []disrupt.View{deleting, gone}, counts: true},
		"another node was launched":  {looks: []disrupt.View{deleting, gone, after(5*time.Minute, 1, bought)}, counts: true, broken: true},
		"and for a day after":        {looks: []disrupt.View{deleting, gone, after(5*time.Minute, 1, bought), after(23*time.Hour, 0.8)}, counts: true, broken: true},
		"not for longer":             {looks: []disrupt.View{deleting, gone, after(5*time.Minute, 1, bought), after(25*time.Hour, 0.8)}},
		"prices rose":                {looks: []disrupt.View{deleting, gone, after(5*time.Minute, 1)}, counts: true},
		"it lasted":                  {looks: []disrupt.View{deleting, gone, after(33*time.Minute, 0.8)}},
		"it lasted, launched later":  {looks: []disrupt.View{deleting, gone, after(33*time.Minute, 0.8), after(time.Hour, 1, bought)}},
		"pods came, then went again": {looks: []disrupt.View{deleting, gone, grown(after(4*time.Minute, 1, bought)), after(5*time.Minute, 1, bought)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p disrupt.OutcomeHistory
			p.RecordMoves(&disrupt.Decision{At: noon, Commands: []disrupt.Command{{Reason: karpv1.ReasonUnderutilized, Remove: []disrupt.Candidate{{Node: "n1", Claim: "c1"}}}}})
			var made map[uint64]disrupt.MoveOutcome
			for i := range tc.looks {
				made = p.Observe(&tc.looks[i])
			}
			if len(made) > 0 != tc.counts {
				t.Fatalf("outcomes = %v, want one: %v", made, tc.counts)
			}
			for _, m := range made {
				if m.Reverted != tc.broken {
					t.Errorf("broken = %v, want %v", m.Reverted, tc.broken)
				}
			}
		})
	}
}

// Several moves of a decision have one expected cost together. If one of them is given up, the others are not to blame
// for what it would have saved.
func TestOutcomesWithoutCancelledMoves(t *testing.T) {
	t.Parallel()
	const one, two = "c1", "c2"
	claim := func(name string, deleting bool) cluster.ManagedNode {
		return cluster.ManagedNode{Node: cluster.Node{Name: name, Claim: name}, Created: noon.Add(-time.Hour), BeingRemoved: deleting}
	}
	replacement := cluster.ManagedNode{Node: cluster.Node{Name: "n3", Claim: "c3"}, Created: noon.Add(time.Minute)}
	for name, tc := range map[string]struct {
		price       [3]float64 // a minute after another
		goes, still bool       // whether the other does at first, and in the second minute
		broken      bool
	}{
		"the other was given up later":            {price: [3]float64{1.6, 1.6, 1.8}, goes: true, still: true},
		"the other was given up at the same time": {price: [3]float64{1.6, 1.8, 1.8}, goes: true},
		"the other was given up before":           {price: [3]float64{1.8, 1.8, 1.8}},
		"and a node was launched":                 {price: [3]float64{1.8, 1.8, 2}, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p disrupt.OutcomeHistory
			move := func(claim string) disrupt.Command {
				return disrupt.Command{Reason: karpv1.ReasonUnderutilized, Saves: 0.2, Remove: []disrupt.Candidate{{Node: claim, Claim: claim}}}
			}
			p.RecordMoves(&disrupt.Decision{At: noon, After: 1.6, Commands: []disrupt.Command{move(one), move(two)}})
			var made map[uint64]disrupt.MoveOutcome
			for i, nodes := range [][]cluster.ManagedNode{
				{claim(one, true), claim(two, tc.goes)}, {claim(two, tc.still), replacement}, {claim(two, false), replacement},
			} {
				v := after(time.Duration(i+1)*time.Minute, tc.price[i], nodes...)
				made = p.Observe(&v)
			}
			if len(made) != 1 {
				t.Fatalf("outcomes %v, want one", made)
			}
			for _, m := range made {
				if m.Reverted != tc.broken {
					t.Errorf("broken = %v, want %v (%+v)", m.Reverted, tc.broken, m)
				}
			}
		})
	}
}

// Moves are judged at the prices at which they were decided: that these rose while a node was launched for
// something else says nothing.
func TestOutcomesAtThePricesOfTheDecision(t *testing.T) {
	t.Parallel()
	bought := cluster.ManagedNode{Node: cluster.Node{Name: "n2", Claim: "c2"}, Created: noon.Add(3 * time.Minute)}
	for name, tc := range map[string]struct {
		dear   []float64 // the nodes, 10 minutes later
		broken bool
	}{
		"prices rose":                {dear: []float64{0.84}},
		"prices rose, one node more": {dear: []float64{0.84, 0.84}, broken: true},
		"one node more":              {dear: []float64{0.8, 0.8}, broken: true},
		"the same":                   {dear: []float64{0.8}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := func(when time.Duration, prices []float64, nodes ...cluster.ManagedNode) *disrupt.View {
				v := after(when, prices[0], nodes...)
				for _, price := range prices[1:] {
					v.Cluster.Nodes = append(v.Cluster.Nodes, cluster.Node{Name: "b", Price: price})
				}
				for i := range v.Cluster.Nodes {
					v.Cluster.Nodes[i].InstanceType = "m5.large"
				}
				return &v
			}
			var p disrupt.OutcomeHistory
			p.Observe(at(0, []float64{0.8, 0.8}, cluster.ManagedNode{Node: cluster.Node{Claim: "c1"}}))
			p.RecordMoves(&disrupt.Decision{At: noon, After: 0.8, Commands: []disrupt.Command{{Reason: karpv1.ReasonUnderutilized, Remove: []disrupt.Candidate{{Node: "n1", Claim: "c1"}}}}})
			p.Observe(at(time.Minute, []float64{0.8, 0.8}, cluster.ManagedNode{Node: cluster.Node{Claim: "c1"}, BeingRemoved: true}))
			p.Observe(at(2*time.Minute, []float64{0.8}))
			for _, made := range p.Observe(at(10*time.Minute, tc.dear, bought)) {
				if made.Reverted != tc.broken {
					t.Errorf("broken = %v, want %v", made.Reverted, tc.broken)
				}
			}
		})
	}
}

// Moves that are not made because they failed before are reported, on each node.
func TestG13_PromisedBeforeIsReported(t *testing.T) {
	t.Parallel()
	v := scripted(t, "type name=big cpu=8 price=8\ntype name=small cpu=2 price=1\npool name=default\nnode name=n1 pool=default type=big\nbound name=p1 cpu=1 node=n1\n")
	v.Outcomes = map[uint64]disrupt.MoveOutcome{disrupt.Workload(v.Cluster): {Cost: 1, At: noon, Reverted: true}}
	d := disrupt.Next(v, never)
	if len(d.Commands) != 0 || len(d.Events) != 1 {
		t.Fatalf("commands %+v, told %+v", d.Commands, d.Events)
	}
	n := d.Events[0]
	if n.Node != "n1" || n.Claim == "" || n.Event.Reason != event.Unconsolidatable || n.Event.Key != string(reason.PromisedBefore) || !strings.HasPrefix(n.Event.Text, "node/n1: moves of the same pods") {
		t.Errorf("reported %+v", n)
	}
}

// The same pods under other names and on other nodes are the same workload.
func TestWorkload(t *testing.T) {
	t.Parallel()
	w, x := &cluster.Shape{Key: "w"}, &cluster.Shape{Key: "x"}
	pod := func(name string, s *cluster.Shape) cluster.Pod {
		return cluster.Pod{Key: cluster.PodKey{Namespace: "default", Name: name}, Shape: s}
	}
	one := &cluster.Snapshot{Nodes: []cluster.Node{{Pods: []cluster.Pod{pod("a", w), pod("b", x)}}, {Pods: []cluster.Pod{pod("c", w)}}}}
	moved := &cluster.Snapshot{Nodes: []cluster.Node{{Pods: []cluster.Pod{pod("d", w)}}}, Pending: []cluster.Pod{pod("e", w), pod("f", x)}}
	other := &cluster.Snapshot{Nodes: []cluster.Node{{Pods: []cluster.Pod{pod("a", w), pod("b", x), pod("c", x)}}}}
	ending := &cluster.Snapshot{Nodes: []cluster.Node{{Pods: []cluster.Pod{pod("a", w), pod("b", x), pod("c", w), {Shape: x, Terminating: true}, {Shape: x, Daemon: true}}}}}
	if a, b := disrupt.Workload(one), disrupt.Workload(moved); a != b {
		t.Errorf("moved pods are another workload: %d and %d", a, b)
	}
	if disrupt.Workload(one) == disrupt.Workload(other) {
		t.Error("other pods are the same workload")
	}
	if disrupt.Workload(one) != disrupt.Workload(ending) {
		t.Error("pods that end, or that every node has, count")
	}
}
