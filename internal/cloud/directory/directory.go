package directory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// byInstance is the index of NodeClaims and Nodes by the id of their instance.
const byInstance = "dovetail.instance-id"

// Key reads the name of an instance out of a provider id; it is empty for what is no id of the cloud. Clouds name
// instances without the rest of their provider id when they announce something.
type Key func(providerID string) string

// Index makes the cache find NodeClaims and Nodes by the name of their instance.
func Index(ctx context.Context, fields client.FieldIndexer, key Key) error {
	if err := fields.IndexField(ctx, &karpv1.NodeClaim{}, byInstance, func(obj client.Object) []string {
		return key.values(obj.(*karpv1.NodeClaim).Status.ProviderID)
	}); err != nil {
		return fmt.Errorf("index NodeClaims by instance: %w", err)
	}
	if err := fields.IndexField(ctx, &corev1.Node{}, byInstance, func(obj client.Object) []string {
		return key.values(obj.(*corev1.Node).Spec.ProviderID)
	}); err != nil {
		return fmt.Errorf("index Nodes by instance: %w", err)
	}
	return nil
}

func (k Key) values(provider string) []string {
	if id := k(provider); id != "" {
		return []string{id}
	}
	return nil
}

// Cache finds the objects of an instance in a cache that has the index, sorted by name: the cache has no order.
type Cache struct{ client.Reader }

// Claims are the NodeClaims of an instance. There is more than one only if something went wrong.
func (c Cache) Claims(ctx context.Context, instance string) ([]karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	err := c.List(ctx, list, client.MatchingFields{byInstance: instance})
	slices.SortFunc(list.Items, func(a, b karpv1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, err
}

// Nodes are the Nodes of an instance.
func (c Cache) Nodes(ctx context.Context, instance string) ([]corev1.Node, error) {
	list := &corev1.NodeList{}
	err := c.List(ctx, list, client.MatchingFields{byInstance: instance})
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, err
}
