package directory

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// backwards lists like a cache, which has no order: last name first. The fake client would list by name.
type backwards struct{ client.Client }

func (b backwards) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := b.Client.List(ctx, list, opts...)
	switch list := list.(type) {
	case *karpv1.NodeClaimList:
		slices.Reverse(list.Items)
	case *corev1.NodeList:
		slices.Reverse(list.Items)
	}
	return err
}

// indexer has a client keep the indexes of a cache.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	i.WithIndex(obj, field, values)
	return nil
}

// Of several Nodes of an instance the first is named in what is recorded. What has no instance of this cloud is found
// under no name.
func TestObjectsOfAnInstanceAreInOrder(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, karpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(name, id string) *karpv1.NodeClaim {
		return &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: karpv1.NodeClaimStatus{ProviderID: id}}
	}
	node := func(name, id string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id}}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		claim("b", "sky:///i-1"), claim("a", "sky:///i-1"), claim("new", ""), claim("odd", "sea:///i-1"),
		node("node-b", "sky:///i-1"), node("node-a", "sky:///i-1"), node("other", "sky:///i-2"),
	)
	key := func(id string) string {
		if name, ours := strings.CutPrefix(id, "sky:///"); ours {
			return name
		}
		return ""
	}
	if err := Index(t.Context(), indexer{builder}, key); err != nil {
		t.Fatal(err)
	}
	c := Cache{Reader: backwards{builder.Build()}}
	claims, err := c.Claims(t.Context(), "i-1")
	if err != nil || len(claims) != 2 || claims[0].Name != "a" {
		t.Errorf("claims %v, %v", claims, err)
	}
	nodes, err := c.Nodes(t.Context(), "i-1")
	if err != nil || len(nodes) != 2 || nodes[0].Name != "node-a" {
		t.Errorf("nodes %v, %v", nodes, err)
	}
}
