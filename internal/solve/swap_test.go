package solve_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

func milli(cpu int64) resources.Vec {
	return resources.NewTable().Requests(corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)})
}

// question is about nodes with pods of the given millicores, in a pool that offers nodes of 2 and 4 cores for $1 and
// $2; the first `may` nodes are candidates.
func question(may int, nodes ...[]int64) solve.Question {
	view := &cluster.Snapshot{Words: reqs.CoreVocabulary()}
	pool := cluster.Pool{Name: "p"}
	for cores, name := range map[int64]string{2: "small", 4: "large"} {
		it := catalog.InstanceType{Name: name, Capacity: milli(1000 * cores), Labels: reqs.FromLabels(map[string]string{corev1.LabelInstanceTypeStable: name}, view.Words)}
		it.Offerings = []catalog.Offering{{Zone: "a", CapacityType: "on-demand", Price: float64(cores) / 2, Available: true}}
		pool.Types = append(pool.Types, it)
	}
	view.Pools = []cluster.Pool{pool}
	q := solve.Question{View: view, Policy: solve.Policy{Workers: 1}}
	for n, pods := range nodes {
		node := cluster.Node{
			Name: fmt.Sprintf("node-%d", n), Pool: "p", Initialized: true, InstanceType: "large", Zone: "a", CapacityType: "on-demand", Price: 2,
			Capacity: milli(4000), Allocatable: milli(4000), Labels: map[string]string{corev1.LabelInstanceTypeStable: "large", corev1.LabelTopologyZone: "a"},
		}
		for i, cpu := range pods {
			shape := &cluster.Shape{Key: fmt.Sprint(cpu), Namespace: "default", Requests: milli(cpu), Required: []reqs.Set{{}}}
			node.Pods = append(node.Pods, cluster.Pod{Key: cluster.PodKey{Namespace: "default", Name: fmt.Sprintf("n%d-%d", n, i)}, Shape: shape})
		}
		view.Nodes = append(view.Nodes, node)
		if n < may {
			q.Candidates = append(q.Candidates, node.Name)
		}
	}
	return q
}

// The scheduler decides where pods run. A node is not removed if its pods fit only in one particular arrangement.
func TestMovesThatTheSchedulerWouldUndoAreNotMade(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		nodes   [][]int64
		creates int
	}{
		"they fit wherever it puts them": {[][]int64{{1000, 500}, {2000}, {2000}}, 0},
		// The pod of 600 is bound to the second node, which has the most headroom. Then one of 500 is unschedulable,
		// and a small node is launched.
		"they fit only if it packs them": {[][]int64{{600, 500, 500}, {3000}, {3400}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := solve.Consolidate(question(1, tc.nodes...), func() bool { return false })
			if len(got.Moves) != 1 || len(got.Moves[0].Create) != tc.creates {
				t.Errorf("moves %+v, want one that creates %d", got.Moves, tc.creates)
			}
		})
	}
}

// The order in which pods become pending is not certain. A pod of a StatefulSet is created again once the old one is
// deleted, which may take a second or its whole grace period. So it comes after others, and those of StatefulSets
// come in any order. Of the pods pending at the same time, the scheduler takes the one of highest priority.
func TestMovesLastWhateverTheOrder(t *testing.T) {
	t.Parallel()
	// If the pod of 500 comes first, it is bound to the second node, which has the most headroom. Then the pod of
	// 1000 is unschedulable, and a small node has to be launched.
	for name, tc := range map[string]struct {
		late    []int64
		urgent  int64
		creates int
	}{
		"the largest is evicted first, and placed first": {creates: 0},
		"all are of StatefulSets":                        {late: []int64{1000, 500}, creates: 1},
		"the largest is of one":                          {late: []int64{1000}, creates: 1},
		"the smallest is of one":                         {late: []int64{500}, creates: 0},
		"the smallest has priority":                      {urgent: 500, creates: 1},
		"the largest has priority":                       {urgent: 1000, creates: 0},
		"the smallest has priority, but comes late":      {urgent: 500, late: []int64{500}, creates: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := question(1, []int64{1000, 500}, []int64{3000}, []int64{3100})
			for i := range q.View.Nodes[0].Pods {
				p := &q.View.Nodes[0].Pods[i]
				p.Late = slices.Contains(tc.late, p.Shape.Requests.At(0))
				if p.Shape.Requests.At(0) == tc.urgent {
					p.Priority = 1000
				}
			}
			got := solve.Consolidate(q, func() bool { return false })
			if len(got.Moves) != 1 || len(got.Moves[0].Create) != tc.creates {
				t.Errorf("moves %+v, want one that creates %d", got.Moves, tc.creates)
			}
		})
	}
}

// If a node's pods fit only in part on other nodes, it is replaced by a smaller one for the rest.
func TestANodeIsSwappedForHeadroomAndASmallerOne(t *testing.T) {
	t.Parallel()
	got := solve.Consolidate(question(1, []int64{1800, 400, 400, 400}, []int64{3500}, []int64{3500}, []int64{3500}), func() bool { return false })
	if len(got.Moves) != 1 || len(got.Moves[0].Create) != 1 || got.Moves[0].Create[0].Offer.Type != "small" || len(got.Moves[0].Bind) != 3 || got.Moves[0].Saves != 1 {
		t.Errorf("moves %+v", got.Moves)
	}
}

// among adds spot nodes to a question, each with a pod that requires spot. They cost more than the current offering,
// so replacing them saves more for each pod than any other swap. It is not allowed unless spot nodes may be replaced
// by spot nodes.
func among(spots int, q solve.Question) solve.Question {
	pool := &q.View.Pools[0]
	it := catalog.InstanceType{Name: "tiny", Capacity: milli(2100), Labels: reqs.FromLabels(map[string]string{corev1.LabelInstanceTypeStable: "tiny"}, q.View.Words)}
	it.Offerings = []catalog.Offering{{Zone: "a", CapacityType: "spot", Price: 1, Available: true}}
	pool.Types = append(pool.Types, it)
	wants := func(capacityType string) []reqs.Set {
		return []reqs.Set{reqs.FromLabels(map[string]string{karpv1.LabelCapacityType: capacityType}, q.View.Words)}
	}
	for i := range q.View.Nodes {
		n := &q.View.Nodes[i]
		n.Labels[karpv1.LabelCapacityType] = "on-demand"
		for j := range n.Pods {
			n.Pods[j].Shape.Required = wants("on-demand")
		}
	}
	shape := &cluster.Shape{Key: "spot", Namespace: "default", Requests: milli(1800), Required: wants("spot")}
	for i := range spots {
		name := fmt.Sprintf("spot-%d", i)
		q.View.Nodes = append(q.View.Nodes, cluster.Node{
			Name: name, Pool: "p", Initialized: true, InstanceType: "tiny", Zone: "a", CapacityType: "spot", Price: 3, Capacity: milli(2100), Allocatable: milli(2100),
			Labels: map[string]string{corev1.LabelInstanceTypeStable: "tiny", corev1.LabelTopologyZone: "a", karpv1.LabelCapacityType: "spot"},
			Pods:   []cluster.Pod{{Key: cluster.PodKey{Namespace: "default", Name: name}, Shape: shape}},
		})
		q.Candidates = append(q.Candidates, name)
	}
	return q
}

// Trust A13: swaps that are not allowed do not hide one that is.
func TestTrust_A13_IllegalSwapsHideNoOther(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spots      int
		spotToSpot bool
	}{
		"spot nodes are not replaced by spot nodes":      {spots: 20},
		"however many there are":                         {spots: 200},
		"they are, but there are too few types for that": {spots: 20, spotToSpot: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := among(tc.spots, question(1, []int64{1800, 400, 400, 400}, []int64{3500}, []int64{3500}, []int64{3500}))
			q.Policy.SpotToSpot = tc.spotToSpot
			got := solve.Consolidate(q, func() bool { return false })
			if len(got.Moves) != 1 || !slices.Equal(got.Moves[0].Remove, []string{"node-0"}) || len(got.Moves[0].Create) != 1 || got.Moves[0].Saves != 1 {
				t.Errorf("moves %+v, want node-0 swapped for a small one", got.Moves)
			}
		})
	}
}
