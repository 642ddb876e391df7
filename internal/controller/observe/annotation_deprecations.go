package observe

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/loop"
	"github.com/dovetail-sh/dovetail/internal/controller/write"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

const deprecatedAnnotationsInterval = 10 * time.Minute

// AnnotationDeprecations emits events on pods, nodes and pools that carry a deprecated annotation, and names
// its replacement (API 11, LC-62). Deprecated annotations are still honoured.
type AnnotationDeprecations struct {
	Client  client.Client
	Events  write.Emitter
	Metrics *metric.Set
}

// Register adds the loop to a manager.
func (r *AnnotationDeprecations) Register(mgr ctrl.Manager) error {
	return mgr.Add(&loop.Ticker{Name: "annotation.deprecated", Every: deprecatedAnnotationsInterval, Metrics: r.Metrics, Pass: r.Pass})
}

// Pass checks all pools, nodes and running pods once. The recorder drops events that it sent recently.
func (r *AnnotationDeprecations) Pass(ctx context.Context) error {
	pools, nodes, pods := &karpv1.NodePoolList{}, &corev1.NodeList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{pools, nodes, pods} {
		if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	for i := range pools.Items {
		r.emitIfDeprecated(&pools.Items[i])
	}
	for i := range nodes.Items {
		if nodes.Items[i].Labels[karpv1.LabelNodePool] != "" {
			r.emitIfDeprecated(&nodes.Items[i])
		}
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if ended := cluster.PodEnded(p); !ended && p.DeletionTimestamp == nil {
			r.emitIfDeprecated(p)
		}
	}
	return nil
}

func (r *AnnotationDeprecations) emitIfDeprecated(obj client.Object) {
	key := cluster.ProtectedBy(obj.GetAnnotations())
	if key == "" || key == karpv1.AnnotationDoNotDisrupt {
		return
	}
	r.Events.Emit(obj.DeepCopyObject().(client.Object), event.Event{Reason: event.AnnotationDeprecated, Key: key, Text: fmt.Sprintf(
		"Annotation %s is deprecated; it is read as %s, use that one", key, karpv1.AnnotationDoNotDisrupt)})
}
