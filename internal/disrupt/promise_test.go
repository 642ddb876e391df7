package disrupt_test

import (
	"testing"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// after is a cluster some time after noon, when a move has begun: what it costs, and its nodes.
func after(at time.Duration, price float64, nodes ...disrupt.Node) disrupt.View {
	shape := &cluster.Shape{Key: "w"}
	return disrupt.View{Now: noon.Add(at), Nodes: nodes, Cluster: &cluster.Snapshot{Nodes: []cluster.Node{
		{Name: "a", Price: price, Pods: []cluster.Pod{{Shape: shape}, {Shape: shape}}},
	}}}
}

func grown(v disrupt.View) disrupt.View {
	v.Cluster.Nodes[0].Pods = append(v.Cluster.Nodes[0].Pods, cluster.Pod{Shape: &cluster.Shape{Key: "w"}})
	return v
}

// Issue 6, no oscillation: what moves brought is looked at for half an hour, and what did not last counts
// for a day. Moves that were not made, prices and other workloads do not.
func TestPromises(t *testing.T) {
	t.Parallel()
	old := disrupt.Node{Name: "n1", Claim: "c1", Created: noon.Add(-time.Hour)}
	goes, bought := old, disrupt.Node{Name: "n2", Claim: "c2", Created: noon.Add(3 * time.Minute)}
	goes.Going = true
	going, gone := after(time.Minute, 0.8, goes), after(2*time.Minute, 0.8)
	for name, tc := range map[string]struct {
		looks  []disrupt.View
		counts bool
		broken bool
	}{
		"on its way":                 {looks: []disrupt.View{going}},
		"given up":                   {looks: []disrupt.View{after(time.Minute, 1, old), after(time.Hour, 1, bought)}},
		"given up on the way":        {looks: []disrupt.View{going, after(2*time.Minute, 1, old), after(time.Hour, 1, bought)}},
		"just made":                  {looks: []disrupt.View{going, gone}, counts: true},
		"another node was bought":    {looks: []disrupt.View{going, gone, after(5*time.Minute, 1, bought)}, counts: true, broken: true},
		"and for a day after":        {looks: []disrupt.View{going, gone, after(5*time.Minute, 1, bought), after(23*time.Hour, 0.8)}, counts: true, broken: true},
		"not for longer":             {looks: []disrupt.View{going, gone, after(5*time.Minute, 1, bought), after(25*time.Hour, 0.8)}},
		"prices rose":                {looks: []disrupt.View{going, gone, after(5*time.Minute, 1)}, counts: true},
		"it lasted":                  {looks: []disrupt.View{going, gone, after(33*time.Minute, 0.8)}},
		"it lasted, bought later":    {looks: []disrupt.View{going, gone, after(33*time.Minute, 0.8), after(time.Hour, 1, bought)}},
		"pods came, then went again": {looks: []disrupt.View{going, gone, grown(after(4*time.Minute, 1, bought)), after(5*time.Minute, 1, bought)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p disrupt.Promises
			p.Note(&disrupt.Decision{At: noon, Commands: []disrupt.Command{{Reason: karpv1.ReasonUnderutilized, Remove: []disrupt.Candidate{{Node: "n1", Claim: "c1"}}}}})
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
