package metered

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// world is a cloud that responds as configured, beside an API server.
type world struct {
	kube     client.Client
	reg      *prometheus.Registry
	metrics  *metric.Set
	response map[string]error // by method
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := karpv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{kube: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), reg: prometheus.NewRegistry()}
	w.metrics = metric.New(w.reg)
	return w
}

func (w *world) Types(context.Context, *karpv1.NodePool) ([]catalog.InstanceType, error) {
	return nil, w.response["Types"]
}

func (w *world) Launch(context.Context, *karpv1.NodeClaim) (cloud.Instance, error) {
	return cloud.Instance{}, w.response["Launch"]
}

func (w *world) Find(context.Context, cloud.ID) (cloud.Instance, error) {
	return cloud.Instance{}, w.response["Find"]
}

func (w *world) List(context.Context) ([]cloud.Instance, error) { return nil, w.response["List"] }

func (w *world) Terminate(context.Context, cloud.ID) error { return w.response["Terminate"] }

func (w *world) Drift(context.Context, *karpv1.NodeClaim) (reason.Reason, error) {
	return reason.Reason{}, w.response["Drift"]
}

func (w *world) Repairs() []cloud.Repair { return []cloud.Repair{{Action: cloud.ReplaceNode}} }

func (w *world) Reboot(context.Context, *karpv1.NodeClaim, string) error { return w.response["Reboot"] }

// series are the values of a metric by its labels, in order of their names.
func (w *world) series(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := w.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if f.GetName() == name {
				out[strings.Join(labels, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return out
}

// instanceType has two cores, and is offered in one zone.
func instanceType(name, memory string) catalog.InstanceType {
	return catalog.InstanceType{
		Name:     name,
		Capacity: resources.Table{}.Capacity(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse(memory)}),
		Offerings: []catalog.Offering{
			{Zone: "eu-west-1a", CapacityType: "spot", Price: 0.04, Available: true},
			{Zone: "eu-west-1a", CapacityType: "on-demand", Price: 0.1, Available: true},
		},
	}
}

// backwards lists like a cache, which has no order: last name first. The fake client would list by name.
type backwards struct{ client.Client }

func (b backwards) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := b.Client.List(ctx, list, opts...)
	if pools, is := list.(*karpv1.NodePoolList); is {
		slices.Reverse(pools.Items)
	}
	return err
}

// V15-70: every error has a name, and its pool where that is known.
func TestV15_70_CallsAreMeasured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.response = map[string]error{"Launch": &cloud.Error{Kind: cloud.NoCapacity}, "Find": &cloud.Error{Kind: cloud.NotFound}, "Reboot": &cloud.Error{Kind: cloud.NotReady}}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{karpv1.LabelNodePool: "default"}}}
	m := &Provider{Inner: w, Cloud: "sky", Controller: "nodeclaim.lifecycle", Metrics: w.metrics, Now: func() time.Time { return start }}
	_, _ = m.Launch(t.Context(), claim)
	_, _ = m.Find(t.Context(), "sky:///a/i-1")
	_, _ = m.List(t.Context())
	w.response["List"] = errors.New("odd")
	_, _ = m.List(t.Context())
	_, _ = m.Types(t.Context(), &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	_ = m.Terminate(t.Context(), "sky:///a/i-1")
	_, _ = m.Drift(t.Context(), claim)
	_ = m.Reboot(t.Context(), claim, "op")
	if len(m.Repairs()) != 1 {
		t.Error("the repair policies are not passed on")
	}
	want := map[string]float64{
		"nodeclaim.lifecycle InsufficientCapacityError Create default sky": 1,
		"nodeclaim.lifecycle NodeClaimNotFoundError Get  sky":              1,
		"nodeclaim.lifecycle NodeClassNotReadyError Reboot default sky":    1,
		"nodeclaim.lifecycle unknown List  sky":                            1,
	}
	if diff := cmp.Diff(want, w.series(t, "karpenter_cloudprovider_errors_total")); diff != "" {
		t.Error(diff)
	}
	want = map[string]float64{
		"nodeclaim.lifecycle Create sky": 1, "nodeclaim.lifecycle Get sky": 1, "nodeclaim.lifecycle List sky": 2, "nodeclaim.lifecycle GetInstanceTypes sky": 1,
		"nodeclaim.lifecycle Delete sky": 1, "nodeclaim.lifecycle IsDrifted sky": 1, "nodeclaim.lifecycle Reboot sky": 1,
	}
	if diff := cmp.Diff(want, w.series(t, "karpenter_cloudprovider_duration_seconds")); diff != "" {
		t.Error(diff)
	}
}

func TestGaugesSurviveABrokenPool(t *testing.T) {
	t.Parallel()
	pool := func(name string) *karpv1.NodePool { return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	w := newWorld(t, pool("broken"), pool("good"))
	list := []catalog.InstanceType{instanceType("m5.large", "8Gi")}
	list[0].Offerings[1].Available = false
	g := &Offerings{Pools: w.kube, Metrics: w.metrics, Types: func(_ context.Context, p *karpv1.NodePool) ([]catalog.InstanceType, error) {
		if p.Name == "broken" {
			return nil, errors.New("no class")
		}
		return list, nil
	}}
	if err := g.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	want := map[string]map[string]float64{
		"karpenter_cloudprovider_instance_type_offering_available":      {"spot m5.large eu-west-1a": 1, "on-demand m5.large eu-west-1a": 0},
		"karpenter_cloudprovider_instance_type_offering_price_estimate": {"spot m5.large eu-west-1a": 0.04, "on-demand m5.large eu-west-1a": 0.1},
		"karpenter_cloudprovider_instance_type_cpu_cores":               {"m5.large": 2},
		"karpenter_cloudprovider_instance_type_memory_bytes":            {"m5.large": 8 << 30},
	}
	for name, series := range want {
		if diff := cmp.Diff(series, w.series(t, name)); diff != "" {
			t.Error(name, diff)
		}
	}
	list = nil // all is gone
	_ = g.Refresh(t.Context())
	for name := range want {
		if got := w.series(t, name); len(got) != 0 {
			t.Errorf("%s: %v is still shown", name, got)
		}
	}
}

// FM P02, OV-12: the gauge has the lowest price that any pool knows. Zero is none, unless an overlay made it so, whichever
// pool comes first.
func TestFM_P02_GaugesHaveTheLowestKnownPrice(t *testing.T) {
	t.Parallel()
	offering := func(usd float64, free bool) catalog.Offering {
		return catalog.Offering{Zone: "eu-west-1a", CapacityType: "spot", Price: usd, Free: free, Available: usd > 0 || free}
	}
	unknown, cheap, dear, free := offering(0, false), offering(0.1, false), offering(0.2, false), offering(0, true)
	for name, tc := range map[string]struct {
		pools []catalog.Offering // one in each
		want  float64
	}{
		"the first does not know it": {[]catalog.Offering{unknown, dear}, 0.2},
		"the last does not know it":  {[]catalog.Offering{cheap, unknown}, 0.1},
		"it is unknown":              {[]catalog.Offering{unknown, unknown}, 0},
		"the lowest, of the last":    {[]catalog.Offering{unknown, dear, cheap}, 0.1},
		"the lowest, of the first":   {[]catalog.Offering{cheap, dear}, 0.1},
		"free for the first":         {[]catalog.Offering{free, cheap}, 0},
		"free for the last":          {[]catalog.Offering{unknown, cheap, free}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sizes, offered := map[string]catalog.InstanceType{}, map[offeringKey]bestOffering{}
			for _, o := range tc.pools {
				mergeTypes([]catalog.InstanceType{{Name: "m5.large", Offerings: []catalog.Offering{o}}}, sizes, offered)
			}
			if got := offered[offeringKey{"m5.large", "spot", "eu-west-1a"}].price; got != tc.want {
				t.Errorf("price %v, want %v", got, tc.want)
			}
		})
	}
}

// Two pools may see one instance type with different amounts of memory, after what nodes of their images have. The
// gauge does not jump between the two.
func TestGaugesDoNotDependOnTheOrderOfPools(t *testing.T) {
	t.Parallel()
	pool := func(name string) *karpv1.NodePool { return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	w := newWorld(t, pool("a"), pool("b"))
	types := func(_ context.Context, p *karpv1.NodePool) ([]catalog.InstanceType, error) {
		if p.Name == "b" {
			return []catalog.InstanceType{instanceType("m5.large", "7Gi")}, nil
		}
		return []catalog.InstanceType{instanceType("m5.large", "8Gi")}, nil
	}
	for _, reader := range []client.Reader{w.kube, backwards{w.kube}} {
		g := &Offerings{Pools: reader, Metrics: w.metrics, Types: types}
		if err := g.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.series(t, "karpenter_cloudprovider_instance_type_memory_bytes")["m5.large"]; got != 8<<30 {
			t.Errorf("memory %v, want what the first pool by name sees", got)
		}
	}
}
