package disrupt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

func fleet(count, allowed int) disrupt.View {
	v := disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon, Pools: map[string]cluster.ManagedPool{"p": {Pool: cluster.Pool{Name: "p", Types: make([]catalog.InstanceType, 1)}, Ready: true, MaxNodes: -1, Budgets: []cluster.Budget{{Nodes: fmt.Sprint(allowed)}}}}}}
	for i := range count {
		name := string(rune('a' + i))
		v.Nodes = append(v.Nodes, cluster.ManagedNode{Node: cluster.Node{Name: name, Claim: name, Pool: "p", Initialized: true}, Registered: true, Ready: true})
	}
	return v
}

func removing(why karpv1.DisruptionReason, nodes string) disrupt.Command {
	c := disrupt.Command{Reason: why, Decision: disrupt.Delete}
	for _, n := range nodes {
		c.Remove = append(c.Remove, disrupt.Candidate{Node: string(n), Claim: string(n), Pool: "p"})
	}
	return c
}

// Disruption 16, G5: what was decided is held against the budgets of now. Nodes of the commands
// themselves, which are held by then, do not count twice.
func TestBudgetsAreLookedAtAgain(t *testing.T) {
	t.Parallel()
	const empty, drifted, unhealthy = karpv1.ReasonEmpty, karpv1.ReasonDrifted, karpv1.ReasonUnhealthy
	for name, tc := range map[string]struct {
		allowed int
		change  func([]cluster.ManagedNode)
		list    []disrupt.Command
		want    string
	}{
		"nothing happened":                        {2, nil, []disrupt.Command{removing(empty, "ab")}, ""},
		"another one goes":                        {1, func(n []cluster.ManagedNode) { n[3].BeingRemoved = true }, []disrupt.Command{removing(empty, "a")}, "0:a"},
		"another one is not ready":                {1, func(n []cluster.ManagedNode) { n[3].Ready = false }, []disrupt.Command{removing(empty, "a")}, "0:a"},
		"and that does not matter to repair":      {1, func(n []cluster.ManagedNode) { n[3].Ready = false }, []disrupt.Command{removing(unhealthy, "a")}, ""},
		"some empty nodes still fit":              {2, func(n []cluster.ManagedNode) { n[3].BeingRemoved = true }, []disrupt.Command{removing(empty, "ab")}, "0:b"},
		"the first command fits":                  {2, func(n []cluster.ManagedNode) { n[3].BeingRemoved = true }, []disrupt.Command{removing(drifted, "a"), removing(drifted, "b")}, "1:b"},
		"one that does not fit leaves room":       {2, func(n []cluster.ManagedNode) { n[3].BeingRemoved = true }, []disrupt.Command{removing(drifted, "ab"), removing(drifted, "c")}, "0:b"},
		"one that is not initialized uses none":   {0, func(n []cluster.ManagedNode) { n[0].Initialized = false }, []disrupt.Command{removing(unhealthy, "a")}, ""},
		"one that is gone is objected to already": {0, func(n []cluster.ManagedNode) { n[0].Claim = "other" }, []disrupt.Command{removing(drifted, "a")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := fleet(4, tc.allowed)
			for _, c := range tc.list {
				for _, n := range c.Remove {
					v.Nodes[n.Node[0]-'a'].Commanded = true
				}
			}
			if tc.change != nil {
				tc.change(v.Nodes)
			}
			var got []string
			for i, list := range disrupt.OverBudget(tc.list, v) {
				for _, o := range list {
					got = append(got, fmt.Sprintf("%d:%s", i, o.Claim))
				}
			}
			if slices.Sort(got); strings.Join(got, " ") != tc.want {
				t.Errorf("beyond the budget: %v, want %q", got, tc.want)
			}
		})
	}
}

// G9, G12: a node whose command came to nothing is passed over by all but repair, and takes nothing from
// others: neither a budget nor the turn of a static pool.
func TestNodesInBackoff(t *testing.T) {
	t.Parallel()
	decide := func(v disrupt.View) string {
		var got []string
		for _, c := range disrupt.Next(v, never).Commands {
			for _, n := range c.Remove {
				got = append(got, string(c.Reason)+" "+n.Node)
			}
		}
		return strings.Join(got, ", ")
	}
	set, err := disrupt.NewRepairSet([]cloud.Repair{{Condition: "Ready", Status: "Unknown", Action: cloud.ReplaceNode}})
	if err != nil {
		t.Fatal(err)
	}
	unhealthy := func(v *disrupt.View) {
		v.Repairs, v.Methods.Repair = set, true
		v.Nodes[0].Health = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}
	}
	static := func(v *disrupt.View) {
		p := v.Pools["p"]
		p.Static, p.Replicas, p.Running, p.Claims = true, 4, 4, 4
		v.Pools["p"], v.Methods.Static = p, true
		v.Nodes[0].Drift, v.Nodes[1].Drift = "AMIDrift", "AMIDrift"
	}
	for name, tc := range map[string]struct {
		change func(*disrupt.View)
		want   string
	}{
		"the others use the whole budget":  {func(*disrupt.View) {}, "Empty b"},
		"a static pool goes on":            {static, "Drifted b"},
		"repair needs no budget":           {unhealthy, "Unhealthy a"},
		"unless the repair itself failed":  {func(v *disrupt.View) { unhealthy(v); v.Nodes[0].RepairBackingOff = true }, "Empty b"},
		"no node is left to have its turn": {func(v *disrupt.View) { v.Nodes = v.Nodes[:1] }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := fleet(4, 1)
			v.Nodes[0].BackingOff = true
			tc.change(&v)
			if got := decide(v); got != tc.want {
				t.Errorf("decided %q, want %q", got, tc.want)
			}
		})
	}
}
