package disrupt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/script"
)

// V15-12, V15-27, V15-47: repair comes before everything else, and queries a real cluster where all pods of a
// unhealthy node would go, also those that are held now.
func TestRepairInACluster(t *testing.T) {
	t.Parallel()
	const (
		room = "type name=m cpu=4 price=1\npool name=default\nnode name=n1 pool=default type=m\nnode name=n2 pool=default type=m\n"
		full = room + "bound name=b cpu=3 node=n2\nbound name=a cpu=3 node=n1\n"
		slot = "type name=m cpu=4 reserved=cr-1:0@a zones=a\npool name=default\nnode name=n1 pool=default type=m captype=reserved reservation=cr-1\nbound name=a cpu=3 node=n1\n"
	)
	hold := func(v *disrupt.View) {
		v.Nodes[0].Pods[0].ProtectedBy, v.Nodes[0].Bounded, v.Nodes[0].Bound = karpv1.AnnotationDoNotDisrupt, true, time.Hour
	}
	reserve := func(v *disrupt.View) { v.Nodes[0].Reservation = "cr-1" }
	for name, tc := range map[string]struct {
		world  string
		change []func(*disrupt.View)
		want   string
		say    string
	}{
		"others have room":                        {world: room + "bound name=a cpu=3 node=n1\n", want: "Unhealthy delete n1, 0 new, 1 bound, moved 1"},
		"a new node is needed":                    {world: full, want: "Unhealthy replace n1, 1 new, 0 bound, moved 1"},
		"a pod that is held has to find a place":  {world: full, change: []func(*disrupt.View){hold}, want: "Unhealthy replace n1, 1 new, 0 bound, moved 1"},
		"nothing can be launched":                 {world: strings.ReplaceAll(full, "pool name=default", "pool name=default limits=cpu:7"), say: "1 of its pods would fit on no other node"},
		"its own slot is all there is":            {world: slot, change: []func(*disrupt.View){reserve}, say: "1 of its pods would fit on no other node"},
		"its own slot is all there is, gate on":   {world: slot, change: []func(*disrupt.View){reserve, func(v *disrupt.View) { v.Methods.TerminateFirstRepair = true }}, want: "Unhealthy terminate-first n1, 0 new, 0 bound, moved 1"},
		"V15-12 before nodes that are empty":      {world: room + "node name=n3 pool=default type=m\nbound name=a cpu=3 node=n1\n", want: "Unhealthy delete n1, 0 new, 1 bound, moved 1"},
		"a cluster that cannot be tried is left":  {world: full, change: []func(*disrupt.View){func(v *disrupt.View) { v.Cluster = nil }}},
		"FM K12 budgets of others are not for it": {world: full, change: []func(*disrupt.View){func(v *disrupt.View) { v.Nodes[1].Ready = false }}, want: "Unhealthy replace n1, 1 new, 0 bound, moved 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := script.New()
			if out, err := w.Run(tc.world); err != nil || out != "" {
				t.Fatalf("%s %v", out, err)
			}
			view, pods := w.Snapshot()
			v := viewOf(view, pods, w.Policy())
			set, err := disrupt.NewRepairSet([]cloud.Repair{{Condition: "Ready", Status: "Unknown", Action: cloud.ReplaceNode}})
			if err != nil {
				t.Fatal(err)
			}
			v.Repairs, v.Methods.Repair = set, true
			v.Nodes[0].Health = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(view.Now.Add(-time.Hour))}}
			for i := range v.Nodes {
				v.Nodes[i].Settling = v.Nodes[i].Name != "n3"
			}
			for _, f := range tc.change {
				f(&v)
			}
			d := disrupt.Next(v, nil)
			got := ""
			for _, c := range d.Commands {
				got += fmt.Sprintf("%s %s %s, %d new, %d bound, moved %d", c.Reason, c.Decision, c.Remove[0].Node, len(c.Create), len(c.Bind), c.Moved)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			said := ""
			for _, n := range d.Events {
				said += n.Event.Text + "\n"
			}
			if !strings.Contains(said, tc.say) {
				t.Errorf("said %q, want %q", said, tc.say)
			}
			if v.Cluster == nil {
				return
			}
			for _, found := range judge(v, d) {
				t.Errorf("violates %s", found)
			}
		})
	}
}
