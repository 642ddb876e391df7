package disrupt_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// V15-54: which value the pods of each node get.
func TestV15_54_DeletionCosts(t *testing.T) {
	t.Parallel()
	sized := func(name string, price float64, change ...func(*cluster.ManagedNode)) cluster.ManagedNode {
		return node(name, append([]func(*cluster.ManagedNode){func(n *cluster.ManagedNode) {
			n.InstanceType, n.Price = "large", price
			n.Pods = []cluster.ManagedPod{{Pod: podOf("x/"+name, 1), Moves: true}}
		}}, change...)...)
	}
	drifted := func(n *cluster.ManagedNode) { n.Drift = "NodePoolDrifted" }
	in := func(pool string) func(*cluster.ManagedNode) { return func(n *cluster.ManagedNode) { n.Pool = pool } }
	none := func(name string) string { return name + " none" }
	for name, tc := range map[string]struct {
		nodes []cluster.ManagedNode
		notes map[string]disrupt.NodeNote
		pool  cluster.ManagedPool
		want  []string
	}{
		"the order of consolidation, drift first": {
			nodes: []cluster.ManagedNode{sized("cheap", 1), sized("dear", 5), sized("old", 1, drifted), sized("older", 2, drifted)},
			want:  []string{"older -4", "old -3", "dear -2", "cheap -1"},
		},
		"ties by name": {nodes: []cluster.ManagedNode{sized("b", 1), sized("a", 1)}, want: []string{"a -2", "b -1"}},
		"those that go come first, however few pods they have": {
			nodes: []cluster.ManagedNode{sized("a", 1), sized("going", 1, func(n *cluster.ManagedNode) { n.BeingRemoved = true }), sized("tainted", 2)},
			notes: map[string]disrupt.NodeNote{"tainted": {Tainted: true}},
			want:  []string{fmt.Sprint("tainted ", math.MinInt32), fmt.Sprint("going ", math.MinInt32), "a -1"},
		},
		"what is held, pinned, unknown or protected gets none": {
			nodes: []cluster.ManagedNode{
				sized("a", 1), sized("b", 1), sized("c", 1, func(n *cluster.ManagedNode) { n.InstanceType = "unheard" }), sized("d", 1, func(n *cluster.ManagedNode) { n.ProtectedBy = karpv1.AnnotationDoNotDisrupt }),
				sized("e", 1, func(n *cluster.ManagedNode) { n.Pods[0].Blocked = true }), sized("f", 1, func(n *cluster.ManagedNode) { n.Nominated = true }), sized("g", 1, func(n *cluster.ManagedNode) { n.Rebooting = true }),
			},
			notes: map[string]disrupt.NodeNote{"b": {Pinned: true}},
			want:  []string{"a -1", none("b"), none("c"), none("d"), none("e"), none("f"), none("g")},
		},
		"budgets bound both groups": {
			nodes: []cluster.ManagedNode{sized("a", 9), sized("b", 8), sized("c", 7, drifted), sized("d", 6, drifted)},
			pool:  general(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "1"}} }),
			want:  []string{"c -2", "a -1", none("b"), none("d")},
		},
		"Never leaves drift": {
			nodes: []cluster.ManagedNode{sized("a", 1), sized("b", 1, drifted)}, pool: general(func(p *cluster.ManagedPool) { p.NeverConsolidate = true }),
			want: []string{"b -1", none("a")},
		},
		"static pools count as any other, drifted or not": {
			nodes: []cluster.ManagedNode{sized("a", 1), sized("b", 2, drifted)}, pool: general(func(p *cluster.ManagedPool) { p.Static = true }),
			want: []string{"b -2", "a -1"},
		},
		"a pool that is gone": {nodes: []cluster.ManagedNode{sized("a", 1, in("gone"))}, want: []string{none("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.pool.Name == "" {
				tc.pool = general()
			}
			slices.SortFunc(tc.nodes, func(a, b cluster.ManagedNode) int { return strings.Compare(a.Name, b.Name) })
			view := disrupt.View{
				DisruptionView: cluster.DisruptionView{
					Now: noon, Nodes: tc.nodes, Pools: map[string]cluster.ManagedPool{"general": tc.pool},
					Cluster: &cluster.Snapshot{Pools: []cluster.Pool{{Name: "general", Types: []catalog.InstanceType{{Name: "large"}}}}},
				},
			}
			var got []string
			for _, c := range disrupt.DeletionCosts(view, tc.notes) {
				text := fmt.Sprint(c.Node, " ", c.Value)
				if c.Value == 0 {
					text = none(c.Node)
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("costs (-want +got):\n%s", diff)
			}
		})
	}
}
