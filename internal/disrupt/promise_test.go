package disrupt_test

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// costing is a view of a cluster of one node that costs so much.
func costing(price float64, at time.Duration) disrupt.View {
	shape := &cluster.Shape{Key: "w"}
	return disrupt.View{Now: noon.Add(at), Cluster: &cluster.Snapshot{Nodes: []cluster.Node{
		{Name: "a", Price: price, Pods: []cluster.Pod{{Shape: shape}, {Shape: shape}}},
	}}}
}

// Issue 6, no oscillation: what moves promised is looked at for half an hour, and a promise that was not
// kept counts for a day.
func TestPromises(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		looks  []disrupt.View
		counts bool
		broken bool
	}{
		"just made":              {looks: []disrupt.View{costing(0.8, time.Minute)}, counts: true},
		"the scheduler objected": {looks: []disrupt.View{costing(1, 5*time.Minute)}, counts: true, broken: true},
		"and for a day after":    {looks: []disrupt.View{costing(1, 5*time.Minute), costing(0.8, 23*time.Hour)}, counts: true, broken: true},
		"not for longer":         {looks: []disrupt.View{costing(1, 5*time.Minute), costing(0.8, 25*time.Hour)}},
		"kept":                   {looks: []disrupt.View{costing(0.8, 31*time.Minute)}},
		"kept, others cost more": {looks: []disrupt.View{costing(0.8, 31*time.Minute), costing(1, time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p disrupt.Promises
			p.Note(&disrupt.Decision{At: noon, Workload: disrupt.Workload(costing(1, 0).Cluster), Promised: 0.8})
			var made map[uint64]disrupt.Promise
			for i := range tc.looks {
				made = p.Observe(&tc.looks[i])
			}
			if len(made) > 0 != tc.counts {
				t.Fatalf("promises = %v, want one: %v", made, tc.counts)
			}
			for _, m := range made {
				if m.Broken != tc.broken {
					t.Errorf("broken = %v, want %v", m.Broken, tc.broken)
				}
			}
		})
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
