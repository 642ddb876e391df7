package nodes_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/nodes"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// fellSilent is a node that stopped reporting some time ago.
func fellSilent(since time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(time.Now().Add(-since))}}
	}
}

// passForOthers are more nodes of a pool.
func passForOthers(count int, pool string, change ...func(*corev1.Node)) []client.Object {
	var out []client.Object
	for i := range count {
		out = append(out, endNodeObject(append(change, func(n *corev1.Node) {
			n.Name, n.UID, n.Spec.ProviderID = fmt.Sprintf("%s-%d", pool, i), types.UID(fmt.Sprintf("%s-%d", pool, i)), fmt.Sprintf("aws:///z/%s-%d", pool, i)
			n.Labels = map[string]string{karpv1.LabelNodePool: pool}
		})...))
	}
	return out
}

// V15-33, LC-41 to LC-43: unhealthy nodes are terminated forcefully in legacy mode.
func TestNodeHealth(t *testing.T) {
	t.Parallel()
	alone := func(n *corev1.Node) { delete(n.Labels, karpv1.LabelNodePool) }
	stamped := func(text string) func(*karpv1.NodeClaim) {
		return func(c *karpv1.NodeClaim) {
			c.Annotations = map[string]string{karpv1.AnnotationTerminationTimestamp: text}
		}
	}
	deadline := func(at time.Time) func(*karpv1.NodeClaim) { return stamped(at.UTC().Format(time.RFC3339)) }
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	for name, tc := range map[string]struct {
		node   []func(*corev1.Node)
		claim  []func(*karpv1.NodeClaim)
		others []client.Object
		gone   bool
		after  time.Duration
		ends   time.Time // other than now
		say    string
	}{
		"healthy":                        {},
		"tolerated for a while":          {node: []func(*corev1.Node){fellSilent(10 * time.Minute)}, after: 20 * time.Minute},
		"LC-43 long enough":              {node: []func(*corev1.Node){fellSilent(time.Hour)}, gone: true},
		"LC-43 a deadline that is over":  {node: []func(*corev1.Node){fellSilent(time.Hour)}, claim: []func(*karpv1.NodeClaim){deadline(past)}, gone: true, ends: past},
		"LC-43 a deadline to come":       {node: []func(*corev1.Node){fellSilent(time.Hour)}, claim: []func(*karpv1.NodeClaim){deadline(time.Now().Add(time.Hour))}, gone: true},
		"FM L18 one that cannot be read": {node: []func(*corev1.Node){fellSilent(time.Hour)}, claim: []func(*karpv1.NodeClaim){stamped("soon")}, gone: true},
		"do-not-repair is not for this mode": {
			node: []func(*corev1.Node){fellSilent(time.Hour), func(n *corev1.Node) { n.Annotations = map[string]string{karpv1.AnnotationDoNotRepair: "true"} }}, gone: true,
		},
		"LC-42 one of three":           {node: []func(*corev1.Node){fellSilent(time.Hour)}, others: passForOthers(2, "default"), gone: true},
		"LC-42 two of three":           {node: []func(*corev1.Node){fellSilent(time.Hour)}, others: append(passForOthers(1, "default"), passForOthers(1, "default-2", fellSilent(0))...), gone: true},
		"LC-42 too many of the pool":   {node: []func(*corev1.Node){fellSilent(time.Hour)}, others: append(passForOthers(3, "default", fellSilent(0)), passForOthers(4, "q")...), after: 5 * time.Minute, say: "4 of 4"},
		"LC-42 alone: of the cluster":  {node: []func(*corev1.Node){fellSilent(time.Hour), alone}, others: append(passForOthers(2, "p", fellSilent(2*time.Hour)), passForOthers(3, "q")...), after: 5 * time.Minute, say: "3 of 6"},
		"features 4: most fell silent": {node: []func(*corev1.Node){fellSilent(time.Hour)}, others: append(passForOthers(2, "p", fellSilent(time.Hour)), passForOthers(1, "q")...), after: 5 * time.Minute, say: "stopped reporting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, interceptor.Funcs{}, append(tc.others, endNodeObject(tc.node...), endClaimObject(append(tc.claim, upClaim)...), endPod("web"))...)
			a, err := lifecycle.NewAilments([]cloud.Repair{{Condition: "Ready", Status: "Unknown", Toleration: 30 * time.Minute, Action: cloud.ReplaceNode}})
			if err != nil {
				t.Fatal(err)
			}
			r := &nodes.NodeHealth{
				Client: w.client, Ailments: a, Events: w.emitted, Metrics: w.metrics, Remover: write.NewRemover(w.client, w.emitted, w.metrics, nil),
				Classes: []schema.GroupKind{{Group: "g", Kind: "k"}}, Now: func() time.Time { return w.clock },
			}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := result.RequeueAfter.Round(time.Minute); got != tc.after {
				t.Errorf("requeues after %s, want %s", got, tc.after)
			}
			claim := &karpv1.NodeClaim{}
			if w.has("c", claim); (claim.DeletionTimestamp != nil) != tc.gone {
				t.Errorf("deleted: %v", claim.DeletionTimestamp)
			}
			if said := w.emitted.Text("n", event.NodeRepairBlocked); (said == "") != (tc.say == "") || !strings.Contains(said, tc.say) {
				t.Errorf("said %q, want %q", said, tc.say)
			}
			for _, name := range []string{"c", "n"} {
				if text := w.emitted.Text(name, event.DisruptionTerminating); strings.Contains(text, "reason Unhealthy: condition Ready") != tc.gone {
					t.Errorf("%s says %q", name, text)
				}
			}
			if !tc.gone {
				return
			}
			ends := w.clock
			if !tc.ends.IsZero() {
				ends = tc.ends
			}
			if got := claim.Annotations[karpv1.AnnotationTerminationTimestamp]; got != ends.UTC().Format(time.RFC3339) {
				t.Errorf("ends %s, want %s", got, ends)
			}
			if n := testutil.ToFloat64(w.metrics.NodeClaimsUnhealthyDisrupted.WithLabelValues("ready", "default", "spot", "", "forceful")); n != 1 {
				t.Errorf("%v counted as repaired", n)
			}
			if n := testutil.ToFloat64(w.metrics.PodsDisruptionInitiated.WithLabelValues("unhealthy", "default", "spot", "", "graceful")); n != 1 {
				t.Errorf("%v pods counted", n)
			}
		})
	}
}
