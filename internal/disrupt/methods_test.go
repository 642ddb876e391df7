package disrupt_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/script"
)

// Demand 31, FM K15: however many drifted nodes cannot be replaced, each has its turn, and no pass looks for a
// place for the pods of all of them.
func TestEveryDriftedNodeHasItsTurn(t *testing.T) {
	t.Parallel()
	const nodes, passes = 130, 60
	w := script.New()
	text := "type name=m cpu=1 price=1\npool name=default closed\n"
	for i := range nodes {
		text += fmt.Sprintf("node name=n%03d pool=default type=m\nbound name=p%03d cpu=1 node=n%03d\n", i, i, i)
	}
	if _, err := w.Run(text); err != nil {
		t.Fatal(err)
	}
	view, _ := w.Snapshot()
	v := viewOf(view, nil, w.Policy())
	for i := range v.Nodes {
		v.Nodes[i].Drift, v.Nodes[i].Settling = "AMIDrift", true
	}
	tried := map[string]bool{}
	for pass := range passes {
		v.Now = view.Now.Add(time.Duration(pass) * 10 * time.Second)
		d := disrupt.Next(v, never)
		said := 0
		for _, s := range d.Events {
			if s.Event.Reason == event.DisruptionBlocked {
				tried[s.Node] = true
				said++
			}
		}
		if said > 50 {
			t.Fatalf("%d nodes were tried in one pass", said)
		}
	}
	if len(tried) != nodes {
		t.Errorf("%d of %d nodes had their turn", len(tried), nodes)
	}
}

// Disruption 25.2, V15-16: 20 % of 19 nodes is 4; one that is not ready leaves 3, but
// 4 for repair.
func TestBudgetArithmetic(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change              func([]cluster.ManagedNode)
		gone                int
		allowed             int
		busy, busyForRepair int
	}{
		"all is well":   {func([]cluster.ManagedNode) {}, 4, 4, 0, 0},
		"one not ready": {func(n []cluster.ManagedNode) { n[18].Ready, n[18].Settling = false, true }, 3, 4, 1, 0},
		"one reboots, which counts although it is not initialized": {func(n []cluster.ManagedNode) { n[18].Rebooting, n[18].Initialized = true, false }, 3, 4, 1, 1},
		"one goes":                                  {func(n []cluster.ManagedNode) { n[18].BeingRemoved = true }, 3, 4, 1, 1},
		"one has gone, which leaves 18":             {func(n []cluster.ManagedNode) { n[18].Terminating, n[18].BeingRemoved = true, true }, 4, 4, 0, 0},
		"four not initialized, which leaves 15":     {func(n []cluster.ManagedNode) { down(n[15:]) }, 3, 3, 0, 0},
		"those are not busy, ready or not":          {func(n []cluster.ManagedNode) { down(n[15:]); n[18].Ready = false }, 3, 3, 0, 0},
		"a node of a running command is on its way": {func(n []cluster.ManagedNode) { n[18].Commanded = true }, 3, 4, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := many(19)
			tc.change(nodes)
			pool := general(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "20%"}} })
			d := disrupt.Next(disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon, Nodes: nodes, Pools: map[string]cluster.ManagedPool{"general": pool}}}, nil)
			gone := 0
			for i := range d.Commands {
				gone += len(d.Commands[i].Remove)
			}
			got := [4]int{gone, d.Allowed["Empty"]["general"], d.Busy["Empty"]["general"], d.Busy["Unhealthy"]["general"]}
			if want := [4]int{tc.gone, tc.allowed, tc.busy, tc.busyForRepair}; got != want {
				t.Errorf("gone, allowed, busy, busy for repair = %v, want %v", got, want)
			}
		})
	}
}

func down(nodes []cluster.ManagedNode) {
	for i := range nodes {
		nodes[i].Initialized = false
	}
}
