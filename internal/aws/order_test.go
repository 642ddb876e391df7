package aws

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// backwards lists like a cache, which has no order: last name first. The fake client would list by name.
type backwards struct{ client.Client }

func (b backwards) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := b.Client.List(ctx, list, opts...)
	switch list := list.(type) {
	case *karpv1.NodePoolList:
		slices.Reverse(list.Items)
	case *karpv1.NodeClaimList:
		slices.Reverse(list.Items)
	case *corev1.NodeList:
		slices.Reverse(list.Items)
	}
	return err
}

// The first pool of a class gives the dry run its tag and its user data. If that were any of them, each dry run
// could make a launch template of its own.
func TestPoolsOfAClassAreInOrder(t *testing.T) {
	t.Parallel()
	pool := func(name string) *karpv1.NodePool {
		p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"}
		return p
	}
	c := &Cloud{o: Options{Client: backwards{newWorld(t, pool("b"), pool("a"), pool("c")).kube}}}
	pools, err := c.poolsOf(t.Context(), &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range pools {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

// Of several Nodes of an instance the first is named in what is recorded.
func TestObjectsOfAnInstanceAreInOrder(t *testing.T) {
	t.Parallel()
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "aws:///eu-west-1a/i-1"}}
	}
	w := newWorld(t, newClaim("b", start, withInstance("i-1")), newClaim("a", start, withInstance("i-1")), node("node-b"), node("node-a"))
	d := directory{backwards{w.kube}}
	claims, err := d.Claims(t.Context(), "i-1")
	if err != nil || len(claims) != 2 || claims[0].Name != "a" {
		t.Errorf("claims %v, %v", claims, err)
	}
	nodes, err := d.Nodes(t.Context(), "i-1")
	if err != nil || len(nodes) != 2 || nodes[0].Name != "node-a" {
		t.Errorf("nodes %v, %v", nodes, err)
	}
}

// Two pools may see one instance type with different amounts of memory, after what nodes of their images have. The
// gauge does not jump between the two.
func TestGaugesDoNotDependOnTheOrderOfPools(t *testing.T) {
	t.Parallel()
	pool := func(name string) *karpv1.NodePool { return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	w := newWorld(t, pool("a"), pool("b"))
	types := func(_ context.Context, p *karpv1.NodePool) ([]catalog.InstanceType, error) {
		list := []catalog.InstanceType{instanceType("m5.large")}
		if p.Name == "b" {
			list[0].Capacity = resources.Table{}.Capacity(corev1.ResourceList{corev1.ResourceCPU: quantity("2"), corev1.ResourceMemory: quantity("7Gi")})
		}
		return list, nil
	}
	for _, reader := range []client.Reader{w.kube, backwards{w.kube}} {
		g := &gauges{reader: reader, metrics: w.metrics, types: types}
		if err := g.refreshGauges(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.series(t, "karpenter_cloudprovider_instance_type_memory_bytes")["m5.large"]; got != 8<<30 {
			t.Errorf("memory %v, want what the first pool by name sees", got)
		}
	}
}
