package disrupt

import (
	"testing"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/script"
)

// The pods that need a place without a node: held ones only when they are made to leave (V15-27), those
// of DaemonSets never. Those that are on their way are not of the node: provisioning gives them another
// place, and if a command did so too they would have two (G8).
func TestLeaving(t *testing.T) {
	t.Parallel()
	w := script.New()
	if _, err := w.Run(`
type name=m cpu=4 price=1
pool name=default
node name=n1 pool=default type=m
bound name=free cpu=1 node=n1
bound name=held cpu=1 node=n1 stays
bound name=logs cpu=100m node=n1 daemon
pod name=coming cpu=1
`); err != nil {
		t.Fatal(err)
	}
	view, pods := w.Snapshot()
	n := cluster.ManagedNode{Node: cluster.Node{Name: "n1"}, Pods: []cluster.ManagedPod{{Pod: podOf("default/free", 0), Moves: true}, {Pod: podOf("default/held", 0), Moves: true, ProtectedBy: karpv1.AnnotationDoNotDisrupt}, {Pod: podOf("default/logs", 0)}}}
	for name, tc := range map[string]struct {
		all  bool
		want int
	}{
		"those that may go": {false, 1},
		"all":               {true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newPlanningState(&View{DisruptionView: cluster.DisruptionView{Cluster: view, PodsToPlace: pods, Nodes: []cluster.ManagedNode{n}}}, nil)
			if !g.expectsPods("n1") {
				t.Fatalf("no pod is expected on n1: %v", g.expected)
			}
			h := g.relocatePods(&n, tc.all)
			if placed := len(h.Bind) + placedOn(h); !h.allPlaced() || placed != tc.want {
				t.Errorf("%d pods have a place, want %d: %+v", placed, tc.want, h)
			}
			if h := g.relocatePods(&cluster.ManagedNode{Node: cluster.Node{Name: "gone"}}, tc.all); !h.allPlaced() {
				t.Errorf("a node that is not there leaves pods behind: %+v", h)
			}
		})
	}
}

func placedOn(h relocation) int {
	count := 0
	for i := range h.Create {
		count += len(h.Create[i].Pods)
	}
	return count
}

// If placing pending pods is stopped, or there is no cluster, no move is simulated.
func TestNothingToTryOn(t *testing.T) {
	t.Parallel()
	w := script.New()
	if _, err := w.Run("type name=m cpu=4 price=1\npool name=default\nnode name=n1 pool=default type=m\npod name=a cpu=1"); err != nil {
		t.Fatal(err)
	}
	view, pods := w.Snapshot()
	for name, v := range map[string]View{
		"no cluster":  {DisruptionView: cluster.DisruptionView{PodsToPlace: pods}},
		"out of time": {DisruptionView: cluster.DisruptionView{Cluster: view, PodsToPlace: pods}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newPlanningState(&v, func() bool { return true })
			n := cluster.ManagedNode{Node: cluster.Node{Name: "n1"}, Reservation: "cr-1"}
			if g.relocatePods(&n, false).Known || g.relocateAfterTermination(&n, true).Known || g.relocateFromDrifted(&n).Known {
				t.Error("something was found out")
			}
		})
	}
}

// CB-15: drift takes along the room of virtual pods, and does not wait for it if there is none.
func TestCB_15_RoomOfVirtualPodsMovesIfItCan(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pool string
		want int // pods that are placed
	}{
		"room can be launched": {"pool name=default", 2},
		"there is none":        {"pool name=default closed", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := script.New()
			if _, err := w.Run("type name=m cpu=4 price=1\n" + tc.pool + `
node name=n1 pool=default type=m
node name=n2 pool=default type=m
bound name=web cpu=1 node=n1
bound name=db cpu=3 node=n2
pod name=spare cpu=3 virtual
`); err != nil {
				t.Fatal(err)
			}
			view, pods := w.Snapshot()
			n := view.Node("n1")
			managed := cluster.ManagedNode{Node: *n}
			managed.Pods = nil
			for _, p := range n.Pods {
				managed.Pods = append(managed.Pods, cluster.ManagedPod{Pod: p, Moves: true})
			}
			g := newPlanningState(&View{DisruptionView: cluster.DisruptionView{Cluster: view, PodsToPlace: pods, Nodes: []cluster.ManagedNode{managed}}}, nil)
			if !g.heldByBuffer("n1") || g.expectsPods("n1") {
				t.Fatal("no virtual pod is on n1, or a real one is expected there")
			}
			h := g.relocatePods(&managed, false)
			if placed := len(h.Bind) + placedOn(h); !h.allPlaced() || placed != tc.want {
				t.Errorf("%d pods have a place, want %d: %+v", placed, tc.want, h)
			}
		})
	}
}
