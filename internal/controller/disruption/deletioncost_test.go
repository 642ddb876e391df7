package disruption_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/disruption"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// ranking is the store of DeletionCosts: n nodes named n00, n01, … that consolidation could take.
type ranking struct {
	changes   uint64
	requested int
	view      cluster.DisruptionView
}

func (r *ranking) Synced() bool              { return true }
func (r *ranking) Changes() uint64           { return r.changes }
func (r *ranking) Pools() []*karpv1.NodePool { return nil }
func (r *ranking) Disruption(map[string][]catalog.InstanceType) cluster.DisruptionView {
	r.requested++
	return r.view
}

func ranked(nodes ...string) *ranking {
	r := &ranking{view: cluster.DisruptionView{
		Pools:   map[string]cluster.ManagedPool{"general": {Pool: cluster.Pool{Name: "general", Types: make([]catalog.InstanceType, 1)}}},
		Cluster: &cluster.Snapshot{Pools: []cluster.Pool{{Name: "general", Types: []catalog.InstanceType{{Name: "large"}}}}},
	}}
	for _, name := range nodes {
		r.view.Nodes = append(r.view.Nodes, cluster.ManagedNode{Node: cluster.Node{Name: name, Claim: name, Pool: "general", InstanceType: "large", Initialized: true, Price: 1}, Ready: true, Registered: true})
	}
	return r
}

type enqueuedCosts []disruption.PodCost

func (w *enqueuedCosts) Enqueue(list ...disruption.PodCost) { *w = append(*w, list...) }

// of lists the costs as pod=value.
func (w *enqueuedCosts) list() (out []string) {
	for _, cost := range *w {
		out = append(out, cost.Pod.Name+"="+cost.Value)
	}
	slices.Sort(out)
	return out
}

// owned is a pod on a node whose controller is of a kind.
func ownedPod(name, node, api, kind string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node}}
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: api, Kind: kind, Name: "x", UID: "x", Controller: new(true)}}
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func costing(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{corev1.PodDeletionCost: value, "example.com/other": "stays"}
	}
}

func poolNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.LabelNodePool: "general"}}}
}

// V15-53, V15-54: pods of ReplicaSets get the cost of their node, others are left alone, and a pod that
// would not come back elsewhere keeps its node out of the ranking.
func TestV15_53_PodsGetTheCostOfTheirNode(t *testing.T) {
	t.Parallel()
	const rs, apps = "ReplicaSet", "apps/v1"
	tainted := poolNode("b")
	tainted.Spec.Taints = []corev1.Taint{karpv1.DisruptedTaint()}
	objects := []client.Object{
		poolNode("a"), tainted, poolNode("c"), poolNode("d"), poolNode("e"),
		ownedPod("a1", "a", apps, rs), ownedPod("a2", "a", apps, rs, costing("-2")), ownedPod("a3", "a", apps, "DaemonSet"), ownedPod("a4", "a", "batch/v1", "Job"),
		ownedPod("b1", "b", apps, rs), ownedPod("b2", "b", "example.com/v1", rs),
		ownedPod("c1", "c", apps, rs, costing("100")), ownedPod("c2", "c", apps, "StatefulSet"),
		ownedPod("d1", "d", apps, rs, costing("7")), ownedPod("d2", "d", "", ""),
		ownedPod("e1", "e", apps, rs, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), ownedPod("e2", "e", "", "", func(p *corev1.Pod) { p.Namespace = "kube-system" }),
		ownedPod("e3", "e", apps, rs, costing("5")),
	}
	queue := &enqueuedCosts{}
	memory := ranked("a", "b", "c", "d", "e")
	r := &disruption.DeletionCosts{
		Client: fake.NewClientBuilder().WithObjects(objects...).Build(), Store: memory, Cloud: &controllertest.Catalogue{}, Queue: queue, Metrics: metric.New(prometheus.NewRegistry()),
		Now: func() time.Time { return noonOfCosts },
	}
	if err := r.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"a1=-2", fmt.Sprint("b1=", math.MinInt32), "c1=", "d1=", "e3=-1"}
	if diff := cmp.Diff(want, queue.list()); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
	if n := testutil.ToFloat64(r.Metrics.DeletionCostPending.WithLabelValues("general")); n != 5 {
		t.Errorf("%v nodes have pods to change", n)
	}
}

var noonOfCosts = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// V15-53, V15-55: nothing is ranked while nothing changes, five minutes at most; fifty nodes are changed in
// a pass, those that go besides.
func TestV15_55_PassesAreBounded(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	var names []string
	for i := range 70 {
		name := fmt.Sprintf("n%02d", i)
		names = append(names, name)
		n := poolNode(name)
		if i < 5 {
			n.Spec.Taints = []corev1.Taint{karpv1.DisruptedTaint()}
		}
		objects = append(objects, n, ownedPod("p"+name, name, "apps/v1", "ReplicaSet"))
	}
	now, queue, memory := noonOfCosts, &enqueuedCosts{}, ranked(names...)
	broken := false
	api := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if broken {
				return errors.New("connection refused")
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	r := &disruption.DeletionCosts{Client: api, Store: memory, Cloud: &controllertest.Catalogue{}, Queue: queue, Metrics: metric.New(prometheus.NewRegistry()), Now: func() time.Time { return now }}
	for step, tc := range []struct {
		after     time.Duration
		changes   uint64
		broken    bool
		requested int
		enqueued  int
	}{
		{0, 0, true, 0, 0},             // it fails,
		{0, 0, false, 1, 55},           // and is made again
		{time.Minute, 0, false, 1, 55}, // nothing changed
		{time.Minute, 1, false, 2, 110},
		{4 * time.Minute, 1, false, 2, 110},
		{time.Minute, 1, false, 3, 165}, // five minutes
	} {
		now, memory.changes, broken = now.Add(tc.after), tc.changes, tc.broken
		if err := r.Pass(t.Context()); (err != nil) != tc.broken {
			t.Fatal(err)
		}
		if memory.requested != tc.requested || len(*queue) != tc.enqueued {
			t.Errorf("step %d: ranked %d times, %d costs enqueued; want %d and %d", step, memory.requested, len(*queue), tc.requested, tc.enqueued)
		}
	}
}

// V15-56: what becomes of a cost that is enqueued.
func TestV15_56_Writes(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		have     *corev1.Pod
		value    string
		response error
		result   string
		want     map[string]string // annotations afterwards
		left     int
	}{
		"written":               {have: ownedPod("p", "n", "", ""), value: "-1", result: "updated", want: map[string]string{corev1.PodDeletionCost: "-1"}},
		"overwritten":           {have: ownedPod("p", "n", "", "", costing("5")), value: "-1", result: "updated", want: map[string]string{corev1.PodDeletionCost: "-1", "example.com/other": "stays"}},
		"removed, and no other": {have: ownedPod("p", "n", "", "", costing("5")), result: "updated", want: map[string]string{"example.com/other": "stays"}},
		"as it is":              {have: ownedPod("p", "n", "", "", costing("-1")), value: "-1", result: "skipped_unchanged", want: map[string]string{corev1.PodDeletionCost: "-1", "example.com/other": "stays"}},
		"gone":                  {value: "-1", result: "skipped_notfound"},
		"another of the name":   {have: ownedPod("p", "n", "", "", func(p *corev1.Pod) { p.UID = "other" }), value: "-1", result: "skipped_notfound"},
		"gone meanwhile":        {have: ownedPod("p", "n", "", ""), value: "-1", response: apierrors.NewNotFound(pods, "p"), result: "skipped_notfound"},
		"written meanwhile":     {have: ownedPod("p", "n", "", ""), value: "-1", response: apierrors.NewConflict(pods, "p", errors.New("x")), result: "skipped_conflict"},
		"not allowed":           {have: ownedPod("p", "n", "", ""), value: "-1", response: apierrors.NewForbidden(pods, "p", errors.New("x")), result: "error", left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			build := fake.NewClientBuilder()
			if tc.have != nil {
				build = build.WithObjects(tc.have)
			}
			api := build.WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					err := c.Get(ctx, key, obj, opts...)
					if cost, has := obj.GetAnnotations()[corev1.PodDeletionCost]; has { // the cache keeps no others
						obj.SetAnnotations(map[string]string{corev1.PodDeletionCost: cost})
					} else {
						obj.SetAnnotations(nil)
					}
					return err
				},
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if tc.response != nil {
						return tc.response
					}
					return c.Patch(ctx, obj, patch, opts...)
				},
			}).Build()
			q := &disruption.CostWrites{Client: api, Metrics: metric.New(prometheus.NewRegistry())}
			id := cluster.PodID{Namespace: "default", Name: "p", UID: "p"}
			q.Enqueue(disruption.PodCost{Pod: id, Value: "3"})
			q.Enqueue(disruption.PodCost{Pod: id, Value: tc.value}) // the last wins
			_, err := q.Reconcile(t.Context(), id)
			if (err != nil) != (tc.result == "error") || q.Len() != tc.left {
				t.Errorf("%v, %d left", err, q.Len())
			}
			if n := testutil.ToFloat64(q.Metrics.DeletionCostWrites.WithLabelValues(tc.result)); n != 1 {
				t.Errorf("%v results %s", n, tc.result)
			}
			if tc.want == nil {
				return
			}
			list := &corev1.PodList{}
			if err := api.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, list.Items[0].Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

// Decision 14: without the right to patch pods no cost is written, and one line of the log names the right. Nothing is tried
// again before the next ranking.
func TestV15_56_WithoutTheRightToPatchPods(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}}
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New(`User "u" cannot patch resource "pods" in API group "" in the namespace "default"`))
	api := fake.NewClientBuilder().WithObjects(pod).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return denied
		},
	}).Build()
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	q := &disruption.CostWrites{Client: api, Metrics: metric.New(prometheus.NewRegistry())}
	id := cluster.PodID{Namespace: "default", Name: "p", UID: "p"}
	for range 2 {
		q.Enqueue(disruption.PodCost{Pod: id, Value: "3"})
		if _, err := q.Reconcile(ctx, id); err != nil || q.Len() != 0 {
			t.Errorf("%v, %d left", err, q.Len())
		}
	}
	if n := testutil.ToFloat64(q.Metrics.DeletionCostWrites.WithLabelValues("error")); n != 2 {
		t.Errorf("%v errors, want 2", n)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "allow the service account to patch pods ") {
		t.Errorf("log: %q, want one line that names the right", lines)
	}
}
