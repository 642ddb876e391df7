package claims

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
)

// podWorld is one claimed node and the queue of the reconciler.
type podWorld struct {
	api   client.Client
	queue podQueue
	r     *PodEvents
}

func newPodWorld(t *testing.T, last, now time.Time) *podWorld {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, karpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	claim.Status.ProviderID = "id"
	claim.Status.LastPodEventTime = metav1.NewTime(last)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Spec.ProviderID = "id"
	w := &podWorld{api: fake.NewClientBuilder().WithScheme(scheme).WithObjects(claim, node).WithStatusSubresource(claim).
		WithIndex(claim, lookup.ClaimProviderID, func(o client.Object) []string { return []string{o.(*karpv1.NodeClaim).Status.ProviderID} }).
		Build()}
	w.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(w.queue.ShutDown)
	w.r = &PodEvents{Client: w.api, Now: func() time.Time { return now }}
	return w
}

// work empties the queue and returns what is on the claim then.
func (w *podWorld) work(t *testing.T) time.Time {
	t.Helper()
	for w.queue.Len() > 0 {
		request, _ := w.queue.Get()
		if _, err := w.r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		w.queue.Done(request)
	}
	claim := &karpv1.NodeClaim{}
	if err := w.api.Get(t.Context(), types.NamespacedName{Name: "c"}, claim); err != nil {
		t.Fatal(err)
	}
	return claim.Status.LastPodEventTime.Time
}

// FM I25: each pod that comes or goes starts consolidateAfter anew, so that waves of jobs keep their node.
func TestPodEventsOnClaims(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	bound := func(name string, at time.Duration) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
		p.Spec.NodeName = "n"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start.Add(at))}}
		return p
	}
	for name, tc := range map[string]struct {
		last time.Duration
		do   func(*podWorld)
		want time.Duration
	}{
		"LC-56 a pod is bound": {do: func(w *podWorld) { w.r.recordPodEvent(bound("a", time.Minute), w.queue) }, want: time.Minute},
		"LC-56 the latest counts, in whatever order pods are seen": {
			do: func(w *podWorld) {
				w.r.recordPodEvent(bound("a", time.Hour), w.queue)
				w.r.recordPodEvent(bound("b", time.Minute), w.queue)
			},
			want: time.Hour,
		},
		"FM C08 all pods are seen anew after a restart": {
			last: time.Hour,
			do: func(w *podWorld) {
				w.r.recordPodEvent(bound("a", time.Minute), w.queue)
				w.r.recordPodEvent(bound("b", time.Hour+5*time.Second), w.queue)
			},
			want: time.Hour,
		},
		"LC-56 a pod is deleted without grace": {do: func(w *podWorld) { w.r.recordPodGone(bound("a", time.Minute), w.queue) }, want: 2 * time.Hour},
		"LC-56 a pod that ended before is gone now": {
			do: func(w *podWorld) {
				p := bound("a", time.Minute)
				p.DeletionTimestamp = new(metav1.NewTime(start.Add(10 * time.Minute)))
				w.r.recordPodGone(p, w.queue)
			},
			want: 10 * time.Minute,
		},
		"a pod of no node": {
			last: time.Minute,
			do: func(w *podWorld) {
				p := bound("a", time.Hour)
				p.Spec.NodeName = ""
				w.r.recordPodEvent(p, w.queue)
			},
			want: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPodWorld(t, start.Add(tc.last), start.Add(2*time.Hour))
			tc.do(w)
			if got := w.work(t); !got.Equal(start.Add(tc.want)) {
				t.Errorf("lastPodEventTime %s, want %s", got, start.Add(tc.want))
			}
		})
	}
}

// FM N14: many events are one piece of work and few writes.
func TestPodEventsAreCoalesced(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := newPodWorld(t, time.Time{}, start.Add(time.Hour))
	for i := range 100 {
		w.r.enqueueIfLater("n", start.Add(time.Duration(i)*time.Second), w.queue)
	}
	if w.queue.Len() != 1 {
		t.Errorf("%d pieces of work for one node", w.queue.Len())
	}
	first := w.work(t)
	w.r.enqueueIfLater("n", start.Add(105*time.Second), w.queue)
	if got := w.work(t); !got.Equal(first) {
		t.Errorf("LC-56: written again for an event 6 s later: %s", got)
	}
	w.r.enqueueIfLater("n", start.Add(110*time.Second), w.queue)
	if got := w.work(t); !got.Equal(start.Add(110 * time.Second)) {
		t.Errorf("LC-56: %s, want the event after the gap", got)
	}
	if err := w.api.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n"}}); err != nil || !w.r.state.Record("n", start) {
		t.Errorf("a node that is gone is kept (%v)", err)
	}
}

// FM N14: a cache that does not have our write yet is no reason to write again.
func TestPodEventsOfACacheThatLags(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := newPodWorld(t, time.Time{}, start.Add(time.Hour))
	w.r.enqueueIfLater("n", start, w.queue)
	w.work(t)
	claim := &karpv1.NodeClaim{}
	if err := w.api.Get(t.Context(), types.NamespacedName{Name: "c"}, claim); err != nil {
		t.Fatal(err)
	}
	claim.Status.LastPodEventTime = metav1.Time{}
	if err := w.api.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.r.enqueueIfLater("n", start.Add(5*time.Second), w.queue)
	if got := w.work(t); !got.IsZero() {
		t.Errorf("LC-56: written again for an event 5 s later: %s", got)
	}
	w.r.enqueueIfLater("n", start.Add(10*time.Second), w.queue)
	if got := w.work(t); got.IsZero() {
		t.Error("LC-56: not written after the gap")
	}
}
