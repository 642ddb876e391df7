package nodes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/nodes"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const instanceID = "aws:///zone-a/i-1"

// world is an API server, a cloud and a clock for the end of one node.
type world struct {
	t       *testing.T
	client  client.Client
	cloud   *dyingCloud
	emitted *controllertest.Recorder
	metrics *metric.Set
	clock   time.Time
	queue   *nodes.Evictions
	nodes   *nodes.NodeTermination
	claims  *nodes.ClaimTermination
}

func newWorld(t *testing.T, calls interceptor.Funcs, objects ...client.Object) *world {
	t.Helper()
	scheme := controllertest.Scheme(t)
	by := func(get func(client.Object) string) client.IndexerFunc {
		return func(o client.Object) []string { return []string{get(o)} }
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&karpv1.NodeClaim{}).
		WithIndex(&corev1.Node{}, lookup.NodeProviderID, by(func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID })).
		WithIndex(&karpv1.NodeClaim{}, lookup.ClaimProviderID, by(func(o client.Object) string { return o.(*karpv1.NodeClaim).Status.ProviderID })).
		WithIndex(&corev1.Pod{}, lookup.PodNodeName, by(func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName })).
		WithIndex(&storagev1.VolumeAttachment{}, lookup.AttachmentOfNodeName, by(func(o client.Object) string { return o.(*storagev1.VolumeAttachment).Spec.NodeName })).
		WithInterceptorFuncs(calls).Build()
	w := &world{t: t, client: c, cloud: &dyingCloud{alive: true}, emitted: &controllertest.Recorder{}, metrics: metric.New(prometheus.NewRegistry()), clock: time.Now().Truncate(time.Second)}
	now := func() time.Time { return w.clock }
	w.queue = &nodes.Evictions{Client: c, Events: w.emitted, Metrics: w.metrics, Now: now}
	w.nodes = &nodes.NodeTermination{Client: c, Provider: w.cloud, Queue: w.queue, Events: w.emitted, Metrics: w.metrics, Now: now}
	w.claims = &nodes.ClaimTermination{Client: c, Provider: w.cloud, Events: w.emitted, Metrics: w.metrics, Now: now}
	return w
}

// endNode is one pass over the node, endClaim one over the claim.
func (w *world) endNode() (ctrl.Result, error) {
	w.t.Helper()
	return w.nodes.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n"}})
}

func (w *world) endClaim() (ctrl.Result, error) {
	w.t.Helper()
	claim := &karpv1.NodeClaim{}
	if !w.has("c", claim) {
		return ctrl.Result{}, nil
	}
	return w.claims.Terminate(w.t.Context(), claim)
}

// pass does everything once and fails on errors.
func (w *world) pass() {
	w.t.Helper()
	for _, f := range []func() (ctrl.Result, error){w.endClaim, w.endNode} {
		if _, err := f(); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) has(name string, obj client.Object) bool {
	w.t.Helper()
	err := w.client.Get(w.t.Context(), types.NamespacedName{Name: name, Namespace: namespaceOf(obj)}, obj)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}

func namespaceOf(obj client.Object) string {
	switch obj.(type) {
	case *corev1.Pod, *corev1.PersistentVolumeClaim:
		return "default"
	default:
		return ""
	}
}

func (w *world) delete(obj client.Object) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

// mark is a condition of the claim as status and reason.
func (w *world) mark(name string) string {
	w.t.Helper()
	claim := &karpv1.NodeClaim{}
	if !w.has("c", claim) {
		return "no claim"
	}
	c := condition.Find(claim.Status.Conditions, name)
	if c == nil {
		return "absent"
	}
	return string(c.Status) + "/" + c.Reason
}

func endNodeObject(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", UID: "n", Finalizers: []string{karpv1.FinalizerTermination},
			Labels: map[string]string{karpv1.LabelNodePool: "default", corev1.LabelTopologyZone: "zone-a"},
		},
		Spec:   corev1.NodeSpec{ProviderID: instanceID},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

func endClaimObject(change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: "c", UID: "c", Finalizers: []string{karpv1.FinalizerTermination},
			Labels: map[string]string{karpv1.LabelNodePool: "default", karpv1.LabelCapacityType: "spot", corev1.LabelTopologyZone: "zone-a"},
		},
		Status: karpv1.NodeClaimStatus{ProviderID: instanceID, Conditions: []metav1.Condition{{Type: karpv1.ConditionRegistered, Status: metav1.ConditionTrue, Reason: "Registered", LastTransitionTime: metav1.NewTime(time.Unix(0, 0))}}},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func endPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n", TerminationGracePeriodSeconds: new(int64(30))},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// dyingCloud has one instance.
type dyingCloud struct {
	mu         sync.Mutex
	alive      bool
	err        error // instead of a response
	found      int   // calls
	terminated int
}

func (c *dyingCloud) Find(context.Context, cloud.ID) (cloud.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found++
	return cloud.Instance{ID: instanceID}, c.respond()
}

func (c *dyingCloud) Terminate(context.Context, cloud.ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terminated++
	return c.respond()
}

func (c *dyingCloud) respond() error {
	switch {
	case c.err != nil:
		return c.err
	case !c.alive:
		return &cloud.Error{Kind: cloud.NotFound, Op: "describe"}
	default:
		return nil
	}
}
