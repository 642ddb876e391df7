package claims_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/dovetail-sh/dovetail/internal/controller/claims"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

func plannedPod(name string, uid types.UID, nominated string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}, Status: corev1.PodStatus{NominatedNodeName: nominated}}
}

// A pod is nominated for the node that was launched for it. What the scheduler nominated since it was last
// seen stays, and a pod that is another one by now is left alone.
func TestTrust_A03_PlannedPodsAreNominated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stored *corev1.Pod
		want   string
		result string
	}{
		"waiting":                        {stored: plannedPod("w", "1", ""), want: "ip-1", result: "done"},
		"preempting elsewhere meanwhile": {stored: plannedPod("w", "1", "ip-9"), want: "ip-9", result: "taken"},
		"another pod of the name":        {stored: plannedPod("w", "2", ""), want: "", result: "taken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metrics := metric.New(prometheus.NewRegistry())
			api := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(tc.stored).WithStatusSubresource(&corev1.Pod{}).
				WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: failedTestsAreInvalid}).Build()
			n := &claims.Nominator{
				Client: api, Metrics: metrics, Now: time.Now,
				Pods: func(string) []*corev1.Pod { return []*corev1.Pod{plannedPod("w", "1", "")} },
			}
			n.Nominate(t.Context(), "claim", "ip-1")
			got := &corev1.Pod{}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(tc.stored), got); err != nil {
				t.Fatal(err)
			}
			if got.Status.NominatedNodeName != tc.want {
				t.Errorf("nominated %q, want %q", got.Status.NominatedNodeName, tc.want)
			}
			if n := testutil.ToFloat64(metrics.PodsNominated.WithLabelValues(tc.result)); n != 1 {
				t.Errorf("%v requests ended as %s, want 1", n, tc.result)
			}
		})
	}
}

// failedTestsAreInvalid responds as the API server does when a test of a patch fails.
func failedTestsAreInvalid(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if err := c.SubResource(sub).Patch(ctx, obj, patch, opts...); err != nil {
		return apierrors.NewGenericServerResponse(422, "patch", schema.GroupResource{Resource: "pods"}, obj.GetName(), err.Error(), 0, false)
	}
	return nil
}

// Without the right to patch pods/status nothing is nominated, and the API server is not called for every pod.
// The right may be given later.
func TestTrust_A03_WithoutTheRightNoRequestIsMade(t *testing.T) {
	t.Parallel()
	requested, now := 0, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	api := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			requested++
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods/status"}, "w", nil)
		},
	}).Build()
	n := &claims.Nominator{
		Client: api, Metrics: metric.New(prometheus.NewRegistry()), Now: func() time.Time { return now },
		Pods: func(string) []*corev1.Pod { return []*corev1.Pod{plannedPod("w", "1", "")} },
	}
	for range 3 {
		n.Nominate(t.Context(), "claim", "ip-1")
	}
	if requested != 1 {
		t.Errorf("called %d times, want 1", requested)
	}
	now = now.Add(time.Hour)
	n.Nominate(t.Context(), "claim", "ip-1")
	if requested != 2 {
		t.Errorf("called %d times after an hour, want 2", requested)
	}
}

// Pods are nominated before the taint goes that keeps others off the node.
func TestTrust_A03_NominatedBeforeTheNodeOpens(t *testing.T) {
	t.Parallel()
	w := newClaimWorld(t, newClaim())
	w.pass(t)
	if err := w.api.Create(t.Context(), joinedNode()); err != nil {
		t.Fatal(err)
	}
	requested := 0
	w.reconciler.Nominate = func(ctx context.Context, claim, node string) {
		requested++
		n := &corev1.Node{}
		if err := w.api.Get(ctx, client.ObjectKey{Name: node}, n); err != nil || claim != "c" || len(n.Spec.Taints) == 0 {
			t.Errorf("nominated for %s on %s with taints %v (%v)", claim, node, n.Spec.Taints, err)
		}
	}
	w.now = claimBorn.Add(time.Minute)
	w.pass(t)
	w.pass(t)
	if requested != 1 {
		t.Errorf("called %d times, want once", requested)
	}
}
