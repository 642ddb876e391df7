package disrupt_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// ownedPod is a pod of a controller, with a deletion cost unless it is empty.
func ownedPod(name, apiVersion, kind, cost string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name}}
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", Controller: new(true)}}
	}
	if cost != "" {
		p.Annotations = map[string]string{corev1.PodDeletionCost: cost}
	}
	return p
}

// costView is nodes of one pool that consolidation may take, with their objects.
func costView(names ...string) (disrupt.View, []corev1.Node) {
	view := disrupt.View{DisruptionView: cluster.DisruptionView{
		Pools:   map[string]cluster.ManagedPool{"general": general(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "100%"}} })},
		Cluster: &cluster.Snapshot{Pools: []cluster.Pool{{Name: "general", Types: []catalog.InstanceType{{Name: "large"}}}}},
	}}
	var objects []corev1.Node
	for _, name := range names {
		view.Nodes = append(view.Nodes, node(name, func(n *cluster.ManagedNode) { n.InstanceType, n.Price = "large", 1 }))
		objects = append(objects, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return view, objects
}

// V15-54: only pods of ReplicaSets get a cost, and only if it changes; a pod that its owner would not start again
// elsewhere pins its node.
func TestV15_54_CostChanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want []string
	}{
		"a pod of a ReplicaSet":              {pods: []*corev1.Pod{ownedPod("web", "apps/v1", "ReplicaSet", "")}, want: []string{"web=-1"}},
		"the cost is there":                  {pods: []*corev1.Pod{ownedPod("web", "apps/v1", "ReplicaSet", "-1")}},
		"another cost":                       {pods: []*corev1.Pod{ownedPod("web", "apps/v1", "ReplicaSet", "-7")}, want: []string{"web=-1"}},
		"Jobs and DaemonSets pin nothing":    {pods: []*corev1.Pod{ownedPod("web", "apps/v1", "ReplicaSet", ""), ownedPod("job", "batch/v1", "Job", ""), ownedPod("agent", "apps/v1", "DaemonSet", "")}, want: []string{"web=-1"}},
		"a StatefulSet pins":                 {pods: []*corev1.Pod{ownedPod("web", "apps/v1", "ReplicaSet", "-1"), ownedPod("db", "apps/v1", "StatefulSet", "")}, want: []string{"web="}},
		"a pod without owner pins":           {pods: []*corev1.Pod{ownedPod("web", "apps/v1", "ReplicaSet", "-1"), ownedPod("bare", "", "", "")}, want: []string{"web="}},
		"a ReplicaSet of another group pins": {pods: []*corev1.Pod{ownedPod("web", "apps/v1", "ReplicaSet", "-1"), ownedPod("odd", "example.com/v1", "ReplicaSet", "")}, want: []string{"web="}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view, nodes := costView("a")
			var got []string
			for _, change := range disrupt.CostChanges(view, nodes, map[string][]*corev1.Pod{"a": tc.pods}) {
				for _, p := range change.Pods {
					got = append(got, p.Name+"="+change.Value)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("costs (-want +got):\n%s", diff)
			}
		})
	}
}

// V15-55: one pass writes the pods of 50 nodes at most; terminating nodes do not count.
func TestV15_55_CostChangesAreBounded(t *testing.T) {
	t.Parallel()
	var names []string
	pods := map[string][]*corev1.Pod{}
	for i := range 60 {
		names = append(names, fmt.Sprintf("n%02d", i))
		pods[names[i]] = []*corev1.Pod{ownedPod("web", "apps/v1", "ReplicaSet", "")}
	}
	view, nodes := costView(names...)
	nodes[58].Spec.Taints, nodes[59].Spec.Taints = []corev1.Taint{karpv1.DisruptedTaint()}, []corev1.Taint{karpv1.DisruptedTaint()}
	got := disrupt.CostChanges(view, nodes, pods)
	if len(got) != 52 || got[0].Node != "n58" || got[1].Node != "n59" {
		t.Errorf("%d nodes, the first ones are %s and %s", len(got), got[0].Node, got[1].Node)
	}
}

// Nodes are ranked again when something changed, or after a while.
func TestCostRankingCovers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ranked := disrupt.CostRanking{Changes: 7, At: now}
	for name, tc := range map[string]struct {
		ranking disrupt.CostRanking
		changes uint64
		after   time.Duration
		want    bool
	}{
		"never ranked":    {},
		"nothing changed": {ranking: ranked, changes: 7, after: time.Minute, want: true},
		"changed":         {ranking: ranked, changes: 8, after: time.Minute},
		"too long ago":    {ranking: ranked, changes: 7, after: 5 * time.Minute},
	} {
		if got := tc.ranking.Covers(tc.changes, now.Add(tc.after)); got != tc.want {
			t.Errorf("%s: Covers() = %v, want %v", name, got, tc.want)
		}
	}
}
