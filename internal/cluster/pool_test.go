package cluster_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

func conditions(names ...string) []metav1.Condition {
	var list []metav1.Condition
	for _, name := range names {
		list = append(list, metav1.Condition{Type: name, Status: metav1.ConditionTrue})
	}
	return list
}

const poolText = `
metadata: {name: default}
spec:
  weight: 7
  limits: {cpu: "10", nvidia.com/gpu: "0", nodes: "3"}
  template:
    metadata: {labels: {team: red}}
    spec:
      nodeClassRef: {name: x}
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64], minValues: 1}]
      taints: [{key: dedicated, effect: NoSchedule}]
      startupTaints: [{key: cilium, effect: NoExecute}]
status: {conditions: [{type: Ready, status: "True"}]}
`

func TestPool(t *testing.T) {
	t.Parallel()
	r := newReader(cluster.ReaderOptions{})
	used := corev1.ResourceList{"cpu": resource.MustParse("12"), "memory": resource.MustParse("4Gi")}
	got := r.Pool(read[karpv1.NodePool](t, poolText), nil, used, 5)
	diff(t, "requirements have the labels and the pool", got.Requirements.String(),
		"karpenter.sh/nodepool In [default]; kubernetes.io/arch In [amd64], minValues 1; team In [red]")
	diff(t, "limits remaining may be negative, and zero is a limit (API 4.2)", got.Limits, []cluster.Limit{{Resource: "cpu", Remaining: -2000}, {Resource: "nvidia.com/gpu"}})
	diff(t, "nodes remaining", *got.NodeLimit, int64(-2))
	diff(t, "weight", got.Weight, int32(7))
	diff(t, "taints", []int{len(got.Taints), len(got.StartupTaints)}, []int{1, 1})
	if _, known := r.Table().Lane("nodes"); known {
		t.Error("nodes is a count, not a resource")
	}
}

func TestPoolIsClosed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*karpv1.NodePool)
		want   bool
	}{
		"SC-06 a ready pool is open": {change: func(*karpv1.NodePool) {}},
		"SC-06 not ready":            {change: func(p *karpv1.NodePool) { p.Status.Conditions[0].Status = metav1.ConditionUnknown }, want: true},
		"SC-06 never looked at":      {change: func(p *karpv1.NodePool) { p.Status.Conditions = nil }, want: true},
		"SC-06 static":               {change: func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64) }, want: true},
		"SC-06 being deleted":        {change: func(p *karpv1.NodePool) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, want: true},
		"labels contradict the requirements, so no node can exist": {
			change: func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels["kubernetes.io/arch"] = "arm64" }, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := read[karpv1.NodePool](t, poolText)
			tc.change(p)
			if got := newReader(cluster.ReaderOptions{}).Pool(p, nil, nil, 0).Closed; got != tc.want {
				t.Errorf("Closed = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestSnapshotIsInOrder(t *testing.T) {
	t.Parallel()
	key := func(ns, name string) cluster.PodKey { return cluster.PodKey{Namespace: ns, Name: name} }
	s := newReader(cluster.ReaderOptions{}).Snapshot(cluster.Snapshot{
		Pools:   []cluster.Pool{{Name: "a"}, {Name: "b"}, {Name: "c", Weight: 1}},
		Nodes:   []cluster.Node{{Name: "n2"}, {Name: "n1"}},
		Pending: []cluster.Pod{{Key: key("b", "a")}, {Key: key("a", "b")}},
		Daemons: []cluster.Daemon{{Key: key("z", "z")}, {Key: key("a", "b")}},
	})
	got := []string{s.Pools[0].Name, s.Pools[1].Name, s.Pools[2].Name, s.Nodes[0].Name, s.Pending[0].Key.String(), s.Daemons[0].Key.String()}
	healthy := newReader(cluster.ReaderOptions{}).Snapshot(cluster.Snapshot{
		Pools: []cluster.Pool{{Name: "a"}, {Name: "b", Unhealthy: true}, {Name: "c", Weight: 1, Unhealthy: true}, {Name: "d", Unhealthy: true}},
	})
	var names []string
	for i := range healthy.Pools {
		names = append(names, healthy.Pools[i].Name)
	}
	diff(t, "RH-01 healthy pools first among those of equal weight", names, []string{"c", "a", "d", "b"})
	diff(t, "SC-07 pools by weight, then name, both descending; the rest ascending", got, []string{"c", "b", "a", "n1", "a/b", "a/b"})
}

// RH-01: only condition False makes a pool unhealthy, and RH-03: nothing of it is kept.
func TestRH_01_UnhealthyPools(t *testing.T) {
	t.Parallel()
	for status, want := range map[metav1.ConditionStatus]bool{"": false, metav1.ConditionTrue: false, metav1.ConditionUnknown: false, metav1.ConditionFalse: true} {
		np := &karpv1.NodePool{}
		if status != "" {
			np.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionNodeRegistrationHealthy, Status: status}}
		}
		if got := newReader(cluster.ReaderOptions{}).Pool(np, nil, nil, 0).Unhealthy; got != want {
			t.Errorf("condition %q: unhealthy %v, want %v", status, got, want)
		}
	}
}
