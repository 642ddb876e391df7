package disruption_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
)

// blockedOf is condition DisruptionBlocked of a claim; nil: it has none.
func blockedOf(t *testing.T, c client.Client, claim string) *metav1.Condition {
	t.Helper()
	stored := &karpv1.NodeClaim{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: claim}, stored); err != nil {
		t.Fatal(err)
	}
	return condition.Find(stored.Status.Conditions, karpv1.ConditionDisruptionBlocked)
}

// G13: a node that cannot go has a condition that says why, since when and what ends it, as long as that is
// so. It is written once, a time that passes is none, and a new process goes on from it.
func TestG13_BlockedNodesHaveACondition(t *testing.T) {
	t.Parallel()
	writes := 0
	d, memory, c := emptying(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
		writes++
		return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
	}}, "a")
	clock := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	d.Now = func() time.Time { return clock }
	pass := func(after time.Duration, want string) {
		t.Helper()
		clock = clock.Add(after)
		memory.view.Now = clock
		if err := d.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := blockedOf(t, c, "claim-a")
		if want == "" && got != nil || want != "" && (got == nil || !strings.Contains(got.Reason+": "+got.Message, want)) {
			t.Fatalf("condition is %+v, want %q", got, want)
		}
	}
	start, n := clock, &memory.view.Nodes[0]
	n.Pods = []cluster.ManagedPod{{Pod: cluster.Pod{Key: cluster.PodKey{Namespace: "shop", Name: "web"}, EvictCost: 1}, Moves: true, ProtectedBy: karpv1.AnnotationDoNotDisrupt}}
	pass(0, "")
	pass(time.Minute, "DoNotDisrupt: pod shop/web carries annotation karpenter.sh/do-not-disrupt; remove the annotation")
	n.Nominated = true
	pass(time.Minute, "DoNotDisrupt")
	n.Pods = []cluster.ManagedPod{{Pod: cluster.Pod{Key: cluster.PodKey{Namespace: "shop", Name: "db"}, EvictCost: 1}, Moves: true, Budgets: []string{"shop/db"}, Blocked: true, Impossible: true}}
	pass(time.Minute, "EvictionImpossible: PodDisruptionBudget shop/db")
	if at := blockedOf(t, c, "claim-a").LastTransitionTime; !at.Time.Equal(start) || writes != 2 {
		t.Errorf("since %s after %d writes, want since %s after 2", at, writes, start)
	}
	if !d.Events.(*controllertest.Transcript).Saw("claim-a", "DisruptionBlocked", "it is kept since 2026-11-01T12:00:00Z") {
		n.Nominated = false
		pass(10*time.Second, "EvictionImpossible")
		if !d.Events.(*controllertest.Transcript).Saw("claim-a", "DisruptionBlocked", "it is kept since 2026-11-01T12:00:00Z") || !d.Events.(*controllertest.Transcript).Saw("a DisruptionBlocked", "since") {
			t.Error("no event says since when")
		}
	}
	n.Pods, n.Nominated = []cluster.ManagedPod{{Pod: cluster.Pod{Key: cluster.PodKey{Namespace: "shop", Name: "web"}, EvictCost: 1}, Moves: true}}, false
	pass(10*time.Second, "")
	if writes != 3 {
		t.Errorf("%d writes, want 3", writes)
	}
}

// A pass does not write all claims of a large cluster at once, and those that are left come next.
func TestG13_ConditionsAreWrittenByAndBy(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 70 {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	d, memory, c := emptying(t, interceptor.Funcs{}, names...)
	for i := range memory.view.Nodes {
		memory.view.Nodes[i].ProtectedBy = karpv1.AnnotationDoNotDisrupt
	}
	clock := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	d.Now = func() time.Time { return clock }
	for pass, want := range []int{0, 50, 70} {
		if err := d.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		have := 0
		for _, name := range names {
			if blockedOf(t, c, "claim-"+name) != nil {
				have++
			}
		}
		if have != want {
			t.Errorf("pass %d: %d conditions, want %d", pass, have, want)
		}
		clock = clock.Add(time.Minute)
	}
}
