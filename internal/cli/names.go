package cli

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
)

const (
	completionTimeout = 3 * time.Second // a shell that waits longer seems to hang
	maxNames          = 1000            // proposed
)

// podNamespace is that of the context of the kubeconfig; of a file, it is default.
func (f *sourceFlags) podNamespace(env func(string) (string, bool)) string {
	if f.scenario == "" {
		if namespace, _, err := kubeconfig(env, f.kubeconfig, f.context).Namespace(); err == nil && namespace != "" {
			return namespace
		}
	}
	return metav1.NamespaceDefault
}

// names are those of the objects of a kind, for completion: of pods, those of a namespace. Of a source that cannot name its
// running pods, those that are pending are proposed.
func (f *sourceFlags) names(ctx context.Context, s Streams, kind inspect.Kind, namespace string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	service, err := f.open(ctx, s)
	if err != nil {
		return nil, err
	}
	if lister, can := service.(inspect.Lister); can {
		return lister.Subjects(ctx, kind, namespace)
	}
	fleet, err := service.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	return inspect.Names(fleet.Subjects(), kind, namespace), nil
}

// Subjects implements inspect.Lister. It requests only names from the API server: a completion cannot wait for a plan.
func (l *liveSource) Subjects(ctx context.Context, kind inspect.Kind, namespace string) ([]string, error) {
	api, err := metadata.NewForConfig(l.objects.kube)
	if err != nil {
		return nil, err
	}
	objects := metadata.ResourceInterface(api.Resource(resourceOf(kind)))
	if kind == inspect.KindPod {
		objects = api.Resource(resourceOf(kind)).Namespace(namespace)
	}
	list, err := objects.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	items := list.Items[:min(len(list.Items), maxNames)]
	names := make([]string, 0, len(items))
	for i := range items {
		names = append(names, items[i].Name)
	}
	return names, nil
}

func resourceOf(kind inspect.Kind) schema.GroupVersionResource {
	switch kind {
	case inspect.KindNode:
		return corev1.SchemeGroupVersion.WithResource("nodes")
	case inspect.KindNodeClaim:
		return karpv1.GroupVersion().WithResource("nodeclaims")
	case inspect.KindNodePool:
		return karpv1.GroupVersion().WithResource("nodepools")
	default:
		return corev1.SchemeGroupVersion.WithResource("pods")
	}
}
