package app

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// newEvents returns a recorder that writes events of the core API. Those of events.k8s.io have no
// lastTimestamp and no source, and what users type looks at both: kubectl get events
// --sort-by=.lastTimestamp would show ours as the oldest (S-102). It stops with the context.
func newEvents(ctx context.Context, kube *rest.Config, scheme *runtime.Scheme) (coreEvents, error) {
	clients, err := kubernetes.NewForConfig(rest.CopyConfig(kube))
	if err != nil {
		return coreEvents{}, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.CoreV1().Events(corev1.NamespaceAll)})
	return coreEvents{broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component})}, nil
}

// coreEvents speaks the newer interface to the older API.
type coreEvents struct{ recorder record.EventRecorder }

// Eventf sends an event. The older API knows neither a related object nor an action.
func (e coreEvents) Eventf(regarding, _ runtime.Object, eventtype, reason, _, note string, args ...any) {
	e.recorder.Eventf(regarding, eventtype, reason, note, args...)
}
