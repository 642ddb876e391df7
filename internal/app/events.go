package app

import (
	"context"
	"hash/fnv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// eventWriters is how many events are written at a time. One writer waits for the API server with each event, and for
// ten seconds after each that could not be written. When requests take a second, a few writers are soon minutes late
// with what users look for; more of them cost next to nothing while they wait.
const eventWriters = 32

// newEvents returns a recorder that writes events of the core API. Those of events.k8s.io have no
// lastTimestamp and no source, and what users type looks at both: kubectl get events
// --sort-by=.lastTimestamp would show ours as the oldest (S-102). It stops with the context.
func newEvents(ctx context.Context, kube *rest.Config, scheme *runtime.Scheme) (coreEvents, error) {
	clients, err := kubernetes.NewForConfig(rest.CopyConfig(kube))
	if err != nil {
		return coreEvents{}, err
	}
	return recordTo(ctx, &typedcorev1.EventSinkImpl{Interface: clients.CoreV1().Events(corev1.NamespaceAll)}, scheme), nil
}

func recordTo(ctx context.Context, sink record.EventSink, scheme *runtime.Scheme) coreEvents {
	var events coreEvents
	for i := range events.writers {
		broadcaster := record.NewBroadcaster(record.WithContext(ctx))
		broadcaster.StartRecordingToSink(sink)
		events.writers[i] = broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component})
	}
	return events
}

// coreEvents speaks the newer interface to the older API. An object always has the same writer, which
// keeps its events in order and merges those that repeat.
type coreEvents struct {
	writers [eventWriters]record.EventRecorder
}

// Eventf sends an event. The older API knows neither a related object nor an action.
func (e coreEvents) Eventf(regarding, _ runtime.Object, eventtype, reason, _, note string, args ...any) {
	e.writerOf(regarding).Eventf(regarding, eventtype, reason, note, args...)
}

func (e coreEvents) writerOf(obj runtime.Object) record.EventRecorder {
	sum := fnv.New32a()
	if m, err := meta.Accessor(obj); err == nil {
		_, _ = sum.Write([]byte(m.GetNamespace() + "/" + m.GetName())) // never fails
	}
	return e.writers[sum.Sum32()%eventWriters]
}
