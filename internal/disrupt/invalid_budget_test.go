package disrupt_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Disruption 3.2: a budget that cannot be read closes its pool, and an event of the pool says which field is invalid, not
// that a budget says 0.
func TestUnreadableBudgetsAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"many": "spec.disruption.budgets[0].nodes", "0": "a budget of the NodePool says 0"} {
		pool := general(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: text}} })
		emitted := 0
		for _, n := range disrupt.Next(disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon, Pools: map[string]cluster.ManagedPool{"general": pool}, Nodes: []cluster.ManagedNode{node("a")}}}, never).Events {
			if n.Pool == "general" && n.Event.Reason == event.DisruptionBlocked {
				emitted++
				if !strings.Contains(n.Event.Text, want) {
					t.Errorf("nodes=%q: told %q, want %q", text, n.Event.Text, want)
				}
			}
		}
		if emitted != 3 {
			t.Errorf("nodes=%q: told %d times, want once for each reason", text, emitted)
		}
	}
}

// Disruption 3.2: pools with budgets that cannot be read are listed by name, with the field.
func TestInvalidBudgets(t *testing.T) {
	t.Parallel()
	pool := func(nodes string) cluster.ManagedPool {
		return general(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: nodes}} })
	}
	view := disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon, Pools: map[string]cluster.ManagedPool{"b": pool("many"), "a": pool("few"), "closed": pool("0")}}}
	pools, text := disrupt.InvalidBudgets(&view)
	if !slices.Equal(pools, []string{"a", "b"}) || !strings.HasPrefix(text, "a: ") || !strings.Contains(text, "; b: ") || strings.Count(text, "spec.disruption.budgets[0].nodes") != 2 {
		t.Errorf("pools %v: %s", pools, text)
	}
}

// Disruption 15a: a score carries all that it was made of.
func TestScoresCarryWhatTheyAreMadeOf(t *testing.T) {
	t.Parallel()
	v := scripted(t, "type name=big cpu=8 price=8\ntype name=small cpu=2 price=1\npool name=default\nnode name=n1 pool=default type=big\nbound name=p1 cpu=1 node=n1\n")
	pool := v.Pools["default"]
	pool.Policy = karpv1.ConsolidationBalanced
	v.Pools["default"] = pool
	scores := disrupt.Next(v, never).Scores
	want := disrupt.Score{
		Pool: "default", Nodes: []string{"n1"}, Value: 0.875, Approved: true, Savings: 0.875, Moving: 1,
		Decision: disrupt.Replace, Saves: 7, Cost: 2, PoolPrice: 8, PoolCost: 2, Least: 0.5, K: 2,
	}
	if diff := cmp.Diff([]disrupt.Score{want}, scores); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
}

// V15-49: drifted nodes of a static pool that limits.nodes leaves no slot for get an event, also when there are
// slots for others.
func TestV15_49_NodesBeyondTheSlotsAreReported(t *testing.T) {
	t.Parallel()
	pool := general(func(p *cluster.ManagedPool) {
		p.Static, p.Ready, p.Replicas, p.Running, p.Claims, p.MaxNodes = true, true, 3, 3, 3, 4
		p.Budgets = []cluster.Budget{{Nodes: "100%"}}
	})
	v := disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon, Pools: map[string]cluster.ManagedPool{"general": pool}}, Methods: disrupt.Methods{Static: true}}
	for _, name := range []string{"a", "b", "c"} {
		v.Nodes = append(v.Nodes, node(name, func(n *cluster.ManagedNode) { n.Drift = "AMIDrift" }))
	}
	d := disrupt.Next(v, never)
	if len(d.Commands) != 1 || len(d.Refused) != 2 || len(d.Events) != 2 {
		t.Fatalf("%d commands, refused %+v, told %+v; want 1, 2 and 2", len(d.Commands), d.Refused, d.Events)
	}
	for i, r := range d.Refused {
		if r.Reason != karpv1.ReasonDrifted || r.Why.Code != reason.StaticAtLimit || r.Why.Have != "4 of 4" || d.Events[i].Event.Reason != event.DisruptionBlocked {
			t.Errorf("refused %+v, told %+v", r, d.Events[i])
		}
	}
}
