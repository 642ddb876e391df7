package provisioning

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// everyPod is a store that knows every pod.
type everyPod struct{ planStore }

func (everyPod) Pod(key cluster.PodKey) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
}

// toldPods are the pods that events went to.
type podEvents struct{ names []string }

func (p *podEvents) Emit(obj client.Object, _ ...event.Event) {
	p.names = append(p.names, obj.GetNamespace()+"/"+obj.GetName())
}

func keys(names ...string) (out []cluster.PodKey) {
	for _, name := range names {
		namespace, name, _ := strings.Cut(name, "/")
		out = append(out, cluster.PodKey{Namespace: namespace, Name: name})
	}
	return out
}

// Events of pods are limited in number. The first pods get one, so their order is not that of a map.
func TestEventsOnUnboundPodsAreInOrder(t *testing.T) {
	t.Parallel()
	want := []string{"a/3", "b/1", "b/2", "c/0"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 30 {
		emitted := &podEvents{}
		p := &Provisioner{Store: everyPod{}, Events: emitted, Now: func() time.Time { return now }, Nomination: time.Second}
		view := store.View{Snapshot: &cluster.Snapshot{Nodes: []cluster.Node{{Name: "up", Initialized: true}}}}
		var binds []solve.Bind
		for _, key := range keys("b/2", "a/3", "c/0", "b/1") {
			binds = append(binds, solve.Bind{Pod: key, Node: "up"})
			view.Snapshot.Pending = append(view.Snapshot.Pending, cluster.Pod{Key: key})
		}
		p.state.ObserveBinds(view.Snapshot, binds, func(cluster.PodKey) bool { return false }, now.Add(-time.Hour), time.Second)
		p.reportUnbound(view, binds)
		if diff := cmp.Diff(want, emitted.names); diff != "" {
			t.Fatalf("pods that the scheduler keeps off their node (-want +got):\n%s", diff)
		}
	}
}
