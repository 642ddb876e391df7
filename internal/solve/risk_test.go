package solve_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Packing 2: risk counts in the choice of nodes, and in no cost that is reported.
func TestRiskCountsInTheChoice(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		risk      float64
		wantNodes int
		wantCost  float64
	}{
		"the cheaper large node without risk": {wantNodes: 1, wantCost: 1},
		"two small ones if it may be lost":    {risk: 0.2, wantNodes: 2, wantCost: 1.1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := solve.Solve(twoPods(tc.risk), nil)
			if len(plan.Create) != tc.wantNodes || plan.Cost < tc.wantCost-1e-9 || plan.Cost > tc.wantCost+1e-9 {
				t.Errorf("%d nodes for %v, want %d for %v", len(plan.Create), plan.Cost, tc.wantNodes, tc.wantCost)
			}
		})
	}
}

// twoPods wait for two cores each, where a node of four costs 1 and one of two 0.55.
func twoPods(risk float64) solve.Problem {
	size := func(cores int64) resources.Vec { return resources.Of(cores*1000, 8<<30, 0, 10) }
	types := []catalog.InstanceType{
		{Name: "large", Capacity: size(4), Offerings: []catalog.Offering{{Zone: "a", CapacityType: "spot", Price: 1, Risk: risk, Available: true}}},
		{Name: "small", Capacity: size(2), Offerings: []catalog.Offering{{Zone: "a", CapacityType: "spot", Price: 0.55, Available: true}}},
	}
	r := cluster.NewReader(reqs.CoreVocabulary(), cluster.ReaderOptions{})
	var pods []cluster.Pod
	for _, name := range []string{"a", "b"} {
		pods = append(pods, r.Pod(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
			}}}},
		}, nil))
	}
	view := r.Snapshot(cluster.Snapshot{Now: time.Unix(0, 0), Pools: []cluster.Pool{{Name: "default", Types: types}}, Pending: pods})
	return solve.Problem{View: view, Pods: view.Pending}
}
