package cli

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// Subjects implements inspect.Lister with the names of objects, in one request for each kind. Kinds that may not be read are
// left out, unless that is all of them.
func (l *liveSource) Subjects(ctx context.Context) ([]inspect.Subject, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	reader, err := newReader(l.objects.kube)
	if err != nil {
		return nil, err
	}
	kinds := []struct {
		kind inspect.Kind
		gvk  schema.GroupVersionKind
	}{
		{inspect.KindPod, corev1.SchemeGroupVersion.WithKind("PodList")},
		{inspect.KindNode, corev1.SchemeGroupVersion.WithKind("NodeList")},
		{inspect.KindNodeClaim, karpv1.GroupVersion().WithKind("NodeClaimList")},
		{inspect.KindNodePool, karpv1.GroupVersion().WithKind("NodePoolList")},
	}
	found, failed := make([][]inspect.Subject, len(kinds)), make([]error, len(kinds))
	var all sync.WaitGroup
	for i := range kinds {
		all.Go(func() {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(kinds[i].gvk)
			if failed[i] = reader.List(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); failed[i] != nil {
				return
			}
			for j := range list.Items {
				found[i] = append(found[i], inspect.Subject{Kind: kinds[i].kind, Namespace: list.Items[j].Namespace, Name: list.Items[j].Name})
			}
		})
	}
	all.Wait()
	if !slices.Contains(failed, nil) {
		return nil, errors.Join(failed...)
	}
	return slices.Concat(found...), nil
}
