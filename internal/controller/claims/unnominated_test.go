package claims

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
)

// A nomination that the scheduler takes back before the node takes pods is written again. One that it takes
// back later, or because the pod is bound, is not.
func TestTrust_A03_NominatedAgainUntilTheNodeIsUp(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, karpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(nominated, node string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{NominatedNodeName: nominated}}
	}
	for name, tc := range map[string]struct {
		before, after *corev1.Pod
		up            bool
		want          int
	}{
		"taken back":                {before: pod("n", ""), after: pod("", ""), want: 1},
		"taken back when it was up": {before: pod("n", ""), after: pod("", ""), up: true},
		"bound":                     {before: pod("n", ""), after: pod("", "n")},
		"nominated elsewhere":       {before: pod("n", ""), after: pod("m", "")},
		"its node is gone":          {before: pod("gone", ""), after: pod("", "")},
		"never nominated":           {before: pod("", ""), after: pod("", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}, Spec: corev1.NodeSpec{ProviderID: "i"}}
			if tc.up {
				node.Labels[karpv1.LabelInitialized] = "true"
			}
			claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Status: karpv1.NodeClaimStatus{ProviderID: "i"}}
			r := &Claims{Nominate: func(context.Context, string, string) {}, Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(node, claim).
				WithIndex(&karpv1.NodeClaim{}, lookup.ClaimProviderID, func(o client.Object) []string { return []string{o.(*karpv1.NodeClaim).Status.ProviderID} }).Build()}
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			r.unnominated(t.Context(), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}, queue)
			if queue.Len() != tc.want {
				t.Errorf("%d claims are looked at again, want %d", queue.Len(), tc.want)
			}
		})
	}
}
