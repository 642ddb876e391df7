package claims_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/claims"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

var claimBorn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const claimInstance = "aws:///a/i-1"

// claimWorld is an API server, a cloud with given responses, and a clock.
type claimWorld struct {
	api        client.Client
	metrics    *metric.Set
	reconciler *claims.Claims
	now        time.Time

	writes   int   // of any kind
	failing  error // of the next writes of a status
	launches int
	response error // of the cloud; nil: an instance

	events     []string // name of the object and reason
	ended      []string
	failed     []string // reasons that registration health heard
	registered int
}

func (w *claimWorld) Emit(obj client.Object, events ...event.Event) {
	for _, e := range events {
		w.events = append(w.events, obj.GetName()+" "+string(e.Reason))
	}
}

func (w *claimWorld) Flips(client.Object, []condition.Flip) {}

func (w *claimWorld) Registered(*karpv1.NodeClaim) { w.registered++ }

func (w *claimWorld) Failed(_ *karpv1.NodeClaim, reason, _ string) {
	w.failed = append(w.failed, reason)
}

func (w *claimWorld) Launch(context.Context, *karpv1.NodeClaim) (cloud.Instance, error) {
	w.launches++
	if w.response != nil {
		return cloud.Instance{}, w.response
	}
	return cloud.Instance{ID: claimInstance, Type: "m5.large", Zone: "a", CapacityType: "spot"}, nil
}

func claimKinds() []schema.GroupKind {
	return []schema.GroupKind{{Group: awsv1.Group, Kind: awsv1.Kind}}
}

func newClaimWorld(t *testing.T, objects ...client.Object) *claimWorld {
	t.Helper()
	w := &claimWorld{now: claimBorn, metrics: metric.New(prometheus.NewRegistry())}
	scheme := controllertest.Scheme(t)
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&karpv1.NodeClaim{}, &corev1.Node{}).
		WithIndex(&corev1.Node{}, lookup.NodeProviderID, func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }).
		WithIndex(&corev1.Pod{}, lookup.PodNodeName, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&karpv1.NodeClaim{}, lookup.ClaimProviderID, func(o client.Object) []string { return []string{o.(*karpv1.NodeClaim).Status.ProviderID} }).
		WithIndex(&storagev1.VolumeAttachment{}, lookup.AttachmentOfNodeName, func(o client.Object) []string { return []string{o.(*storagev1.VolumeAttachment).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				w.writes++
				return c.Patch(ctx, obj, patch, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				w.writes++
				if w.failing != nil {
					return w.failing
				}
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
		}).Build()
	w.reconciler = &claims.Claims{
		Client: w.api, Provider: w, Events: w, Metrics: w.metrics, Remover: write.NewRemover(w.api, w, w.metrics, nil), Health: w, Classes: claimKinds(), Workers: 1,
		Now: func() time.Time { return w.now },
		Terminate: func(_ context.Context, c *karpv1.NodeClaim) (ctrl.Result, error) {
			w.ended = append(w.ended, c.Name)
			return ctrl.Result{}, nil
		},
	}
	return w
}

func (w *claimWorld) pass(t *testing.T) ctrl.Result {
	t.Helper()
	result, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func (w *claimWorld) claim(t *testing.T) *karpv1.NodeClaim {
	t.Helper()
	c := &karpv1.NodeClaim{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: "c"}, c); err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *claimWorld) state(t *testing.T, name string) string {
	t.Helper()
	c := condition.Find(w.claim(t).Status.Conditions, name)
	if c == nil {
		return "absent"
	}
	return string(c.Status) + "/" + c.Reason
}

func newClaim() *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "c", UID: "u", Generation: 1, CreationTimestamp: metav1.NewTime(claimBorn),
		Labels: map[string]string{karpv1.LabelNodePool: "p"},
	}}
	c.Spec.NodeClassRef = karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "class"}
	c.Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	return c
}

func readyClaim() *karpv1.NodeClaim {
	c := newClaim()
	c.Finalizers = []string{karpv1.FinalizerTermination}
	c.Status.ProviderID = claimInstance
	for _, name := range []string{karpv1.ConditionReady, karpv1.ConditionInitialized, karpv1.ConditionRegistered, karpv1.ConditionLaunched} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: name, ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(claimBorn)})
	}
	return c
}

func joinedNode() *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	n.Spec.ProviderID = claimInstance
	n.Spec.Taints = []corev1.Taint{karpv1.UnregisteredTaint()}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("2")}
	return n
}

func TestClaimBecomesANode(t *testing.T) {
	t.Parallel()
	w := newClaimWorld(t, newClaim())
	w.pass(t)
	c := w.claim(t)
	if !slices.Contains(c.Finalizers, karpv1.FinalizerTermination) || c.Status.ProviderID != claimInstance || c.Labels[corev1.LabelTopologyZone] != "a" {
		t.Fatalf("LC-01, LC-03: after one pass the claim has finalizers %v, id %q, labels %v", c.Finalizers, c.Status.ProviderID, c.Labels)
	}
	if result := w.pass(t); result.RequeueAfter != 15*time.Minute {
		t.Errorf("LC-14: requeues after %s", result.RequeueAfter)
	}
	if n := testutil.CollectAndCount(w.metrics.NodeClaimsDisrupted); n != 2 { // so that the first timeout is an increase
		t.Errorf("%d series of disruptions before any, want those of the two timeouts, at 0", n)
	}
	if err := w.api.Create(t.Context(), joinedNode()); err != nil {
		t.Fatal(err)
	}
	w.now = claimBorn.Add(time.Minute)
	w.pass(t)
	if have := w.state(t, karpv1.ConditionReady); have != "True/Ready" {
		t.Errorf("Ready is %s", have)
	}
	n := &corev1.Node{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: "n"}, n); err != nil {
		t.Fatal(err)
	}
	if n.Labels[karpv1.LabelInitialized] != "true" || len(n.Spec.Taints) > 0 || len(n.OwnerReferences) != 1 {
		t.Errorf("LC-10, LC-12: node %+v with taints %v", n.ObjectMeta, n.Spec.Taints)
	}
	if got := testutil.ToFloat64(w.metrics.NodesCreated.WithLabelValues("p", "a")); got != 1 || w.registered != 1 || w.launches != 1 {
		t.Errorf("LC-10: counted %v nodes, %d registrations, %d launches", got, w.registered, w.launches)
	}
	before := w.writes
	if w.pass(t); w.writes != before || w.registered != 1 {
		t.Errorf("a pass without news wrote %d times", w.writes-before)
	}
}

func TestFM_A02_StatusWritesFail(t *testing.T) {
	t.Parallel()
	w := newClaimWorld(t, newClaim())
	w.failing = apierrors.NewInternalError(errors.New("no"))
	for range 10 {
		if _, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "c"}}); err == nil {
			t.Fatal("a status that cannot be written is no error")
		}
		w.now = w.now.Add(20 * time.Second)
	}
	w.failing = nil
	w.pass(t)
	if w.launches != 1 || w.claim(t).Status.ProviderID != claimInstance {
		t.Errorf("LC-02: %d launches, id %q", w.launches, w.claim(t).Status.ProviderID)
	}
}

func TestFM_A06_DeletedBetweenLaunchAndWrite(t *testing.T) {
	t.Parallel()
	w := newClaimWorld(t, newClaim())
	w.failing = apierrors.NewConflict(schema.GroupResource{}, "c", nil)
	if result := w.pass(t); result.RequeueAfter == 0 {
		t.Error("a conflict is not looked at again")
	}
	if err := w.api.Delete(t.Context(), w.claim(t)); err != nil {
		t.Fatal(err)
	}
	w.pass(t)
	if !slices.Equal(w.ended, []string{"c"}) || w.launches != 1 {
		t.Errorf("ended %v after %d launches", w.ended, w.launches)
	}
	if i, known := w.reconciler.Launched("u"); !known || i.ID != claimInstance {
		t.Errorf("launched %v (%t), want the instance to be known", i, known)
	}
	w.now = w.now.Add(time.Hour)
	if _, known := w.reconciler.Launched("u"); known {
		t.Error("LC-02: kept for more than an hour")
	}
}

func TestNoCapacityDeletesTheClaimAndTellsItsPods(t *testing.T) {
	t.Parallel()
	pod := func(name, node string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
		p.Spec.NodeName = node
		return p
	}
	w := newClaimWorld(t, newClaim(), pod("waits", ""), pod("runs", "elsewhere"))
	w.response = &cloud.Error{Kind: cloud.NoCapacity, Message: "nothing left"}
	w.reconciler.PlannedPods = func(claim string) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: "ns", Name: claim}, {Namespace: "ns", Name: "waits"}, {Namespace: "ns", Name: "runs"}}
	}
	w.pass(t)
	if w.claim(t).DeletionTimestamp == nil {
		t.Error("LC-04: the claim is still there")
	}
	if !slices.Equal(w.events, []string{"c InsufficientCapacityError", "waits InsufficientCapacityError"}) {
		t.Errorf("LC-04, V15-61: events %v", w.events)
	}
	if got := testutil.ToFloat64(w.metrics.NodeClaimsDisrupted.WithLabelValues("insufficient_capacity", "p", "", "", "graceful")); got != 1 {
		t.Errorf("LC-04: counted %v", got)
	}
	if w.pass(t); !slices.Equal(w.ended, []string{"c"}) || w.launches != 1 {
		t.Errorf("ended %v after %d launches", w.ended, w.launches)
	}
}

// Who waits for a pod looks at the pod: a launch that is denied is reported there and on the claim, once per response.
func TestTrust_B05_ADeniedLaunchIsReportedOnClaimAndPods(t *testing.T) {
	t.Parallel()
	waits := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "waits", Namespace: "ns"}}
	w := newClaimWorld(t, newClaim(), waits)
	w.response = &cloud.Error{Kind: cloud.Denied, Op: "create fleet", Reason: "Unauthorized", Message: "allow ec2:CreateFleet"}
	w.reconciler.PlannedPods = func(string) []types.NamespacedName { return []types.NamespacedName{{Namespace: "ns", Name: "waits"}} }
	w.pass(t)
	want := []string{"c LaunchFailed", "waits LaunchFailed"}
	if !slices.Equal(w.events, want) {
		t.Errorf("events %v, want %v", w.events, want)
	}
	if w.pass(t); !slices.Equal(w.events, want) || w.launches != 1 {
		t.Errorf("events %v after %d launches", w.events, w.launches)
	}
	if have := w.state(t, karpv1.ConditionLaunched); have != "Unknown/Unauthorized" || w.claim(t).DeletionTimestamp != nil {
		t.Errorf("Launched is %s", have)
	}
}

// Launches that fail are spaced, however often something else calls for a pass (G12, FM A09).
func TestFM_A09_LaunchesAreSpaced(t *testing.T) {
	t.Parallel()
	w := newClaimWorld(t, newClaim())
	w.response = errors.New("denied")
	var waits []time.Duration
	for w.now.Sub(claimBorn) < 5*time.Minute {
		result := w.pass(t)
		launched := w.launches
		if again := w.pass(t); w.launches != launched || again.RequeueAfter != result.RequeueAfter {
			t.Fatalf("a second pass launched again, or waits for %s instead of %s", again.RequeueAfter, result.RequeueAfter)
		}
		waits = append(waits, result.RequeueAfter)
		w.now = w.now.Add(result.RequeueAfter)
	}
	var want []time.Duration
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60, 60, 57} {
		want = append(want, time.Duration(seconds)*time.Second)
	}
	if !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	if have := w.state(t, karpv1.ConditionLaunched); have != "Unknown/LaunchFailed" {
		t.Errorf("Launched is %s", have)
	}
	w.pass(t)
	if w.claim(t).DeletionTimestamp == nil || !slices.Equal(w.failed, []string{"LaunchFailed"}) {
		t.Errorf("LC-13, LC-15: deleted at %v, failures %v", w.claim(t).DeletionTimestamp, w.failed)
	}
	if got := testutil.ToFloat64(w.metrics.NodeClaimsDisrupted.WithLabelValues("launch_timeout", "p", "", "", "graceful")); got != 1 {
		t.Errorf("LC-13: counted %v", got)
	}
}

// staleClient returns the claim as it was.
type staleClient struct {
	client.Client
	old *karpv1.NodeClaim
}

func (c *staleClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if claim, ok := obj.(*karpv1.NodeClaim); ok && c.old != nil {
		c.old.DeepCopyInto(claim)
		return nil
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

func TestCacheThatLags(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]error{"after a write": nil, "after a deletion": &cloud.Error{Kind: cloud.NoCapacity}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClaim()
			c.Finalizers = []string{karpv1.FinalizerTermination}
			w := newClaimWorld(t, c)
			lagging := &staleClient{Client: w.api}
			w.reconciler.Client, w.response = lagging, response
			old := w.claim(t)
			w.pass(t)
			lagging.old = old
			writes := w.writes
			w.now = w.now.Add(2 * time.Minute) // an error may be tried again
			if result := w.pass(t); result.RequeueAfter == 0 || w.launches != 1 || w.writes != writes {
				t.Errorf("%d launches, %d more writes, requeues after %s", w.launches, w.writes-writes, result.RequeueAfter)
			}
			lagging.old, w.now = nil, claimBorn
			w.pass(t)
			if (len(w.ended) == 1) != (response != nil) {
				t.Errorf("once the cache has caught up: ended %v", w.ended)
			}
		})
	}
}

func TestFM_C07_AdoptedClaimsAreNotRewritten(t *testing.T) {
	t.Parallel()
	n := joinedNode()
	n.Spec.Taints = nil
	w := newClaimWorld(t, readyClaim(), n)
	w.now = claimBorn.Add(time.Hour)
	if w.pass(t); w.writes > 0 || w.launches > 0 {
		t.Errorf("LC-59: %d writes, %d launches", w.writes, w.launches)
	}
}

func TestClaimsOfOtherClassesAreNotOurs(t *testing.T) {
	t.Parallel()
	c := newClaim()
	c.Spec.NodeClassRef.Kind = "OtherNodeClass"
	w := newClaimWorld(t, c)
	if w.pass(t); w.writes > 0 || w.launches > 0 {
		t.Errorf("%d writes, %d launches", w.writes, w.launches)
	}
}

type slowGate struct{ wait time.Duration }

func (g *slowGate) Name() string { return "partition" }

func (g *slowGate) Open(context.Context, *karpv1.NodeClaim) (map[string]string, time.Duration, error) {
	return nil, g.wait, nil
}

func TestRegistrationWaitsForGates(t *testing.T) {
	t.Parallel()
	gate := &slowGate{wait: 7 * time.Second}
	w := newClaimWorld(t, newClaim(), joinedNode())
	w.reconciler.Gates = []cloud.Gate{gate}
	w.pass(t)
	if result := w.pass(t); result.RequeueAfter != 7*time.Second || w.state(t, karpv1.ConditionRegistered) != "Unknown/RegistrationHookPending" {
		t.Errorf("LC-09: Registered is %s, requeues after %s", w.state(t, karpv1.ConditionRegistered), result.RequeueAfter)
	}
	gate.wait = 0
	if w.pass(t); w.state(t, karpv1.ConditionRegistered) != "True/Registered" {
		t.Errorf("LC-10: Registered is %s", w.state(t, karpv1.ConditionRegistered))
	}
}
