package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	disruption "github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// Memories that know every pod they are asked for.
type (
	disruptPods struct{ disruptStore }
	planPods    struct{ planStore }
)

func (disruptPods) Pod(key cluster.PodKey) *corev1.Pod { return podOf(key) }
func (planPods) Pod(key cluster.PodKey) *corev1.Pod    { return podOf(key) }

func podOf(key cluster.PodKey) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
}

// toldPods are the pods that events went to.
type toldPods struct{ names []string }

func (p *toldPods) Emit(obj client.Object, _ ...event.Event) {
	p.names = append(p.names, obj.GetNamespace()+"/"+obj.GetName())
}

func keys(names ...string) (out []cluster.PodKey) {
	for _, name := range names {
		namespace, name, _ := strings.Cut(name, "/")
		out = append(out, cluster.PodKey{Namespace: namespace, Name: name})
	}
	return out
}

// Events of pods are limited in number. Who is told first is told at all, so it is not for a map to say.
func TestPodsAreToldInOrder(t *testing.T) {
	t.Parallel()
	want := []string{"a/3", "b/1", "b/2", "c/0"}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 30 {
		told := &toldPods{}
		d := &Disruption{Store: disruptPods{}, Events: told, Now: func() time.Time { return now }}
		planned := map[cluster.PodKey]string{}
		for _, key := range keys("b/2", "a/3", "c/0", "b/1") {
			planned[key] = "claim"
		}
		d.nominate(disruption.Command{}, planned)
		if diff := cmp.Diff(want, told.names); diff != "" {
			t.Fatalf("pods that are told of their replacement (-want +got):\n%s", diff)
		}

		told = &toldPods{}
		p := &Provisioner{Store: planPods{}, Events: told, Now: func() time.Time { return now }, Nomination: time.Second}
		view := store.View{Snapshot: &cluster.Snapshot{Nodes: []cluster.Node{{Name: "up", Initialized: true}}}}
		var binds []solve.Bind
		for _, key := range keys("b/2", "a/3", "c/0", "b/1") {
			binds = append(binds, solve.Bind{Pod: key, Node: "up"})
			view.Snapshot.Pending = append(view.Snapshot.Pending, cluster.Pod{Key: key})
		}
		p.state.ObserveBinds(view.Snapshot, binds, func(cluster.PodKey) bool { return false }, now.Add(-time.Hour), time.Second)
		p.reportUnbound(view, binds)
		if diff := cmp.Diff(want, told.names); diff != "" {
			t.Fatalf("pods that the scheduler keeps off their node (-want +got):\n%s", diff)
		}
	}
}

// What several writes failed with is told in one order.
func TestErrorsOfCleaningUpAreInOrder(t *testing.T) {
	t.Parallel()
	d := &Disruption{Client: deadEnd{}, Reader: deadEnd{}, Now: time.Now, queue: newCommandQueue(0)}
	l := command.NewLeftovers()
	for _, name := range []string{"d", "a", "c", "b"} {
		l.AddClaim(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{karpv1.AnnotationCommand: "{}"}}})
	}
	for range 30 {
		err := d.cleanUp(t.Context(), disruption.View{}, l)
		var got []string
		for line := range strings.Lines(err.Error()) {
			got = append(got, strings.TrimSuffix(strings.Fields(line)[1], ":"))
		}
		if diff := cmp.Diff([]string{"a", "b", "c", "d"}, got); diff != "" {
			t.Fatalf("claims of the errors (-want +got):\n%s", diff)
		}
	}
}

// deadEnd is an API server that does not answer.
type deadEnd struct{ client.Client }

func (deadEnd) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no answer")
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
		repairs.logPolicyChanges(ctx, disruption.View{Methods: disruption.Methods{Repair: true}, Repairs: &disruption.RepairSet{}})
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

// A sum of fractions depends on the order of adding. A gauge that nothing changed does not move.
func TestUtilizationDoesNotMove(t *testing.T) {
	t.Parallel()
	nodes := map[string]*nodeState{}
	for i := range int64(40) {
		name, milli := fmt.Sprint(i), 101*i*i+7
		nodes[name] = &nodeState{node: &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}}}}
		nodes[name].sums[0] = map[corev1.ResourceName]*podAmount{corev1.ResourceCPU: {request: milli / 3}}
	}
	first := ""
	for range 100 {
		s := &scrape{set: metric.New(prometheus.NewRegistry()), pairs: metric.NewPairs()}
		s.utilization(nodes)
		text := fmt.Sprint(len(s.out), testutil.ToFloat64(collected(s.out)))
		if first == "" {
			first = text
		}
		if text != first {
			t.Fatalf("utilization %s, and once %s", text, first)
		}
	}
}

// collected is a collector of finished metrics.
type collected []prometheus.Metric

func (collected) Describe(chan<- *prometheus.Desc) {}
func (c collected) Collect(to chan<- prometheus.Metric) {
	for _, m := range c {
		to <- m
	}
}

// The cache lists in any order; what is read of it is used by name.
func TestListedObjectsAreInOrder(t *testing.T) {
	t.Parallel()
	var got []string
	for _, p := range pointers([]corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "1"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "2"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "1"}},
	}) {
		got = append(got, types.NamespacedName{Namespace: p.Namespace, Name: p.Name}.String())
	}
	if want := []string{"a/1", "a/2", "b/1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
