package pools_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/pools"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/report"
)

func awsClass() lookup.ClassKind {
	return lookup.ClassKind{
		GroupKind:  schema.GroupKind{Group: awsv1.Group, Kind: awsv1.Kind},
		New:        func() client.Object { return &awsv1.EC2NodeClass{} },
		Conditions: func(o client.Object) []metav1.Condition { return o.(*awsv1.EC2NodeClass).Status.Conditions },
	}
}

func fakeAPI(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := controllertest.Scheme(t)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&karpv1.NodePool{}, &awsv1.EC2NodeClass{}).Build()
}

func readyClass() *awsv1.EC2NodeClass {
	c := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Generation: 1}}
	c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}}
	return c
}

// poolWorld is a reconciler of pools and what it writes.
type poolWorld struct {
	t      *testing.T
	api    client.Client
	pools  *pools.Pools
	events *controllertest.EventLog
	now    time.Time
}

func newPoolWorld(t *testing.T, objects ...client.Object) *poolWorld {
	t.Helper()
	w := &poolWorld{t: t, api: fakeAPI(t, objects...), events: &controllertest.EventLog{}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.start()
	return w
}

// start is a start of the process: no in-memory state survives it.
func (w *poolWorld) start() {
	clock := func() time.Time { return w.now }
	w.pools = &pools.Pools{
		Client: w.api, Events: report.New(w.events, clock), Health: pools.NewHealth(),
		Words: awsv1.Vocabulary(), Classes: []lookup.ClassKind{awsClass()}, Now: clock,
	}
}

func (w *poolWorld) reconcile(name string) *karpv1.NodePool {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	if _, err := w.pools.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
		w.t.Fatal(err)
	}
	p := &karpv1.NodePool{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

func status(p *karpv1.NodePool, name string) string {
	c := condition.Find(p.Status.Conditions, name)
	if c == nil {
		return "absent"
	}
	return string(c.Status) + " " + c.Reason
}

// LC-52: a pool follows its class, from absent to ready and back.
func TestPoolFollowsItsClass(t *testing.T) {
	t.Parallel()
	w := newPoolWorld(t, controllertest.Pool("p"))
	p := w.reconcile("p")
	if got := status(p, "NodeClassReady"); got != "False NodeClassNotFound" {
		t.Errorf("without a class: %s", got)
	}
	if got := status(p, "Ready"); got != "False UnhealthyDependents" {
		t.Errorf("Ready without a class: %s", got)
	}
	if w.events.Count("p Warning NodeClassNotFound: EC2NodeClass c does not exist; create it") != 1 {
		t.Errorf("events %q", w.events.Lines)
	}
	class := readyClass()
	if err := w.api.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	p = w.reconcile("p")
	if got := status(p, "Ready"); got != "True Ready" || p.Status.NodeClassObservedGeneration != 1 {
		t.Errorf("with a class: %s, generation %d", got, p.Status.NodeClassObservedGeneration)
	}
	version := p.ResourceVersion
	if p = w.reconcile("p"); p.ResourceVersion != version {
		t.Error("FM N13: an unchanged pool was written again")
	}
	p.Annotations, p.Status.Conditions = nil, nil
	if err := w.api.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p = w.reconcile("p"); p.Annotations[karpv1.AnnotationNodePoolHashVersion] == "" {
		t.Error("FM N13: the hash was not stamped again")
	}
}

func ownedBy(p *karpv1.NodePool, name string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{karpv1.LabelNodePool: p.Name},
		OwnerReferences: []metav1.OwnerReference{{Kind: "NodePool", Name: p.Name, UID: p.UID}},
	}}
}

// LC-53: what the life cycle of claims reports ends up in the condition of their pool, over restarts.
func TestRegistrationHealthOfAPool(t *testing.T) {
	t.Parallel()
	pool := controllertest.Pool("p")
	w := newPoolWorld(t, pool, readyClass())
	check := func(step, want string) {
		t.Helper()
		if got := status(w.reconcile("p"), "NodeRegistrationHealthy"); got != want {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
	check("at first", "Unknown AwaitingReconciliation")
	w.pools.Health.Failed(ownedBy(pool, "a"), "", "never joined")
	w.pools.Health.Failed(ownedBy(pool, "a"), "", "never joined")
	check("one claim counts once", "Unknown AwaitingReconciliation")
	w.pools.Health.Failed(ownedBy(controllertest.Pool("other"), "b"), "", "never joined")
	stranger := controllertest.Pool("p")
	stranger.UID = "an earlier pool of this name"
	w.pools.Health.Failed(ownedBy(stranger, "c"), "", "never joined")
	w.pools.Health.Failed(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "standalone"}}, "", "never joined")
	check("claims of others do not count", "Unknown AwaitingReconciliation")
	w.pools.Health.Failed(ownedBy(pool, "d"), "", "never joined")
	check("two claims failed", "False RegistrationFailed")
	w.start()
	w.pools.Health.Registered(ownedBy(pool, "e"))
	w.pools.Health.Registered(ownedBy(pool, "f"))
	check("failures are known after a restart", "False RegistrationFailed")
	w.pools.Health.Registered(ownedBy(pool, "g"))
	check("three registered", "True NodeRegistrationHealthy")
	w.start()
	w.pools.Health.Failed(ownedBy(pool, "h"), "LaunchFailed", "quota")
	check("a success is known after a restart", "True NodeRegistrationHealthy")
	if got := w.events.Count("Normal NodeRegistrationHealthy: "); got != 2 {
		t.Errorf("%d events about it, want 2: %q", got, w.events.Lines)
	}
}

// amounts is the store as the counter sees it.
type amounts struct {
	synced bool
	nodes  int64
}

func (a *amounts) Usage(string) (corev1.ResourceList, int64) {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(4*a.nodes, resource.DecimalSI)}, a.nodes
}
func (a *amounts) Synced() bool { return a.synced }

// LC-54: the status has what the cache has, is written only when that changes, and not before the cache is
// complete; pools of others are left alone.
func TestCounter(t *testing.T) {
	t.Parallel()
	foreign := controllertest.Pool("foreign")
	foreign.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassReference{Group: "example.com", Kind: "Other", Name: "c"}
	api, memory := fakeAPI(t, controllertest.Pool("p"), foreign), &amounts{nodes: 2}
	counter := &pools.Counter{Client: api, Usage: memory, Classes: []lookup.ClassKind{awsClass()}}
	pass := func(name string) *karpv1.NodePool {
		t.Helper()
		if err := counter.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := &karpv1.NodePool{}
		if err := api.Get(t.Context(), client.ObjectKey{Name: name}, p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := pass("p"); p.Status.Nodes != nil {
		t.Errorf("counted before memory was complete: %v", p.Status)
	}
	memory.synced = true
	p := pass("p")
	got := map[corev1.ResourceName]string{}
	for name, q := range p.Status.Resources {
		got[name] = q.String()
	}
	if diff := cmp.Diff(map[corev1.ResourceName]string{"cpu": "8", "memory": "0", "pods": "0", "ephemeral-storage": "0", "nodes": "2"}, got); diff != "" || *p.Status.Nodes != 2 {
		t.Errorf("status, %d nodes (-want +got):\n%s", *p.Status.Nodes, diff)
	}
	if again := pass("p"); again.ResourceVersion != p.ResourceVersion {
		t.Error("written again without a change")
	}
	memory.nodes = 0
	if p := pass("p"); *p.Status.Nodes != 0 {
		t.Errorf("%d nodes, want 0", *p.Status.Nodes)
	}
	if p := pass("foreign"); p.Status.Nodes != nil {
		t.Error("a pool of another provider was counted")
	}
}

func TestTrust_C01_APoolShowsWhatItsClassRefuses(t *testing.T) {
	t.Parallel()
	pool := controllertest.Pool("p")
	w := newPoolWorld(t, pool, readyClass())
	w.pools.Classes[0].Refusals = func(class client.Object, p *karpv1.NodePool) []reason.Reason {
		return []reason.Reason{{Code: reason.KubeletRefused, Subject: class.GetName() + "/" + p.Name, Have: "no"}}
	}
	p := w.reconcile("p")
	if got := condition.Find(p.Status.Conditions, "ValidationSucceeded"); got.Status != metav1.ConditionFalse || got.Message != "c/p: no" {
		t.Errorf("%s %s", got.Status, got.Message)
	}
	if got := status(p, "Ready"); got != "False UnhealthyDependents" {
		t.Errorf("Ready: %s", got)
	}
}

// restedPools records the calls to the launch back-off.
type restedPools []string

func (r *restedPools) RecordUnhealthy(pool string, _ time.Time) { *r = append(*r, "unhealthy "+pool) }
func (r *restedPools) RecordHealthy(pool string)                { *r = append(*r, "healthy "+pool) }

// RH-02, RH-03: each failure of an unhealthy pool backs it off, a success does not, and health ends it.
func TestRH_02_UnhealthyPoolsAreBackedOff(t *testing.T) {
	t.Parallel()
	pool := controllertest.Pool("p")
	w := newPoolWorld(t, pool, readyClass())
	check := func(when, want string) {
		t.Helper()
		var emitted restedPools
		w.pools.LaunchBackoff = &emitted
		w.reconcile("p")
		if got := strings.Join(slices.Compact(emitted), ", "); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	check("at first", "healthy p")
	w.pools.Health.Failed(ownedBy(pool, "a"), "", "never joined")
	check("one failure", "healthy p")
	w.pools.Health.Failed(ownedBy(pool, "b"), "", "never joined")
	check("two failures", "unhealthy p")
	check("nothing new", "")
	w.pools.Health.Failed(ownedBy(pool, "c"), "", "never joined")
	check("another failure", "unhealthy p")
	for _, claim := range []string{"d", "e"} {
		w.pools.Health.Registered(ownedBy(pool, claim))
	}
	check("two register", "")
	w.pools.Health.Registered(ownedBy(pool, "f"))
	check("most of the last register", "healthy p")
}
