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
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
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
	c := &Cloud{o: driver.Options{Client: backwards{newWorld(t, pool("b"), pool("a"), pool("c")).kube}}}
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
