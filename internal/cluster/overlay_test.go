package cluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

func named(name string) cluster.Pod {
	return cluster.Pod{Key: cluster.PodKey{Namespace: "x", Name: name}}
}

// places lists where pods are; pending ones are on "".
func places(s *cluster.Snapshot) map[string][]string {
	out := map[string][]string{}
	for _, n := range s.Nodes {
		for _, p := range n.Pods {
			out[n.Name] = append(out[n.Name], p.Key.Name)
		}
	}
	for _, p := range s.Pending {
		out[""] = append(out[""], p.Key.Name)
	}
	return out
}

func TestWithMovesPods(t *testing.T) {
	t.Parallel()
	ending := named("c")
	ending.Terminating = true
	s := &cluster.Snapshot{
		Nodes: []cluster.Node{
			{Name: "a", Pods: []cluster.Pod{named("b"), ending}, Deleting: true},
			{Name: "n", Pods: []cluster.Pod{named("d")}},
		},
		Pending: []cluster.Pod{named("e"), named("f")},
	}
	before := places(s)
	at := map[cluster.PodKey]string{ending.Key: "n", named("e").Key: "n", named("f").Key: "nowhere"}
	view := s.With([]cluster.Pod{named("b"), ending, named("e"), named("f")}, at)
	if diff := cmp.Diff(map[string][]string{"a": {"b"}, "n": {"c", "d", "e"}, "": {"f"}}, places(view)); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if view.Node("n").Pods[0].Terminating {
		t.Error("a pod that has come back is still ending")
	}
	if diff := cmp.Diff(before, places(s)); diff != "" {
		t.Errorf("the snapshot itself changed:\n%s", diff)
	}
	if got := s.With(nil, nil); got == s || len(got.Nodes) != 2 {
		t.Errorf("With nothing = %v, want a view of the same", got)
	}
}

// V15-47: a slot is given back to a reservation, unless it is unavailable for another reason.
func TestVacated(t *testing.T) {
	t.Parallel()
	types := []catalog.InstanceType{{Name: "m", Offerings: []catalog.Offering{
		{Reservation: "cr-1", Available: true}, {Reservation: "cr-2", Available: true}, {Reservation: "cr-1"}, {Available: true},
	}}}
	s := &cluster.Snapshot{Pools: []cluster.Pool{{Name: "a", Types: types}, {Name: "b", Types: types}, {Name: "c"}}}
	view := s.WithFreedSlot("cr-1")
	var got []int
	for _, o := range view.Pools[0].Types[0].Offerings {
		got = append(got, o.Remaining)
	}
	if diff := cmp.Diff([]int{1, 0, 0, 0}, got); diff != "" {
		t.Errorf("remaining (-want +got):\n%s", diff)
	}
	if &view.Pools[0].Types[0] != &view.Pools[1].Types[0] {
		t.Error("pools with the same types no longer share them")
	}
	if types[0].Offerings[0].Remaining != 0 {
		t.Error("the catalogue itself changed")
	}
}

func TestSettled(t *testing.T) {
	t.Parallel()
	s := &cluster.Snapshot{Nodes: []cluster.Node{{Name: "a"}, {Name: "b", Settling: true}, {Name: "c"}}}
	view := s.WithSettling(map[string]bool{"a": true})
	if !view.Node("a").Settling || !view.Node("b").Settling || view.Node("c").Settling || s.Node("a").Settling || s.Node("x") != nil {
		t.Errorf("Settled = %+v of %+v", view.Nodes, s.Nodes)
	}
}
