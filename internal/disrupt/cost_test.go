package disrupt_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/script"
)

// FM K17: pods as cheap as they can be, nodes without a price or with one that is none, and pools that cost
// nothing. Scores, costs and savings are numbers, and the order does not depend on the order of the input.
func TestFM_K17_CostsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	const world = "type name=m cpu=4 price=1\npool name=default\n" +
		"node name=n1 pool=default type=m\nnode name=n2 pool=default type=m\nnode name=n3 pool=default type=m\n" +
		"bound name=a cpu=1 node=n1\nbound name=b cpu=1 node=n2\nbound name=c cpu=1 node=n3\n"
	for name, tc := range map[string]struct{ price, cost float64 }{
		"the cheapest pods":             {price: 1, cost: -10},
		"the dearest pods":              {price: 1, cost: 10},
		"pods that cost nothing":        {price: 1, cost: 0},
		"nodes that cost nothing":       {price: 0, cost: 1},
		"neither costs anything":        {price: 0, cost: 0},
		"the cheapest pods for nothing": {price: 0, cost: -10},
		"prices below zero":             {price: -1, cost: -10},
	} {
		for _, policy := range []karpv1.ConsolidationPolicy{karpv1.ConsolidationBalanced, karpv1.ConsolidationWhenEmptyOrUnderutilized} {
			t.Run(name+", "+string(policy), func(t *testing.T) {
				t.Parallel()
				w := script.New()
				if out, err := w.Run(world); err != nil || out != "" {
					t.Fatalf("%s %v", out, err)
				}
				decide := func(turn int) disrupt.Decision {
					view, pods := w.Snapshot()
					v := viewOf(view, pods, w.Policy())
					pool := v.Pools["default"]
					pool.Policy = policy
					v.Pools["default"] = pool
					for i := range v.Nodes {
						v.Nodes[i].Price, v.Nodes[i].Pods[0].EvictCost = tc.price, tc.cost
						v.Cluster.Nodes[i].Price = tc.price
					}
					v.Nodes = append(v.Nodes[turn:], v.Nodes[:turn]...)
					return disrupt.Next(v, nil)
				}
				first := decide(0)
				for _, s := range first.Scores {
					sound(t, "score of "+s.Pool, s.Value, s.Savings, s.Moving)
				}
				var went []string
				for _, c := range first.Commands {
					sound(t, "command for "+c.Remove[0].Node, c.Saves, c.Cost, c.Score)
					went = append(went, c.Remove[0].Node)
				}
				for turn := range 3 {
					var again []string
					for _, c := range decide(turn).Commands {
						again = append(again, c.Remove[0].Node)
					}
					if diff := cmp.Diff(went, again); diff != "" {
						t.Errorf("another order of nodes (-first +now):\n%s", diff)
					}
				}
			})
		}
	}
}

func sound(t *testing.T, what string, values ...float64) {
	t.Helper()
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%s is %v, want a number", what, values)
		}
	}
}
