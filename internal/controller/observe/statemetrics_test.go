package observe_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/observe"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// watches are informers that tests speak through.
type watches struct {
	there []client.Object // before anybody watched

	mu       sync.Mutex
	handlers map[reflect.Type]toolscache.ResourceEventHandler
	ready    chan struct{} // one for each kind that is watched
}

func newWatches(there ...client.Object) *watches {
	return &watches{there: there, handlers: map[reflect.Type]toolscache.ResourceEventHandler{}, ready: make(chan struct{}, 10)}
}

func (w *watches) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return &watch{watches: w, kind: reflect.TypeOf(obj)}, nil
}

type watch struct {
	cache.Informer
	watches *watches
	kind    reflect.Type
}

func (w *watch) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	for _, obj := range w.watches.there {
		if reflect.TypeOf(obj) == w.kind {
			h.OnAdd(obj, true)
		}
	}
	w.watches.mu.Lock()
	defer w.watches.mu.Unlock()
	w.watches.handlers[w.kind] = h
	w.watches.ready <- struct{}{}
	return nil, nil
}

func (w *watches) add(obj client.Object) { w.handlers[reflect.TypeOf(obj)].OnAdd(obj, false) }
func (w *watches) update(obj client.Object) {
	w.handlers[reflect.TypeOf(obj)].OnUpdate(obj, obj)
}

func (w *watches) remove(obj client.Object) {
	w.handlers[reflect.TypeOf(obj)].OnDelete(toolscache.DeletedFinalStateUnknown{Obj: obj})
}

// run starts something that follows watches, and waits until it follows as many kinds.
func (w *watches) run(t *testing.T, kinds int, start func(context.Context) error) {
	t.Helper()
	go func() { _ = start(t.Context()) }()
	for range kinds {
		<-w.ready
	}
	w.mu.Lock() // what the handlers wrote is visible from here on
	defer w.mu.Unlock()
}

// series lists what a scrape shows of metrics with a prefix, one line each, sorted.
func series(t *testing.T, reg *prometheus.Registry, prefix string) []string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), prefix) {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, pair := range m.GetLabel() {
				labels = append(labels, pair.GetName()+"="+pair.GetValue())
			}
			lines = append(lines, fmt.Sprintf("%s{%s} %s", family.GetName(), strings.Join(labels, ","), value(m)))
		}
	}
	slices.Sort(lines)
	return lines
}

func value(m *dto.Metric) string {
	switch {
	case m.Gauge != nil:
		return fmt.Sprint(m.Gauge.GetValue())
	case m.Counter != nil:
		return fmt.Sprint(m.Counter.GetValue())
	case m.Summary != nil:
		return fmt.Sprint(m.Summary.GetSampleCount(), " sum ", m.Summary.GetSampleSum())
	default:
		return fmt.Sprint(m.Histogram.GetSampleCount(), " sum ", m.Histogram.GetSampleSum())
	}
}

var birth = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func aPod(name, node, cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(birth)}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	p.Status.Phase = corev1.PodPending
	return p
}

// at sets a condition of a pod, some seconds after its birth.
func at(p *corev1.Pod, name corev1.PodConditionType, seconds int) *corev1.Pod {
	p = p.DeepCopy()
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: name, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(birth.Add(time.Duration(seconds) * time.Second)),
	})
	return p
}

func aNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(birth), Labels: map[string]string{
		karpv1.LabelNodePool: "p", corev1.LabelTopologyZone: "z", "karpenter.k8s.aws/instance-family": "m5",
	}}}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3800m")}
	return n
}

type stateWorld struct {
	*watches
	reg   *prometheus.Registry
	state *observe.StateMetrics
	now   time.Time
}

func newStateWorld(t *testing.T, there ...client.Object) *stateWorld {
	t.Helper()
	w := &stateWorld{watches: newWatches(there...), reg: prometheus.NewRegistry(), now: birth.Add(100 * time.Second)}
	w.state = &observe.StateMetrics{Informers: w.watches, Metrics: metric.New(w.reg, metric.Labels{Nodes: awsv1.WellKnownLabels()}), Now: func() time.Time { return w.now }}
	w.reg.MustRegister(w.state)
	if got := series(t, w.reg, "karpenter_pods_state"); got != nil {
		t.Errorf("a replica that does not lead tells %q", got)
	}
	w.run(t, 3, w.state.Start)
	return w
}

// operations 8.2: nodes and what runs on them.
func TestNodeMetrics(t *testing.T) {
	t.Parallel()
	daemon := aPod("agent", "n", "100m")
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
	daemon.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}
	over := aPod("over", "n", "1")
	over.Status.Phase = corev1.PodSucceeded
	w := newStateWorld(t, aNode("n"), daemon, aPod("web", "n", "1500m"), over)
	const labels = "instance_family=m5,managed=true,node_name=n,nodepool=p,"
	want := []string{
		"karpenter_nodes_allocatable{" + labels + "resource_type=cpu,zone=z} 3.8",
		"karpenter_nodes_current_lifetime_seconds{" + labels + "zone=z} 100",
		"karpenter_nodes_system_overhead{" + labels + "resource_type=cpu,zone=z} 0.2",
		"karpenter_nodes_total_daemon_limits{" + labels + "resource_type=cpu,zone=z} 0.2",
		"karpenter_nodes_total_daemon_requests{" + labels + "resource_type=cpu,zone=z} 0.1",
		"karpenter_nodes_total_daemon_requests{" + labels + "resource_type=pods,zone=z} 1",
		"karpenter_nodes_total_pod_requests{" + labels + "resource_type=cpu,zone=z} 1.5",
		"karpenter_nodes_total_pod_requests{" + labels + "resource_type=pods,zone=z} 1",
	}
	if diff := cmp.Diff(want, series(t, w.reg, "karpenter_nodes_")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"karpenter_cluster_utilization_percent{resource_type=cpu} 42.10526315789474"}, series(t, w.reg, "karpenter_cluster_utilization")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	w.update(aPod("web", "n", "500m"))
	w.add(aPod("db", "n", "2"))
	w.remove(daemon)
	want = []string{
		"karpenter_nodes_total_pod_requests{" + labels + "resource_type=cpu,zone=z} 2.5",
		"karpenter_nodes_total_pod_requests{" + labels + "resource_type=pods,zone=z} 2",
	}
	if diff := cmp.Diff(want, series(t, w.reg, "karpenter_nodes_total_")); diff != "" {
		t.Errorf("after changes (-want +got):\n%s", diff)
	}
}

// FM N03: nothing stays of objects that are gone, in whatever order they go.
func TestFM_N03_SeriesOfDeletedObjectsAreGone(t *testing.T) {
	t.Parallel()
	pool := controllertest.Pool("p")
	pool.Spec.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	pool.Status.Resources = corev1.ResourceList{"ephemeral-storage": resource.MustParse("2k")}
	w := newStateWorld(t, pool, aNode("n"), aNode("m"), aPod("a", "n", "1"), aPod("b", "m", "1"), aPod("c", "", "1"))
	want := []string{
		"karpenter_nodepools_limit{nodepool=p,resource_type=memory} 1.073741824e+09",
		"karpenter_nodepools_usage{nodepool=p,resource_type=ephemeral_storage} 2000",
	}
	if diff := cmp.Diff(want, series(t, w.reg, "karpenter_nodepools_")); diff != "" {
		t.Errorf("series of pools (-want +got):\n%s", diff)
	}
	w.remove(aPod("a", "n", "1"))
	w.remove(aNode("n"))
	w.remove(aNode("m"))
	w.remove(aPod("b", "m", "1"))
	w.remove(aPod("c", "", "1"))
	w.remove(pool)
	if got := series(t, w.reg, "karpenter_"); len(got) > 0 {
		for _, line := range got {
			if !strings.Contains(line, "} 0") {
				t.Errorf("left behind: %s", line)
			}
		}
	}
}

// operations 8.3: the way of a pod to its node.
func TestPodMetrics(t *testing.T) {
	t.Parallel()
	old := at(at(aPod("old", "n", "1"), corev1.PodScheduled, 1), corev1.PodReady, 2)
	w := newStateWorld(t, aNode("n"), old)
	web := aPod("web", "", "1")
	web.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}}
	web.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: "arm64"}
	web.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	w.add(web)
	w.now = birth.Add(110 * time.Second)
	waiting := func(step string, want ...string) {
		t.Helper()
		var got []string
		for _, line := range series(t, w.reg, "karpenter_pods_") {
			if strings.Contains(line, "_time_seconds{") {
				got = append(got, strings.TrimPrefix(line, "karpenter_pods_"))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	waiting("pending",
		"provisioning_scheduling_undecided_time_seconds{name=web,namespace=shop} 10",
		"unbound_time_seconds{dynamic_resources=false,name=web,namespace=shop} 110",
		"unstarted_time_seconds{name=web,namespace=shop} 110")
	w.state.Planned([]cluster.PodKey{{Namespace: "shop", Name: "web"}}, []cluster.PodKey{{Namespace: "shop", Name: "unheard-of"}})
	w.now = birth.Add(130 * time.Second)
	waiting("planned",
		"provisioning_unbound_time_seconds{dynamic_resources=false,name=web,namespace=shop} 20",
		"provisioning_unstarted_time_seconds{name=web,namespace=shop} 20",
		"unbound_time_seconds{dynamic_resources=false,name=web,namespace=shop} 130",
		"unstarted_time_seconds{name=web,namespace=shop} 130")
	web = web.DeepCopy()
	web.Spec.NodeName, web.Status.Conditions = "n", nil
	web = at(web, corev1.PodScheduled, 140)
	w.update(web)
	w.now = birth.Add(150 * time.Second)
	waiting("bound",
		"provisioning_unstarted_time_seconds{name=web,namespace=shop} 40",
		"unstarted_time_seconds{name=web,namespace=shop} 150")
	web = at(web, corev1.PodReady, 160)
	web.Status.Phase = corev1.PodRunning
	w.update(web)
	w.update(web)
	waiting("running")
	for prefix, want := range map[string]string{
		"karpenter_pods_bound_duration_seconds":                "karpenter_pods_bound_duration_seconds{dynamic_resources=false} 1 sum 140",
		"karpenter_pods_startup_duration_seconds":              "karpenter_pods_startup_duration_seconds{} 1 sum 160",
		"karpenter_pods_provisioning_bound_duration_seconds":   "karpenter_pods_provisioning_bound_duration_seconds{dynamic_resources=false} 1 sum 30",
		"karpenter_pods_provisioning_startup_duration_seconds": "karpenter_pods_provisioning_startup_duration_seconds{} 1 sum 50",
	} {
		if diff := cmp.Diff([]string{want}, series(t, w.reg, prefix)); diff != "" {
			t.Errorf("series (-want +got):\n%s", diff)
		}
	}
	want := []string{
		"karpenter_pods_state{managed=true,name=old,namespace=shop,node=n,nodepool=p,phase=Pending,ready=true,scheduled=true,zone=z} 1",
		"karpenter_pods_state{managed=true,name=web,namespace=shop,node=n,nodepool=p,owner=/apis/apps/v1/namespaces/shop/replicasets/web,phase=Running,ready=true,scheduled=true,zone=z} 1",
	}
	if diff := cmp.Diff(want, series(t, w.reg, "karpenter_pods_state")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// A scrape of a large cluster is one walk over it.
func BenchmarkScrape(b *testing.B) {
	reg := prometheus.NewRegistry()
	there := make([]client.Object, 0, 22000)
	for n := range 1000 {
		there = append(there, aNode(fmt.Sprint("n", n)))
		for p := range 20 {
			there = append(there, aPod(fmt.Sprint("p", n, "-", p), fmt.Sprint("n", n), "100m"))
		}
	}
	w := newWatches(there...)
	state := &observe.StateMetrics{Informers: w, Metrics: metric.New(reg), Now: func() time.Time { return birth }}
	reg.MustRegister(state)
	go func() { _ = state.Start(b.Context()) }()
	for range 3 {
		<-w.ready
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reg.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
