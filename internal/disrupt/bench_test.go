package disrupt_test

import (
	"encoding/json"
	"testing"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/scenario/families"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

func scenarioView(tb testing.TB, name string) disrupt.View {
	tb.Helper()
	made, err := families.Make(name, 1)
	if err != nil {
		tb.Fatal(err)
	}
	data, err := json.Marshal(made)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := scenario.Load(data, awsv1.Vocabulary())
	if err != nil {
		tb.Fatal(err)
	}
	return viewOf(s.World(time.Unix(0, 0)).Compile().View, nil, solve.Policy{})
}

// BenchmarkNext is a whole decision: on clusters with much to gain and with nothing, without budgets
// and with those of the default, with a policy that weighs each move, and with every node drifted and
// none replaceable.
func BenchmarkNext(b *testing.B) {
	for name, change := range map[string]func(*disrupt.View){
		"free": func(*disrupt.View) {},
		"tenth": func(v *disrupt.View) {
			everyPool(v, func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "10%"}} })
		},
		"balanced": func(v *disrupt.View) {
			everyPool(v, func(p *cluster.ManagedPool) { p.Policy = karpv1.ConsolidationBalanced })
		},
		"drifted": func(v *disrupt.View) {
			for i := range v.Nodes {
				v.Nodes[i].Drift = "AMIDrift"
			}
		},
	} {
		for _, cluster := range []string{"c1-300", "c2-300", "c1-2000", "c2-2000"} {
			v := scenarioView(b, cluster)
			v.Policy.Workers = 2
			change(&v)
			b.Run(name+"/"+cluster, func(b *testing.B) {
				b.ReportAllocs()
				var d disrupt.Decision
				for b.Loop() {
					d = disrupt.Next(v, never)
				}
				b.ReportMetric(float64(len(d.Commands)), "commands")
				b.ReportMetric(d.Before-d.After, "saved-$/h")
			})
		}
	}
}

// BenchmarkWaves carries decisions out until nothing is left to do: in how many passes, with how many pods
// moved, and how far above what no cluster can beat it ends (decision 0018).
func BenchmarkWaves(b *testing.B) {
	for _, share := range []string{"100%", "10%"} {
		b.Run(share, func(b *testing.B) {
			for b.Loop() {
				v := scenarioView(b, "c1-2000")
				v.Policy.Workers = 2
				everyPool(&v, func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: share}} })
				passes, moved, bound, cost := 0, 0, 0.0, 0.0
				for d := disrupt.Next(v, never); ; d = disrupt.Next(v, never) {
					if bound, cost = max(bound, d.Bound), d.Before; len(d.Commands) == 0 {
						break
					}
					passes++
					for i := range d.Commands {
						moved += d.Commands[i].Moved
					}
					v = again(v, carriedOut(v.Cluster, d, passes))
				}
				b.ReportMetric(float64(passes), "passes")
				b.ReportMetric(float64(moved), "moved")
				b.ReportMetric(100*(cost/bound-1), "%-over-bound")
			}
		})
	}
}

func everyPool(v *disrupt.View, change func(*cluster.ManagedPool)) {
	for name, p := range v.Pools {
		change(&p)
		v.Pools[name] = p
	}
}
