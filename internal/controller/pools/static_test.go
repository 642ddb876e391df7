package pools_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/lookup"
	"github.com/dovetail-sh/dovetail/internal/controller/pools"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/resources"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// fleet is a static pool at an API server, and a cache of it that lags.
type fleet struct {
	t       controllertest.T
	api     client.Client
	memory  *lagging
	orders  *execute.Claims
	static  *pools.Static
	metrics *metric.Set
	emitted *controllertest.Recorder
	create  func(name string) (lost bool, err error) // what becomes of the next claims; nil: they are written
	drifts  int
}

func newFleet(t controllertest.T, replicas int64, limit string) *fleet {
	t.Helper()
	f := &fleet{t: t, metrics: metric.New(prometheus.NewRegistry()), emitted: &controllertest.Recorder{}}
	scheme := controllertest.Scheme(t)
	p := controllertest.ReadyPool("fixed")
	p.Spec.Replicas = &replicas
	if limit != "" {
		p.Spec.Limits = corev1.ResourceList{karpv1.LimitNodes: resource.MustParse(limit)}
	}
	f.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(p).WithStatusSubresource(&karpv1.NodeClaim{}).
		WithIndex(&corev1.Node{}, lookup.NodeProviderID, func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			obj.SetUID(types.UID(obj.GetName()))
			if f.create == nil {
				return c.Create(ctx, obj, opts...)
			}
			lost, err := f.create(obj.GetName())
			if err == nil || lost {
				err = errors.Join(err, c.Create(ctx, obj, opts...))
			}
			return err
		}}).Build()
	f.boot()
	return f
}

// boot starts a process that knows what the API server has and nothing else.
func (f *fleet) boot() {
	f.memory = &lagging{fleet: f, known: map[string]*karpv1.NodeClaim{}, held: map[string]bool{}}
	f.memory.sync()
	f.orders = &execute.Claims{Client: f.api, Store: f.memory, Metrics: f.metrics, Words: awsv1.Vocabulary()}
	cache := &cached{Client: f.api, memory: f.memory}
	f.static = &pools.Static{
		Client: cache, Remover: write.NewRemover(cache, f.emitted, f.metrics, nil), Live: f.api, Store: f.memory, Claims: f.orders, LaunchBackoff: provisioning.NewLaunchBackoff(awsv1.LabelCapacityReservationID), Words: awsv1.Vocabulary(),
		Classes: []lookup.ClassKind{{GroupKind: schema.GroupKind{Group: awsv1.Group, Kind: awsv1.Kind}}}, Now: time.Now,
	}
}

func (f *fleet) pool() *karpv1.NodePool {
	p := &karpv1.NodePool{}
	if err := f.api.Get(f.t.Context(), client.ObjectKey{Name: "fixed"}, p); err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f *fleet) scale(replicas int64) {
	p := f.pool()
	p.Spec.Replicas = &replicas
	if err := f.api.Update(f.t.Context(), p); err != nil {
		f.t.Fatal(err)
	}
}

// claims are those that exist; running are those that are not being deleted.
func (f *fleet) claims() (all, running []string) {
	list := &karpv1.NodeClaimList{}
	if err := f.api.List(f.t.Context(), list); err != nil {
		f.t.Fatal(err)
	}
	for i := range list.Items {
		all = append(all, list.Items[i].Name)
		if list.Items[i].DeletionTimestamp == nil {
			running = append(running, list.Items[i].Name)
		}
	}
	return all, running
}

func (f *fleet) grow() error {
	_, err := f.static.Grow(f.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "fixed"}})
	return err
}

func (f *fleet) shrink() error {
	_, err := f.static.Shrink(f.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "fixed"}})
	return err
}

// drift replaces a claim as a command does: hold it, order another from the template, delete it.
func (f *fleet) drift() {
	_, running := f.claims()
	if len(running) == 0 {
		return
	}
	victim := running[0]
	f.memory.setHeld(victim, true)
	defer f.memory.setHeld(victim, false)
	f.drifts++
	p := f.pool()
	node, err := execute.FromTemplate(p, awsv1.Vocabulary(), resources.NewTable(), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	created := f.orders.Create(f.t.Context(), execute.Batch{
		Nodes: []solve.NewNode{node}, Pools: map[string]*karpv1.NodePool{p.Name: p}, Lanes: resources.NewTable(), Reason: "drifted", Command: fmt.Sprint("drift", f.drifts),
	})
	if created[0].Err == nil {
		f.remove(victim)
	}
}

func (f *fleet) remove(name string) {
	claim := &karpv1.NodeClaim{}
	claim.Name = name
	if err := client.IgnoreNotFound(f.api.Delete(f.t.Context(), claim)); err != nil {
		f.t.Fatal(err)
	}
}

// finish lets claims that are being deleted go for good.
func (f *fleet) finish() {
	list := &karpv1.NodeClaimList{}
	if err := f.api.List(f.t.Context(), list); err != nil {
		f.t.Fatal(err)
	}
	for i := range list.Items {
		if c := &list.Items[i]; c.DeletionTimestamp != nil {
			c.Finalizers = nil
			if err := client.IgnoreNotFound(f.api.Update(f.t.Context(), c)); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

// lagging is a cache that is updated only when the test says so.
type lagging struct {
	*fleet
	mu    sync.Mutex
	known map[string]*karpv1.NodeClaim
	held  map[string]bool
}

func (m *lagging) sync() {
	list := &karpv1.NodeClaimList{}
	if err := m.api.List(m.t.Context(), list); err != nil {
		m.t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = map[string]*karpv1.NodeClaim{}
	for i := range list.Items {
		m.known[list.Items[i].Name] = &list.Items[i]
	}
}

func (m *lagging) setHeld(name string, held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[name] = held
}

func (m *lagging) Synced() bool { return true }

// Reserve leaves static pools out.
func (m *lagging) Reserve([]solve.NewNode, map[string]string, uint64) (map[int]error, func(int)) {
	return nil, func(int) {}
}

func (m *lagging) Loads(string) map[string]cluster.ClaimLoad {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]cluster.ClaimLoad{}
	for name := range m.known {
		out[name] = cluster.ClaimLoad{Held: m.held[name]}
	}
	return out
}

func (m *lagging) Claims(string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.known))
}

func (m *lagging) RecordCreatedClaim(claim *karpv1.NodeClaim, _ []cluster.PodKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[claim.Name] = claim
}

func (m *lagging) RecordAlteredClaim(string)                 {}
func (m *lagging) UnwatchedClaims() []string                 { return nil }
func (m *lagging) RecordListedClaim(*karpv1.NodeClaim)       {}
func (m *lagging) ConfirmClaim(string, *karpv1.NodeClaim)    {}
func (m *lagging) NeedsPlace(cluster.PodKey) bool            { return false }
func (m *lagging) Pools() []*karpv1.NodePool                 { return []*karpv1.NodePool{m.pool()} }
func (m *lagging) Usage(string) (corev1.ResourceList, int64) { return nil, 0 }

// cached lists claims as the cache has them.
type cached struct {
	client.Client
	memory *lagging
}

func (c *cached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	claims, ok := list.(*karpv1.NodeClaimList)
	if !ok {
		return c.Client.List(ctx, list, opts...)
	}
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	for _, claim := range c.memory.known {
		claims.Items = append(claims.Items, *claim.DeepCopy())
	}
	return nil
}

// FM M02, I22: scaled up and down under drift, with caches that lag, claims that terminate slowly and processes that
// die, a pool never has more claims than limits.nodes, and ends with as many as it wants.
func TestFM_M02_NeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(2, 7).Draw(t, "limit")
		f := newFleet(t, 0, fmt.Sprint(limit))
		check := func() {
			if all, _ := f.claims(); len(all) > limit {
				t.Fatalf("%d claims, the limit is %d", len(all), limit)
			}
		}
		both := func(do ...func()) {
			var all sync.WaitGroup
			for _, d := range do {
				all.Go(d)
			}
			all.Wait()
		}
		try := func(do func() error) func() { return func() { _ = do() } }
		for _, replicas := range []int64{0, 5, 2, 5} {
			f.scale(replicas)
			for range rapid.IntRange(1, 4).Draw(t, "steps") {
				switch rapid.IntRange(0, 6).Draw(t, "step") {
				case 0:
					_ = f.grow()
				case 1:
					_ = f.shrink()
				case 2:
					both(try(f.grow), f.drift)
				case 3:
					both(try(f.grow), try(f.shrink), f.drift)
				case 4:
					f.finish()
				case 5:
					f.memory.sync()
				case 6:
					f.boot()
				}
				check()
			}
		}
		for range 5 {
			f.finish()
			f.memory.sync()
			if err := errors.Join(f.shrink(), f.grow()); err != nil {
				t.Fatal(err)
			}
			check()
		}
		if _, running := f.claims(); len(running) != min(5, limit) {
			t.Fatalf("it ends with %d claims, want %d", len(running), min(5, limit))
		}
	})
}

// FM M01, crash matrix 19: a process that crashes, or loses responses, after some of five claims creates five in all.
func TestFM_M01_NeverMoreThanReplicas(t *testing.T) {
	t.Parallel()
	for name, die := range map[string]func(n int) (lost bool, err error){
		"refused after three":     func(n int) (bool, error) { return false, ifMore(n) },
		"answers lost from three": func(n int) (bool, error) { return true, ifMore(n) },
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", restart ", restart), func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, 5, "")
				var mu sync.Mutex
				count := 0
				f.create = func(string) (bool, error) {
					mu.Lock()
					defer mu.Unlock()
					count++
					return die(count)
				}
				if err := f.grow(); err == nil {
					t.Error("claims were lost and no error says so")
				}
				f.create = nil
				if restart {
					f.boot()
				}
				for range 3 {
					if err := f.grow(); err != nil { // whether or not the cache has all
						t.Fatal(err)
					}
				}
				if all, _ := f.claims(); len(all) != 5 {
					t.Errorf("%d claims: %v", len(all), all)
				}
			})
		}
	}
}

func ifMore(n int) error {
	if n > 3 {
		return errors.New("connection reset")
	}
	return nil
}

// LC-46, LC-47: up and down, with what is counted; a pool of another provider is left alone.
func TestStaticPool(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, "")
	if err := f.grow(); err != nil {
		t.Fatal(err)
	}
	if n := testutil.ToFloat64(f.metrics.NodeClaimsCreated.WithLabelValues("provisioned", "fixed", "false")); n != 3 {
		t.Errorf("%v claims were counted", n)
	}
	f.scale(1)
	f.memory.sync()
	for range 2 { // the second time the cache is stale
		if err := f.shrink(); err != nil {
			t.Fatal(err)
		}
	}
	if all, running := f.claims(); len(all) != 3 || len(running) != 1 {
		t.Errorf("%d claims, %d of them stay", len(all), len(running))
	}
	if n := testutil.ToFloat64(f.metrics.NodeClaimsDisrupted.WithLabelValues("scaled_down", "fixed", "", "", "graceful")); n != 2 {
		t.Errorf("%v removals were counted", n)
	}
	for _, e := range f.emitted.Events {
		if e.Reason != event.DisruptionTerminating || e.Text != "Disrupting the node, reason ScaledDown: NodePool fixed has more nodes than the 1 it wants" {
			t.Errorf("%s says %s: %s", e.On, e.Reason, e.Text)
		}
	}
	if len(f.emitted.Events) != 2 {
		t.Errorf("%d claims say why they go", len(f.emitted.Events))
	}
	f.static.Classes = nil
	f.scale(9)
	if err := f.grow(); err != nil {
		t.Fatal(err)
	}
	if _, running := f.claims(); len(running) != 1 {
		t.Errorf("a pool of another owner has %d claims", len(running))
	}
}

// FM F02: a pool whose launches fail one after another rests.
func TestStaticPoolRests(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, "")
	rest := provisioning.NewLaunchBackoff(awsv1.LabelCapacityReservationID)
	f.static.LaunchBackoff = rest
	failed := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{karpv1.LabelNodePool: "fixed"}}}
	for range 20 {
		rest.RecordLaunch(failed, cloud.Instance{}, &cloud.Error{Kind: cloud.NoCapacity}, time.Now())
	}
	if err := f.grow(); err != nil {
		t.Fatal(err)
	}
	if all, _ := f.claims(); len(all) != 0 {
		t.Errorf("ordered %v while it rests", all)
	}
}

// FM A14, G12: an admission webhook denies the claims of a static pool. The pool is backed off as it would be if its claims
// were for pods: they are requested again after a minute, then after two, and so on, until one is launched.
func TestFM_A14_DeniedClaimsOfStaticPools(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3, "")
	now := time.Now()
	f.static.Now = func() time.Time { return now }
	var tries []time.Duration
	began, last := now, time.Duration(-1)
	var mu sync.Mutex
	f.create = func(string) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if at := now.Sub(began); at != last {
			tries, last = append(tries, at), at
		}
		return false, apierrors.NewForbidden(schema.GroupResource{Resource: "nodeclaims"}, "", errors.New("admission denies it"))
	}
	for ; now.Sub(began) < 10*time.Minute; now = now.Add(10 * time.Second) {
		result, err := f.static.Grow(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "fixed"}})
		if requested := last == now.Sub(began); (err != nil) != requested || err == nil && result.RequeueAfter <= 0 {
			t.Errorf("after %s: claims requested %v, again after %s, error %v", now.Sub(began), requested, result.RequeueAfter, err)
		}
	}
	if want := []time.Duration{0, time.Minute, 3 * time.Minute, 7 * time.Minute}; !slices.Equal(tries, want) {
		t.Errorf("claims were requested after %v, want %v", tries, want)
	}
	f.create, now = nil, began.Add(15*time.Minute)
	if err := f.grow(); err != nil {
		t.Fatal(err)
	}
	if all, _ := f.claims(); len(all) != 3 {
		t.Errorf("%d claims once they are not denied any more, want 3", len(all))
	}
}

// OV-20, OV-22: a static pool launches nothing before NodeOverlays were evaluated for it; then its claims say what these
// changed.
func TestOV_20_StaticPoolsWaitForOverlays(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1, "")
	var types []catalog.InstanceType
	why := error(&cloud.Error{Kind: cloud.NotReady, Err: cloud.ErrUnevaluated})
	f.static.Types = func(context.Context, *karpv1.NodePool) ([]catalog.InstanceType, error) { return types, why }
	result, err := f.static.Grow(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "fixed"}})
	if all, _ := f.claims(); err != nil || result.RequeueAfter <= 0 || len(all) != 0 {
		t.Errorf("claims %v, again after %s, error %v; want to wait", all, result.RequeueAfter, err)
	}
	if why = errors.New("access denied"); f.grow() == nil {
		t.Error("the types cannot be listed, and nothing says so")
	}
	why = nil
	types = []catalog.InstanceType{{Name: "m5.large", Overlaid: true, Offerings: []catalog.Offering{{Available: true, CapacityType: karpv1.CapacityTypeOnDemand}}}}
	if err := f.grow(); err != nil {
		t.Fatal(err)
	}
	list := &karpv1.NodeClaimList{}
	if err := f.api.List(t.Context(), list); err != nil || len(list.Items) != 1 || list.Items[0].Annotations[karpv1.AnnotationPriceOverlayApplied] != "true" {
		t.Errorf("claims %+v, %v", list.Items, err)
	}
}

// Claims of a static pool are named after it and belong to it.
func TestStaticClaimsBelongToTheirPool(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, "")
	if err := f.grow(); err != nil {
		t.Fatal(err)
	}
	all, _ := f.claims()
	if len(all) != 2 || slices.ContainsFunc(all, func(name string) bool { return !strings.HasPrefix(name, "fixed-") }) {
		t.Errorf("claims %v", all)
	}
}
