package store

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

func never() bool { return false }

// fleet feeds nodes that are full of pods, twenty on each.
func fleet(s *Store, nodes int) {
	ready := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for i := range nodes {
		name, id := fmt.Sprintf("ip-%d", i), fmt.Sprintf("aws:///a/i-%d", i)
		claim := claimObject(fmt.Sprintf("general-%d", i), id, true)
		claim.CreationTimestamp = metav1.NewTime(now().Add(-time.Hour))
		claim.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionConsolidatable, Status: metav1.ConditionTrue}}
		node := nodeObject(name, id, true)
		node.Labels[karpv1.LabelCapacityType], node.Status.Conditions = karpv1.CapacityTypeOnDemand, ready
		s.feedObject(claim, false)
		s.feedObject(node, false)
		for k := range 20 {
			s.feedObject(sized(podObject(fmt.Sprintf("w%d-%d", i, k), name), "190m"), false)
		}
	}
}

func sized(p *corev1.Pod, cpu string) *corev1.Pod {
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("500Mi")}
	return p
}

// heap reports how much memory is in use.
func heap(b *testing.B) {
	b.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MiB")
}

// BenchmarkFM_N01_IdlePass is what the controller does every ten seconds when nothing is to be done, in a
// cluster of 5,000 nodes and 100,000 pods of which a few changed: look for pods without a place, and for nodes
// that could go. The bar is a minute; the first pass reads everything.
func BenchmarkFM_N01_IdlePass(b *testing.B) {
	const nodes, changed = 5000, 100
	s := New(testOptions())
	pool := poolObject("general")
	pool.Spec.Limits, pool.Spec.Disruption.ConsolidateAfter = nil, "0s"
	s.feedObject(pool, false)
	fleet(s, nodes)
	offers := testTypes()
	pass := func() {
		if view := s.Snapshot(offers); len(view.Pods) > 0 || len(view.Nodes) != nodes {
			b.Fatalf("%d pods wait, %d nodes", len(view.Pods), len(view.Nodes))
		}
		view := disrupt.View{DisruptionView: s.Disruption(offers)}
		d := disrupt.Next(view, never)
		if len(d.Commands) > 0 || d.Eligible[karpv1.ReasonUnderutilized] != nodes {
			b.Fatalf("%d commands, %d candidates; want none, and all nodes looked at", len(d.Commands), d.Eligible[karpv1.ReasonUnderutilized])
		}
	}
	start := time.Now()
	pass()
	first := time.Since(start)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		for range changed {
			s.feedObject(sized(podObject(fmt.Sprintf("w%d-0", i%nodes), fmt.Sprintf("ip-%d", i%nodes)), "190m"), false)
			i++
		}
		pass()
	}
	b.ReportMetric(first.Seconds(), "first-s")
	heap(b)
	runtime.KeepAlive(s)
}

// BenchmarkFM_N02_Rescheduled plans for 40,000 pods that lost their nodes at once.
func BenchmarkFM_N02_Rescheduled(b *testing.B) {
	const pods = 40_000
	s := New(testOptions())
	pool := poolObject("general")
	pool.Spec.Limits = nil
	s.feedObject(pool, false)
	for i := range pods {
		s.feedObject(sized(podObject(fmt.Sprintf("w%d", i), ""), fmt.Sprintf("%dm", 100+10*(i%40))), false)
	}
	offers := testTypes()
	b.ReportAllocs()
	var plan solve.Plan
	for b.Loop() {
		view := s.Snapshot(offers)
		plan = solve.Solve(solve.Problem{View: view.Snapshot, Pods: view.Pods}, never)
		if len(view.Pods) != pods || len(plan.Unplaced) > 0 || plan.Partial {
			b.Fatalf("%d pods, %d of them without a place", len(view.Pods), len(plan.Unplaced))
		}
	}
	b.ReportMetric(float64(len(plan.Create)), "nodes")
	heap(b)
	runtime.KeepAlive(s)
}
