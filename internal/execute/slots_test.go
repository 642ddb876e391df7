package execute_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// staticPool has room for limit nodes.
func staticPool(limit string) *karpv1.NodePool {
	p := pool()
	p.Spec.Replicas, p.Spec.Limits = new(int64(5)), corev1.ResourceList{karpv1.LimitNodes: resource.MustParse(limit)}
	p.Spec.Template.Spec.Requirements = []karpv1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"large"}}}
	return p
}

func writerFor(t *testing.T, create func(client.Object) error) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := karpv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := create(obj); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
	}).Build()
}

func ordering(t *testing.T, p *karpv1.NodePool, n int, command string) execute.Batch {
	t.Helper()
	node, err := execute.FromTemplate(p, awsv1.Vocabulary(), resources.NewTable(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return execute.Batch{
		Nodes: slices.Repeat([]solve.NewNode{node}, n), Pools: map[string]*karpv1.NodePool{p.Name: p}, Lanes: resources.NewTable(), Reason: execute.Provisioned, Command: command,
	}
}

// LC-46, V15-51: however many order at once, a static pool never has more claims than its limit, and slots
// of orders that failed are there for the next.
func TestLC46_SlotsAreReserved(t *testing.T) {
	t.Parallel()
	p := staticPool("6")
	store := &memory{pools: []*karpv1.NodePool{p}, claimed: make(chan string, 100)}
	store.have.Store(2)
	var broken sync.Map
	writer := writerFor(t, func(client.Object) error {
		if _, down := broken.Load("api"); down {
			return errors.New("connection refused")
		}
		return nil
	})
	claims := &execute.Claims{Client: writer, Store: store, Metrics: metric.New(prometheus.NewRegistry()), Words: awsv1.Vocabulary()}
	broken.Store("api", true)
	for _, c := range claims.Create(t.Context(), ordering(t, p, 4, "broken")) {
		if c.Err == nil || errors.Is(c.Err, execute.ErrAtLimit) {
			t.Errorf("with the API server away: %v", c.Err)
		}
	}
	broken.Delete("api")
	var all sync.WaitGroup
	results := make(chan error, 40)
	for _, command := range []string{"grow", "drift", "repair", "drift again"} {
		batch := ordering(t, p, 3, command)
		all.Go(func() {
			for _, c := range claims.Create(t.Context(), batch) {
				results <- c.Err
			}
		})
	}
	all.Wait()
	close(results)
	made, full := 0, 0
	for err := range results {
		switch {
		case err == nil:
			made++
		case errors.Is(err, execute.ErrAtLimit):
			full++
		default:
			t.Error(err)
		}
	}
	if made > 4 || made+full != 12 {
		t.Errorf("%d were made and %d found no room; two of six were there", made, full)
	}
	for _, c := range claims.Create(t.Context(), ordering(t, p, 3, "rest")) { // one who counts twice leaves room for the next
		if c.Err == nil {
			made++
		}
	}
	if made != 4 {
		t.Errorf("%d were made in the end, want 4", made)
	}
}

// A pool without a limit, and one that is not static, are not held up.
func TestSlotsAreForStaticPools(t *testing.T) {
	t.Parallel()
	p := pool()
	p.Spec.Replicas = new(int64(5))
	store := &memory{pools: []*karpv1.NodePool{p}, claimed: make(chan string, 100)}
	store.have.Store(1000)
	claims := &execute.Claims{Client: writerFor(t, func(client.Object) error { return nil }), Store: store, Metrics: metric.New(prometheus.NewRegistry()), Words: awsv1.Vocabulary()}
	for _, c := range claims.Create(t.Context(), ordering(t, p, 3, "x")) {
		if c.Err != nil {
			t.Error(c.Err)
		}
	}
}

// API 10.4: a claim from the template has its requirements, also those for instance types, and requests
// nothing.
func TestClaimsFromTheTemplate(t *testing.T) {
	t.Parallel()
	p := staticPool("6")
	batch := ordering(t, p, 1, "x")
	claim, err := execute.Claim(execute.Order{Pool: p, Node: batch.Nodes[0], Lanes: batch.Lanes, Words: awsv1.Vocabulary(), Seed: "x"})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(claim.Spec.Requirements, func(r karpv1.Requirement) bool { return r.Key == corev1.LabelInstanceTypeStable })
	if i < 0 || !slices.Equal(claim.Spec.Requirements[i].Values, []string{"large"}) || len(claim.Spec.Resources.Requests) != 0 {
		t.Errorf("claim %+v", claim.Spec)
	}
	p.Spec.Template.ObjectMeta.Labels = map[string]string{corev1.LabelInstanceTypeStable: "small"}
	if _, err := execute.FromTemplate(p, awsv1.Vocabulary(), resources.NewTable(), nil); err == nil {
		t.Error("a template that contradicts itself makes a claim")
	}
}

// G10: a node that finds no room is not written, says why, and every other one is; all room is given back.
func TestCreateWithoutRoom(t *testing.T) {
	t.Parallel()
	p := pool()
	store := &memory{pools: []*karpv1.NodePool{p}, claimed: make(chan string, 100), late: map[int]error{1: errors.New("nodepool general: its limit 8 of cpu leaves no room for another node")}}
	claims := &execute.Claims{Client: writerFor(t, func(client.Object) error { return nil }), Store: store, Metrics: metric.New(prometheus.NewRegistry()), Words: awsv1.Vocabulary()}
	for i, c := range claims.Create(t.Context(), ordering(t, p, 3, "x")) {
		if full := i == 1; errors.Is(c.Err, execute.ErrOutdated) != full || (c.Claim == nil) != full {
			t.Errorf("node %d: claim %v, %v", i, c.Claim, c.Err)
		}
	}
	if len(store.claimed) != 2 || store.given.Load() != 3 {
		t.Errorf("%d claims in memory, room was given back %d times", len(store.claimed), store.given.Load())
	}
}

// OV-22, SC-50: the claim of a static pool says what overlays changed of the types that it can become, and of no other.
func TestOV_22_ClaimsOfStaticPoolsCarryOverlays(t *testing.T) {
	t.Parallel()
	offering := func(zone string, launchable bool) catalog.Offering {
		return catalog.Offering{Zone: zone, CapacityType: karpv1.CapacityTypeOnDemand, Available: launchable, Labels: map[string]string{"example.com/rack": "r1"}}
	}
	typed := func(name string, price, capacity bool, offerings ...catalog.Offering) catalog.InstanceType {
		labels := reqs.FromLabels(map[string]string{corev1.LabelInstanceTypeStable: name}, awsv1.Vocabulary())
		return catalog.InstanceType{Name: name, Labels: labels, Overlaid: price, CapacityOverlaid: capacity, Offerings: offerings}
	}
	for name, tc := range map[string]struct {
		types           []catalog.InstanceType
		more            []karpv1.Requirement
		price, capacity bool
	}{
		"no overlay":           {types: []catalog.InstanceType{typed("large", false, false, offering("a", true))}},
		"a price":              {types: []catalog.InstanceType{typed("large", true, false, offering("a", true))}, price: true},
		"capacity":             {types: []catalog.InstanceType{typed("large", false, true, offering("a", true))}, capacity: true},
		"of a type it is not":  {types: []catalog.InstanceType{typed("large", false, false, offering("a", true)), typed("small", true, true, offering("a", true))}},
		"that has no capacity": {types: []catalog.InstanceType{typed("large", true, true, offering("a", false))}},
		"in another zone": {
			types: []catalog.InstanceType{typed("large", true, false, offering("a", true))},
			more:  []karpv1.Requirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
		},
		"in another rack": {
			types: []catalog.InstanceType{typed("large", true, false, offering("a", true))},
			more:  []karpv1.Requirement{{Key: "example.com/rack", Operator: corev1.NodeSelectorOpIn, Values: []string{"r2"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := staticPool("6")
			p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, tc.more...)
			node, err := execute.FromTemplate(p, awsv1.Vocabulary(), resources.NewTable(), tc.types)
			if err != nil {
				t.Fatal(err)
			}
			claim, err := execute.Claim(execute.Order{Pool: p, Node: node, Lanes: resources.NewTable(), Words: awsv1.Vocabulary(), Seed: "x"})
			if err != nil {
				t.Fatal(err)
			}
			for annotation, want := range map[string]bool{karpv1.AnnotationPriceOverlayApplied: tc.price, karpv1.AnnotationCapacityOverlayApplied: tc.capacity} {
				if got := claim.Annotations[annotation] == "true"; got != want {
					t.Errorf("annotation %s: %v, want %v", annotation, got, want)
				}
			}
		})
	}
}
