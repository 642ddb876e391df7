package overlays

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

const device = "example.com/device"

// world is a cluster with overlays, and a cloud with one list of types for all pools.
type world struct {
	*Overlays
	t         *testing.T
	kube      client.Client
	list      []catalog.InstanceType
	fails     map[string]error // by pool: its types cannot be listed
	requested int              // how often types were listed
	reads     error            // overlays cannot be read
	now       time.Time
	table     resources.Table
	rearm     int // how often consolidation was triggered again
	plans     int // how often a plan was requested
	said      []string
	log       logr.Logger
}

// context carries the log of the test.
func (w *world) context() context.Context { return log.IntoContext(w.t.Context(), w.log) }

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{karpv1.AddToScheme, AddToScheme, awsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, fails: map[string]error{}, now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), table: resources.NewTable("example.com/first")}
	w.log = logr.New(funcr.New(func(_, args string) { w.said = append(w.said, args) }, funcr.Options{}).GetSink())
	w.kube = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.NodeOverlay{}).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, overlays := list.(*v1alpha1.NodeOverlayList); overlays && w.reads != nil {
				return w.reads
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	w.list = []catalog.InstanceType{instanceType("small", 0.1), instanceType("large", 0.4)}
	w.Overlays = &Overlays{
		Client: w.kube, Reader: w.kube, Informers: &informertest.FakeInformers{Scheme: scheme}, Store: w, Words: reqs.CoreVocabulary(), Events: w,
		Classes: []lookup.ClassKind{{GroupKind: schema.GroupKind{Group: awsv1.Group, Kind: awsv1.Kind}, New: func() client.Object { return &awsv1.EC2NodeClass{} }}},
		Types: func(_ context.Context, pool *karpv1.NodePool) ([]catalog.InstanceType, error) {
			w.requested++
			return w.list, w.fails[pool.Name]
		},
		Now: func() time.Time { return w.now }, Changed: func() { w.plans++ },
	}
	return w
}

func (w *world) Lanes(names ...corev1.ResourceName) resources.Table {
	w.table = w.table.Extend(names...)
	return w.table
}
func (w *world) RecordPriceChange()                    { w.rearm++ }
func (w *world) Emit(client.Object, ...event.Event)    {}
func (w *world) Flips(client.Object, []condition.Flip) {}

func instanceType(name string, usd float64) catalog.InstanceType {
	return catalog.InstanceType{
		Name: name, Labels: reqs.FromLabels(map[string]string{corev1.LabelInstanceTypeStable: name}, reqs.CoreVocabulary()), Capacity: resources.Of(2000, 1<<33, 0, 110),
		Offerings: []catalog.Offering{{Zone: "a", CapacityType: karpv1.CapacityTypeOnDemand, Price: usd, Available: true}},
	}
}

func pool(name string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}
	return p
}

// priced is an overlay that gives one type a price.
func priced(name, instanceType, usd string) *v1alpha1.NodeOverlay {
	return &v1alpha1.NodeOverlay{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Spec: v1alpha1.NodeOverlaySpec{
			Price: &usd, Requirements: []v1alpha1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{instanceType}}},
		},
	}
}

// types are what a pool is planned with.
func (w *world) types(name string) ([]catalog.InstanceType, error) {
	list, err := w.Overlays.Types(w.context(), pool(name))
	if err != nil {
		return nil, err
	}
	list, _, err = w.apply(w.context(), pool(name), list)
	return list, err
}

// price is what a pool is planned with for a type.
func (w *world) price(poolName string, n int) float64 {
	w.t.Helper()
	list, err := w.types(poolName)
	if err != nil {
		w.t.Fatal(err)
	}
	return list[n].Offerings[0].Price
}

func (w *world) turn() time.Duration {
	w.t.Helper()
	wait, err := w.Turn(w.context())
	if err != nil {
		w.t.Fatal(err)
	}
	return wait
}

func (w *world) condition(name, kind string) metav1.Condition {
	w.t.Helper()
	o := &v1alpha1.NodeOverlay{}
	if err := w.kube.Get(w.context(), client.ObjectKey{Name: name}, o); err != nil {
		w.t.Fatal(err)
	}
	if c := condition.Find(o.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// P04: an edit takes effect as a whole, at once, for everybody; nothing is computed again while nothing changes.
func TestOV_19_FM_P04_AChangeTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	o := priced("o", "large", "0.05")
	w := newWorld(t, pool("a"), pool("b"), o)
	if wait := w.turn(); wait != 6*time.Hour {
		t.Errorf("the next evaluation is in %s", wait)
	}
	if w.price("a", 1) != 0.05 || w.price("a", 0) != 0.1 {
		t.Error("the overlay is not applied")
	}
	first, _ := w.types("a")
	again, _ := w.types("b")
	if &first[0] != &again[0] {
		t.Error("one list of the cloud has two results although overlays cannot tell the pools apart")
	}
	if w.list[1].Offerings[0].Price != 0.4 {
		t.Error("the list of the cloud was changed")
	}
	if w.rearm != 1 || w.plans != 1 {
		t.Errorf("consolidation looks again %d times, plans are made %d times, want 1", w.rearm, w.plans)
	}
	w.turn()
	if again, _ = w.types("a"); &first[0] != &again[0] || w.rearm != 1 {
		t.Error("an evaluation without change changed something")
	}
	w.list = append([]catalog.InstanceType(nil), w.list...) // prices of the cloud changed
	w.list[0].Offerings = []catalog.Offering{{Zone: "a", CapacityType: karpv1.CapacityTypeOnDemand, Price: 0.2, Available: true}}
	if w.price("a", 1) != 0.05 || w.price("a", 0) != 0.2 {
		t.Error("a new list of the cloud is not used, or without the overlay")
	}
	if err := w.kube.Get(w.context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	usd := "0.07"
	o.Spec.Price, o.Generation = &usd, 2
	if err := w.kube.Update(w.context(), o); err != nil {
		t.Fatal(err)
	}
	w.turn()
	if w.price("b", 1) != 0.07 || w.rearm != 2 {
		t.Errorf("price %v after the edit; consolidation looks again %d times", w.price("b", 1), w.rearm)
	}
	if err := w.kube.Delete(w.context(), o); err != nil {
		t.Fatal(err)
	}
	w.turn()
	if list, _ := w.types("a"); &list[0] != &w.list[0] || w.rearm != 3 {
		t.Error("without overlays the list of the cloud is not used itself, or consolidation does not look again")
	}
}

// M08: nothing is planned with prices that overlays are about to change.
func TestOV_20_FM_M08_NotBeforeTheFirstEvaluation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool("a"), pool("broken"), priced("o", "large", "0.05"))
	w.reads = errors.New("the API server is down")
	if _, err := w.types("a"); !errors.Is(err, cloud.ErrUnevaluated) || !cloud.Is(err, cloud.NotReady) {
		t.Fatalf("error %v before overlays were read", err)
	}
	w.reads, w.fails["broken"] = nil, errors.New("no subnets")
	if got := w.price("a", 1); got != 0.05 {
		t.Errorf("price %v, want that of the overlay: the other pool does not matter", got)
	}
	first, second := w.turn(), w.turn()
	if first != time.Second || second != 2*time.Second {
		t.Errorf("retries after %s and %s", first, second)
	}
	if c := w.condition("o", karpv1.ConditionReady); c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v: a pool that cannot be listed keeps an overlay from being ready", c)
	}
	if w.state.Covers("broken") {
		t.Error("a pool without types counts as evaluated")
	}
	delete(w.fails, "broken")
	if got := w.price("broken", 1); got != 0.05 {
		t.Errorf("price %v once the types can be listed", got)
	}
	if wait := w.turn(); wait != 6*time.Hour {
		t.Errorf("the next evaluation is in %s", wait)
	}
	if got := w.price("new", 1); got != 0.05 { // the cache does not have it yet
		t.Errorf("price %v for a new pool", got)
	}
}

// M07: the second of two equals is rejected, one that is malformed too; both say why.
func TestOV_23_FM_M07_Conditions(t *testing.T) {
	t.Parallel()
	bad := priced("c", "large", "1")
	bad.Spec.Requirements[0].Key = corev1.LabelHostname
	w := newWorld(t, pool("a"), priced("a", "large", "0.3"), priced("b", "large", "0.05"), bad)
	w.turn()
	for name, want := range map[string]metav1.Condition{
		"a": {Status: metav1.ConditionFalse, Reason: "Conflict", Message: "NodeOverlay b, also of weight 0"},
		"b": {Status: metav1.ConditionTrue, Reason: karpv1.ConditionValidationSucceeded},
		"c": {Status: metav1.ConditionFalse, Reason: "RuntimeValidation", Message: "spec.requirements[0]: label kubernetes.io/hostname"},
	} {
		got, ready := w.condition(name, karpv1.ConditionValidationSucceeded), w.condition(name, karpv1.ConditionReady)
		if got.Status != want.Status || got.Reason != want.Reason || !strings.HasPrefix(got.Message, want.Message) || got.ObservedGeneration != 1 || ready.Status != want.Status {
			t.Errorf("%s: %+v, %+v", name, got, ready)
		}
	}
	before := &v1alpha1.NodeOverlay{}
	_ = w.kube.Get(w.context(), client.ObjectKey{Name: "a"}, before)
	w.now = w.now.Add(time.Hour)
	w.turn()
	after := &v1alpha1.NodeOverlay{}
	_ = w.kube.Get(w.context(), client.ObjectKey{Name: "a"}, after)
	if before.ResourceVersion != after.ResourceVersion {
		t.Error("conditions are written although nothing changed")
	}
	if got := w.price("a", 1); got != 0.05 {
		t.Errorf("price %v, want that of b", got)
	}
}

func TestOV_24_FM_C12_WithoutTheKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool("a"), priced("o", "large", "0.05"))
	w.reads = &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: karpv1.Group, Kind: "NodeOverlay"}}
	for range 3 {
		if list, err := w.types("a"); err != nil || &list[0] != &w.list[0] {
			t.Fatalf("%v; want the list of the cloud", err)
		}
		if wait := w.turn(); wait <= 0 || wait > unserved {
			t.Errorf("it is looked for the kind in %s", wait)
		}
		w.now = w.now.Add(unserved)
	}
	if n := len(w.said); n != 1 || !strings.Contains(w.said[0], "dovetail crds") {
		t.Errorf("the log says %v", w.said)
	}
	w.reads = nil
	if wait := w.turn(); wait != 6*time.Hour {
		t.Errorf("the next evaluation is in %s", wait)
	}
	if got := w.price("a", 1); got != 0.05 {
		t.Errorf("price %v once the kind is served", got)
	}
}

func TestOV_22_Launches(t *testing.T) {
	t.Parallel()
	o := priced("o", "large", "0.05")
	o.Spec.Capacity = corev1.ResourceList{device: resource.MustParse("4")}
	w := newWorld(t, pool("a"), o)
	claim := func(pool string) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{karpv1.LabelNodePool: pool}}}
		if pool == "" {
			c.Labels = nil
		}
		return c
	}
	list, table, err := w.Launchable(w.context(), claim("a"), w.list)
	if err != nil {
		t.Fatal(err)
	}
	lane, known := table.Lane(device)
	if !known || list[1].Capacity.At(lane) != 4 || list[1].Offerings[0].Price != 0.05 {
		t.Errorf("launched with %+v, lane %d", list[1], lane)
	}
	for _, name := range []string{"", "deleted"} {
		if list, _, err := w.Launchable(w.context(), claim(name), w.list); err != nil || &list[0] != &w.list[0] {
			t.Errorf("pool %q: overlays are applied, or %v", name, err)
		}
	}
}

func TestOV_21_PreviewPrices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool("a"), priced("o", "new", "0.05"))
	if prices, version := w.PreviewPrices(); prices != nil || version != 0 {
		t.Error("prices before the first evaluation")
	}
	w.turn()
	prices, version := w.PreviewPrices()
	if prices["new"] != 0.05 || version != 1 {
		t.Errorf("%v, version %d", prices, version)
	}
	w.turn()
	if _, again := w.PreviewPrices(); again != version {
		t.Error("the version rose although nothing changed")
	}
}

// OV-16, OV-19: two overlays that conflict about an instance type which is new are noticed when the type is, not hours
// later. Other prices alone wake no watcher.
func TestOV_19_ANewInstanceTypeIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool("a"), priced("x", "new", "1"), priced("y", "new", "2"))
	verdict := func() string {
		o := &v1alpha1.NodeOverlay{}
		if err := w.kube.Get(t.Context(), client.ObjectKey{Name: "x"}, o); err != nil {
			t.Fatal(err)
		}
		c := condition.Find(o.Status.Conditions, karpv1.ConditionValidationSucceeded)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
	look := func(wantWake bool, why string) {
		t.Helper()
		if _, err := w.types("a"); err != nil {
			t.Fatal(err)
		}
		woken := false
		select {
		case <-w.woken():
			woken = true
		default:
		}
		if woken != wantWake {
			t.Errorf("%s: woken %v, want %v", why, woken, wantWake)
		}
	}
	if _, err := w.Turn(w.context()); err != nil {
		t.Fatal(err)
	}
	if got := verdict(); got != "True ValidationSucceeded" {
		t.Errorf("before the type is there the overlay is %s", got)
	}
	look(false, "nothing changed")
	w.list = []catalog.InstanceType{instanceType("small", 0.2), instanceType("large", 0.5)}
	look(false, "prices changed")
	w.list = []catalog.InstanceType{instanceType("small", 0.1), instanceType("large", 0.4), instanceType("new", 0.3)}
	look(true, "a type is new")
	if _, err := w.Turn(w.context()); err != nil {
		t.Fatal(err)
	}
	if got := verdict(); got != "False Conflict" {
		t.Errorf("once the type is there the overlay is %s", got)
	}
	look(false, "the type is known")
	w.list = w.list[:2:2]
	look(true, "the type is gone")
}
