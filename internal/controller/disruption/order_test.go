package disruption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// everyPod is a store that knows every pod.
type everyPod struct{ disruptStore }

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
func TestEventsOnPodsAboutReplacementsAreInOrder(t *testing.T) {
	t.Parallel()
	want := []string{"a/3", "b/1", "b/2", "c/0"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 30 {
		emitted := &podEvents{}
		w := &worker{store: everyPod{}, events: emitted, now: func() time.Time { return now }}
		planned := map[cluster.PodKey]string{}
		for _, key := range keys("b/2", "a/3", "c/0", "b/1") {
			planned[key] = "claim"
		}
		w.nominate(disrupt.Command{}, planned)
		if diff := cmp.Diff(want, emitted.names); diff != "" {
			t.Fatalf("pods with an event about their replacement (-want +got):\n%s", diff)
		}
	}
}

// What several writes failed with is reported in one order.
func TestErrorsOfCleaningUpAreInOrder(t *testing.T) {
	t.Parallel()
	w := &worker{holder: holder{objects: objects{client: deadEnd{}, reader: deadEnd{}}}, queue: newCommandQueue(0), now: time.Now}
	l := command.NewLeftovers()
	for _, name := range []string{"d", "a", "c", "b"} {
		l.AddClaim(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{karpv1.AnnotationCommand: "{}"}}})
	}
	for range 30 {
		err := w.cleanUp(t.Context(), disrupt.View{}, l)
		var got []string
		for line := range strings.Lines(err.Error()) {
			got = append(got, strings.TrimSuffix(strings.Fields(line)[1], ":"))
		}
		if diff := cmp.Diff([]string{"a", "b", "c", "d"}, got); diff != "" {
			t.Fatalf("claims of the errors (-want +got):\n%s", diff)
		}
	}
}

// deadEnd is an API server that does not respond.
type deadEnd struct{ client.Client }

func (deadEnd) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no response")
}

// Lines of the log that belong together have an order.
func TestLogIsInOrder(t *testing.T) {
	t.Parallel()
	for range 30 {
		var lines []string
		ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1}))
		marks := []metav1.Condition{
			{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "x"}, {Type: karpv1.ConditionConsolidatable, Status: metav1.ConditionTrue, Reason: "y"},
		}
		logConditionChanges(ctx, nil, marks)
		repairs := &repairLog{known: map[string]string{"d": "x", "a": "x", "c": "x", "b": "x"}}
		repairs.logPolicyChanges(ctx, disrupt.View{Methods: disrupt.Methods{Repair: true}, Repairs: &disrupt.RepairSet{}})
		var got []string
		for _, line := range lines {
			_, text, _ := strings.Cut(line, `"msg"=`)
			got = append(got, text)
		}
		want := []string{`"marking consolidatable" "reason"="y"`, `"marking drifted" "reason"="x"`}
		for _, name := range []string{"a", "b", "c", "d"} {
			want = append(want, fmt.Sprintf(`"no repair policy matches any more" "Node"={"name"=%q}`, name))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("log (-want +got):\n%s", diff)
		}
	}
}
