package lookup

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Fields by which objects can be listed from the cache.
const (
	NodeProviderID       = "spec.providerID"   // of Nodes
	ClaimProviderID      = "status.providerID" // of NodeClaims
	PodNodeName          = "spec.nodeName"     // of Pods
	AttachmentOfNodeName = "spec.nodeName"     // of VolumeAttachments
)

type index struct {
	object client.Object
	field  string
	value  func(client.Object) string
}

func indexes() []index {
	return []index{
		{&corev1.Node{}, NodeProviderID, func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID }},
		{&karpv1.NodeClaim{}, ClaimProviderID, func(o client.Object) string { return o.(*karpv1.NodeClaim).Status.ProviderID }},
		{&corev1.Pod{}, PodNodeName, func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }},
		{&storagev1.VolumeAttachment{}, AttachmentOfNodeName, func(o client.Object) string { return o.(*storagev1.VolumeAttachment).Spec.NodeName }},
	}
}

// keys leaves empty values out: nothing is ever looked up by them.
func (i index) keys(o client.Object) []string {
	if v := i.value(o); v != "" {
		return []string{v}
	}
	return nil
}

// Index adds the indexes that the reconcilers look up. It is called before the manager starts.
func Index(mgr ctrl.Manager) error {
	for _, i := range indexes() {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), i.object, i.field, i.keys); err != nil {
			return fmt.Errorf("index %T by %s: %w", i.object, i.field, err)
		}
	}
	return nil
}

// NodesOf lists the nodes with a provider id.
func NodesOf(ctx context.Context, c client.Client, id string) ([]*corev1.Node, error) {
	if id == "" {
		return nil, nil
	}
	list := &corev1.NodeList{}
	if err := c.List(ctx, list, client.MatchingFields{NodeProviderID: id}); err != nil {
		return nil, fmt.Errorf("list nodes with provider id %s: %w", id, err)
	}
	return ByName(list.Items), nil
}

// ClaimsOf lists the claims with a provider id, as stored.
func ClaimsOf(ctx context.Context, c client.Client, id string) ([]*karpv1.NodeClaim, error) {
	if id == "" {
		return nil, nil
	}
	list := &karpv1.NodeClaimList{}
	if err := c.List(ctx, list, client.MatchingFields{ClaimProviderID: id}); err != nil {
		return nil, fmt.Errorf("list nodeclaims with provider id %s: %w", id, err)
	}
	return ByName(list.Items), nil
}

// PodsOn lists the pods that are bound to a node.
func PodsOn(ctx context.Context, c client.Client, node string) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := c.List(ctx, list, client.MatchingFields{PodNodeName: node}); err != nil {
		return nil, fmt.Errorf("list pods on node %s: %w", node, err)
	}
	return ByName(list.Items), nil
}

// ByName returns objects of a list by namespace and name: the cache lists in any order, and what is decided,
// reported and joined to an error should not have that.
func ByName[T any, P interface {
	*T
	client.Object
}](items []T) []P {
	out := make([]P, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	slices.SortFunc(out, func(a, b P) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return out
}

// ClaimsOfNode finds the claims that a change of a node concerns.
func ClaimsOfNode(c client.Client) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		claims, err := ClaimsOf(ctx, c, obj.(*corev1.Node).Spec.ProviderID)
		if err != nil {
			return nil // only an index that is missing fails, and then nothing works
		}
		var out []reconcile.Request
		for _, claim := range claims {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: claim.Name}})
		}
		return out
	}
}
