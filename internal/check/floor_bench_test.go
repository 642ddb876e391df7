package check_test

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// BenchmarkFloor is a look at clusters whose consolidation is held against the simple way: few nodes, of which every
// way is followed to its end, and many with nothing to gain. Beside it stands what it takes to plan for the same pods
// from nothing, pod by pod: times-a-plan is comparable between machines.
func BenchmarkFloor(b *testing.B) {
	for _, name := range []string{"c4-4", "c4-8", "c3-12", "c5-12", "c2-200"} {
		q := made(b, name, 1)
		q.Policy.Workers = 1
		view, pods := emptied(q.View), []cluster.Pod(nil)
		for i := range q.View.Nodes {
			for _, p := range q.View.Nodes[i].Pods {
				if !p.Daemon {
					pods = append(pods, p)
				}
			}
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var looks, plans time.Duration
			var result solve.Consolidation
			for b.Loop() {
				start := time.Now()
				result = solve.Consolidate(q, never)
				looked := time.Now()
				solve.Solve(solve.Problem{View: view, Moved: pods, Policy: solve.Policy{Greedy: true, Workers: 1}}, never)
				looks, plans = looks+looked.Sub(start), plans+time.Since(looked)
			}
			b.ReportMetric(float64(looks)/float64(plans), "times-a-plan")
			b.ReportMetric(result.Before-result.After, "saved-$/h")
		})
	}
}

// emptied is a cluster without nodes.
func emptied(view *cluster.Snapshot) *cluster.Snapshot {
	v := *view
	v.Nodes = nil
	return &v
}
