package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
)

// byInstance is the index of NodeClaims and Nodes by the id of their instance.
const byInstance = "dovetail.instance-id"

// index makes the cache find NodeClaims and Nodes by instance.
func index(ctx context.Context, fields client.FieldIndexer) error {
	if err := fields.IndexField(ctx, &karpv1.NodeClaim{}, byInstance, func(obj client.Object) []string {
		return instanceIndexKey(obj.(*karpv1.NodeClaim).Status.ProviderID)
	}); err != nil {
		return fmt.Errorf("index NodeClaims by instance: %w", err)
	}
	if err := fields.IndexField(ctx, &corev1.Node{}, byInstance, func(obj client.Object) []string {
		return instanceIndexKey(obj.(*corev1.Node).Spec.ProviderID)
	}); err != nil {
		return fmt.Errorf("index Nodes by instance: %w", err)
	}
	return nil
}

func instanceIndexKey(provider string) []string {
	if id := inventory.InstanceID(provider); id != "" {
		return []string{id}
	}
	return nil
}

// directory finds the objects of an instance in the cache, by name: the cache has no order.
type directory struct{ client.Reader }

// Claims are the NodeClaims of an instance.
func (d directory) Claims(ctx context.Context, instance string) ([]karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	err := d.List(ctx, list, client.MatchingFields{byInstance: instance})
	byName(list.Items)
	return list.Items, err
}

// Nodes are the Nodes of an instance.
func (d directory) Nodes(ctx context.Context, instance string) ([]corev1.Node, error) {
	list := &corev1.NodeList{}
	err := d.List(ctx, list, client.MatchingFields{byInstance: instance})
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, err
}
