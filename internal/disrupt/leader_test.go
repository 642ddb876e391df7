package disrupt_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/script"
)

// FM C17: no method but repair takes the node of a leader without a stand-by, and it is said
// why. A terminationGracePeriod, with which drift does not wait for pods, changes nothing.
func TestFM_C17_TheLeadersOwnNodeStays(t *testing.T) {
	t.Parallel()
	const (
		room = "type name=m cpu=4 price=1\npool name=default\nnode name=n1 pool=default type=m\nnode name=n2 pool=default type=m\n"
		used = room + "bound name=k cpu=1 node=n1\nbound name=b cpu=3 node=n2\n"
	)
	drifted := func(n *cluster.ManagedNode) { n.Drift, n.Settling, n.Bounded = "AMIDrift", true, true }
	unhealthy := func(n *cluster.ManagedNode) {
		n.Settling = true
		n.Health = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(time.Unix(0, 0))}}
	}
	for name, tc := range map[string]struct {
		world  string
		change func(*cluster.ManagedNode)
		reason karpv1.DisruptionReason
		holds  bool
	}{
		"consolidation": {world: used, change: func(*cluster.ManagedNode) {}, reason: karpv1.ReasonUnderutilized, holds: true},
		"emptiness":     {world: room + "bound name=b cpu=3 node=n2\n", change: func(*cluster.ManagedNode) {}, reason: karpv1.ReasonEmpty, holds: true},
		"drift":         {world: used, change: drifted, reason: karpv1.ReasonDrifted, holds: true},
		"repair":        {world: used, change: unhealthy, reason: karpv1.ReasonUnhealthy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := script.New()
			if out, err := w.Run(tc.world); err != nil || out != "" {
				t.Fatalf("%s %v", out, err)
			}
			set, err := disrupt.NewRepairSet([]cloud.Repair{{Condition: "Ready", Status: "Unknown", Action: cloud.ReplaceNode}})
			if err != nil {
				t.Fatal(err)
			}
			for _, leading := range []bool{false, true} {
				view, pods := w.Snapshot()
				v := viewOf(view, pods, w.Policy())
				v.Repairs, v.Methods.Repair = set, true
				tc.change(&v.Nodes[0])
				v.Nodes[0].Leading, v.Nodes[1].Settling = leading, true
				d := disrupt.Next(v, nil)
				removed := len(d.Commands) == 1 && d.Commands[0].Reason == tc.reason && d.Commands[0].Remove[0].Node == "n1"
				if removed == (leading && tc.holds) || len(d.Commands) > 1 {
					t.Errorf("leader's node: %v, commands %+v", leading, d.Commands)
				}
				said := false
				for _, s := range d.Events {
					said = said || s.Node == "n1" && s.Event.Key == string(reason.LeaderAlone) && strings.Contains(s.Event.Text, "no other replica is ready")
				}
				if said != leading {
					t.Errorf("leader's node: %v, said %+v", leading, d.Events)
				}
			}
		})
	}
}

// FM C17: the same holds when the other replica is lost between the decision and the look on fresh data.
func TestFM_C17_TheStandbyIsLostMeanwhile(t *testing.T) {
	t.Parallel()
	for cause, want := range map[karpv1.DisruptionReason]int{karpv1.ReasonDrifted: 1, karpv1.ReasonUnderutilized: 1, karpv1.ReasonUnhealthy: 0} {
		decided := disrupt.View{DisruptionView: cluster.DisruptionView{Nodes: []cluster.ManagedNode{node("a")}, Pools: map[string]cluster.ManagedPool{"general": general()}}}
		fresh := disrupt.View{DisruptionView: cluster.DisruptionView{Nodes: []cluster.ManagedNode{node("a", func(n *cluster.ManagedNode) { n.Leading = true })}, Pools: decided.Pools}}
		c := disrupt.Command{Reason: cause, Remove: []disrupt.Candidate{{Node: "a", Claim: "claim-a"}}}
		if got := disrupt.Revalidate(c, decided, fresh, nil); len(got) != want || want == 1 && got[0].Category != disrupt.Churn {
			t.Errorf("%s: objections %+v, want %d", cause, got, want)
		}
	}
}
