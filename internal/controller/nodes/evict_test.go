package nodes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// evictionAPI responds to evictions with err and records the pods by UID.
type evictionAPI struct {
	err     error
	uids    []string
	deletes []int64 // grace of deletions, in seconds
}

func (a *evictionAPI) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, _, sub client.Object, _ ...client.SubResourceCreateOption) error {
			a.uids = append(a.uids, string(*sub.(*policyv1.Eviction).DeleteOptions.Preconditions.UID))
			return a.err
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if _, isPod := obj.(*corev1.Pod); !isPod {
				return c.Delete(ctx, obj, opts...)
			}
			all := (&client.DeleteOptions{}).ApplyOptions(opts)
			a.uids = append(a.uids, string(*all.Preconditions.UID))
			a.deletes = append(a.deletes, *all.GracePeriodSeconds)
			return a.err
		},
	}
}

var webID = cluster.PodID{Namespace: "default", Name: "web", UID: "uid-web"}

func tooMany() error {
	err := apierrors.NewTooManyRequests("no", 0)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget web needs 2 healthy pods and has 2 currently"})
	return err
}

func budget(name string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
}

// full is a budget that wants as many pods as there are.
func full() *policyv1.PodDisruptionBudget {
	b := budget("web")
	b.Status = policyv1.PodDisruptionBudgetStatus{ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1}
	return b
}

func TestLC35_ResponsesOfTheEvictionAPI(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	terminating := apierrors.NewForbidden(pods, "web", errors.New("namespace"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	for name, tc := range map[string]struct {
		response error
		objects  []client.Object
		wantErr  bool
		left     int           // in the queue
		after    time.Duration // of the result
		code     string
		drained  float64
		emitted  []string // parts of FailedDraining on the node
	}{
		"evicted":                                {left: 1, after: 10 * time.Second, code: "200", drained: 1},
		"D17 gone":                               {response: apierrors.NewNotFound(pods, "web"), code: "404"},
		"FM L11 another pod has the name":        {response: apierrors.NewConflict(pods, "web", errors.New("uid")), code: "409"},
		"LC-15.9 a budget refuses":               {response: tooMany(), objects: []client.Object{budget("web-pdb")}, left: 1, after: 100 * time.Millisecond, code: "429", emitted: []string{"default/web", "PodDisruptionBudget web-pdb", "needs 2 healthy", "terminationGracePeriod"}},
		"K01 a budget never allows it":           {response: tooMany(), objects: []client.Object{impossible()}, left: 1, after: 100 * time.Millisecond, code: "429", emitted: []string{"PodDisruptionBudget web can never allow an eviction: maxUnavailable is 0"}},
		"demand 17 a budget wants all there are": {response: tooMany(), objects: []client.Object{full()}, left: 1, after: 100 * time.Millisecond, code: "429", emitted: []string{"PodDisruptionBudget web cannot allow an eviction while it has 1 replica: it wants 1 healthy; scale its workload up"}},
		"two budgets":                            {response: apierrors.NewInternalError(errors.New("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")), objects: []client.Object{budget("a"), budget("b")}, left: 1, after: 100 * time.Millisecond, code: "500", emitted: []string{"default/web", "(a, b)"}},
		"the API server is busy":                 {response: apierrors.NewTooManyRequests("later", 1), left: 1, after: 100 * time.Millisecond, code: "429", emitted: []string{"later"}},
		"D17 the namespace goes":                 {response: terminating, left: 1, after: 100 * time.Millisecond, code: "403"},
		"FM L10 an error":                        {response: apierrors.NewInternalError(errors.New("etcd")), wantErr: true, left: 1, code: "500", emitted: []string{"default/web", "etcd"}},
		"FM L10 a timeout":                       {response: context.DeadlineExceeded, wantErr: true, left: 1, code: "unknown", emitted: []string{"default/web"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &evictionAPI{err: tc.response}
			w := newWorld(t, api.funcs(), append(tc.objects, endNodeObject(), endPod("web"))...)
			w.delete(endNodeObject())
			w.queue.Add(drain.Eviction{Pod: webID, Node: "n", Reason: "Drifted"})
			result, err := w.queue.Reconcile(t.Context(), webID)
			if (err != nil) != tc.wantErr || result.RequeueAfter != tc.after || w.queue.Len() != tc.left {
				t.Errorf("error %v, again after %s, %d left; want %t, %s, %d", err, result.RequeueAfter, w.queue.Len(), tc.wantErr, tc.after, tc.left)
			}
			if got := testutil.ToFloat64(w.metrics.PodsEvictionRequests.WithLabelValues(tc.code)); got != 1 {
				t.Errorf("code %s counted %v times", tc.code, got)
			}
			if got := testutil.ToFloat64(w.metrics.PodsDrained.WithLabelValues("Drifted")); got != tc.drained {
				t.Errorf("drained %v, want %v", got, tc.drained)
			}
			if evicted := strings.Contains(w.emitted.Text("web", event.Evicted), "Drifted"); evicted != (tc.drained > 0) {
				t.Errorf("event Evicted with the reason: %t", evicted)
			}
			text := w.emitted.Text("n", event.FailedDraining)
			if (text != "") != (len(tc.emitted) > 0) {
				t.Errorf("FailedDraining %q", text)
			}
			for _, part := range tc.emitted {
				if !strings.Contains(text, part) {
					t.Errorf("%q is not in %q", part, text)
				}
			}
		})
	}
}

func TestLC34_WhoIsDropped(t *testing.T) {
	t.Parallel()
	gone := func(n *corev1.Node) { n.Name = "m" }
	for name, tc := range map[string]struct {
		node   *corev1.Node
		pod    *corev1.Pod
		keep   bool // the node is not deleted
		called bool
		left   int
	}{
		"to be evicted":                       {node: endNodeObject(), pod: endPod("web"), called: true, left: 1},
		"another pod":                         {node: endNodeObject(), pod: endPod("db")},
		"FM L11 another UID":                  {node: endNodeObject(), pod: endPod("web", func(p *corev1.Pod) { p.UID = "new" })},
		"ended":                               {node: endNodeObject(), pod: endPod("web", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
		"V15-63 the node is gone":             {node: endNodeObject(gone), pod: endPod("web"), keep: true},
		"the node is to live":                 {node: endNodeObject(), pod: endPod("web"), keep: true},
		"LC-33 protected since it was put in": {node: endNodeObject(), pod: endPod("web", func(p *corev1.Pod) { p.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"} }), left: 1},
		"terminating: the end is on its way":  {node: endNodeObject(), pod: endPod("web", func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = new(metav1.Now()), []string{"x/y"} })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &evictionAPI{}
			w := newWorld(t, api.funcs(), tc.node, tc.pod)
			if !tc.keep {
				w.delete(endNodeObject())
			}
			w.queue.Add(drain.Eviction{Pod: webID, Node: "n"})
			if _, err := w.queue.Reconcile(t.Context(), webID); err != nil {
				t.Fatal(err)
			}
			if called := len(api.uids) > 0; called != tc.called || w.queue.Len() != tc.left {
				t.Errorf("called: %t, left: %d, want %t, %d", called, w.queue.Len(), tc.called, tc.left)
			}
		})
	}
}

// LC-36: at the deadline a pod is deleted, past its annotation, with at least a second.
func TestLC36_TheDeadlineDeletes(t *testing.T) {
	t.Parallel()
	api := &evictionAPI{}
	held := endPod("web", func(p *corev1.Pod) { p.Annotations = map[string]string{karpv1.AnnotationDoNotDisrupt: "true"} })
	w := newWorld(t, api.funcs(), endNodeObject(), held)
	w.delete(endNodeObject())
	deadline := w.clock.Add(time.Minute)
	w.queue.Add(drain.Eviction{Pod: webID, Node: "n", Reason: "Expired", Limit: drain.Limit{At: deadline}})
	reconcile := func() {
		t.Helper()
		if _, err := w.queue.Reconcile(t.Context(), webID); err != nil {
			t.Fatal(err)
		}
	}
	reconcile()
	if len(api.uids) != 0 {
		t.Fatal("G6: a protected pod was touched before its deadline")
	}
	w.clock = deadline.Add(-20 * time.Second)
	reconcile()
	reconcile() // the cache still shows the pod as it was
	if diff := cmp.Diff([]int64{20}, api.deletes); diff != "" {
		t.Errorf("graces (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"uid-web"}, api.uids); diff != "" {
		t.Errorf("UIDs (-want +got):\n%s", diff)
	}
	if text := w.emitted.Text("web", event.Disrupted); !strings.Contains(text, "20 s") || !strings.Contains(text, "30 s") {
		t.Errorf("event %q names neither what is granted nor what was requested", text)
	}
	if got := testutil.ToFloat64(w.metrics.PodsDrained.WithLabelValues("Expired")); got != 1 {
		t.Errorf("drained %v, want 1", got)
	}
	w.clock = deadline.Add(time.Minute)
	reconcile()
	if diff := cmp.Diff([]int64{20, 1}, api.deletes); diff != "" {
		t.Errorf("a pod that is still there gets a second, never zero (-want +got):\n%s", diff)
	}
}

// G12, N16: each pod has its own back-off, from 100 ms to 10 s, and being requested again does not
// shorten it.
func TestFM_N16_BackOffIsPerPod(t *testing.T) {
	t.Parallel()
	api := &evictionAPI{err: tooMany()}
	w := newWorld(t, api.funcs(), endNodeObject(), endPod("web"), endPod("db"))
	w.delete(endNodeObject())
	w.queue.Add(drain.Eviction{Pod: webID, Node: "n"})
	var got []time.Duration
	for range 9 {
		result, err := w.queue.Reconcile(t.Context(), webID)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, result.RequeueAfter)
		w.queue.Add(drain.Eviction{Pod: webID, Node: "n"})
	}
	ms := time.Millisecond
	want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 10000 * ms, 10000 * ms}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("back-off (-want +got):\n%s", diff)
	}
	dbID := cluster.PodID{Namespace: "default", Name: "db", UID: "uid-db"}
	w.queue.Add(drain.Eviction{Pod: dbID, Node: "n"})
	if result, _ := w.queue.Reconcile(t.Context(), dbID); result.RequeueAfter != 100*ms {
		t.Errorf("another pod waits %s, want 100ms", result.RequeueAfter)
	}
}

// V15-37: an entry that only has a timeout follows the rebooting taint and never deletes.
func TestV15_37_TimeoutEntries(t *testing.T) {
	t.Parallel()
	api := &evictionAPI{}
	w := newWorld(t, api.funcs(), endPod("web"), endNodeObject(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{karpv1.RebootingTaint()} }))
	w.queue.Add(drain.Eviction{Pod: webID, Node: "n", Limit: drain.Limit{At: w.clock.Add(time.Minute), Stay: true}})
	for range 2 {
		if _, err := w.queue.Reconcile(t.Context(), webID); err != nil {
			t.Fatal(err)
		}
	}
	if len(api.uids) != 1 || w.queue.Len() != 1 {
		t.Errorf("called %d times, %d in the queue, want 1, 1", len(api.uids), w.queue.Len())
	}
	w.clock = w.clock.Add(time.Minute)
	if _, err := w.queue.Reconcile(t.Context(), webID); err != nil || len(api.deletes) > 0 || w.queue.Len() != 0 {
		t.Errorf("error %v, deletions %v, %d in the queue; want the pod to ride through", err, api.deletes, w.queue.Len())
	}
}
