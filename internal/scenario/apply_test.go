package scenario_test

import (
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

func replaced(t *testing.T, old, with string) string {
	t.Helper()
	text := tiny(t)
	if !strings.Contains(text, old) {
		t.Fatalf("the file does not contain %s", old)
	}
	return strings.Replace(text, old, with, 1)
}

// twoNodes is the tiny scenario with a second node: node-1 runs two pods, node-2 one.
func twoNodes(t *testing.T) *scenario.Compiled {
	t.Helper()
	return compiled(t, replaced(t, `"nodes": [`, `"nodes": [
    {"name": "node-2", "nodePool": "default", "instanceType": "small", "zone": "b", "capacityType": "on-demand", "pods": [{"count": 1, "templateRef": "small"}]},`))
}

func bound(names ...string) []cluster.PodKey {
	var keys []cluster.PodKey
	for _, name := range names {
		keys = append(keys, cluster.PodKey{Namespace: "default", Name: name})
	}
	return keys
}

func TestApply(t *testing.T) {
	t.Parallel()
	to := func(node string, pods ...string) (list []solve.Bind) {
		for _, key := range bound(pods...) {
			list = append(list, solve.Bind{Pod: key, Node: node})
		}
		return list
	}
	onType := func(name string, pods ...string) []solve.NewNode {
		return []solve.NewNode{{Pool: "default", Pods: bound(pods...), Offer: solve.Offer{Type: name, Zone: "a", CapacityType: "on-demand"}}}
	}
	for name, tc := range map[string]struct {
		moves     []solve.Move
		want      scenario.Applied
		wantNodes string
		wantCost  float64
		wantError string
	}{
		"a pod that fits moves and its node goes": {
			moves: []solve.Move{{Remove: []string{"node-2"}, Bind: to("node-1", "node-2-0-0")}},
			want:  scenario.Applied{Moved: 1, Removed: 1}, wantNodes: "node-1", wantCost: 0.1,
		},
		"a move builds on the one before": {
			moves: []solve.Move{{Remove: []string{"node-2"}, Bind: to("node-1", "node-2-0-0")}, {Remove: []string{"node-1"}, Create: onType("small", "node-1-0-0", "node-1-0-1", "node-2-0-0")}},
			want:  scenario.Applied{Moved: 4, Removed: 2, Added: 1}, wantNodes: "new-00001", wantCost: 0.1,
		},
		"both nodes give way to one": {
			moves: []solve.Move{{Remove: []string{"node-1", "node-2"}, Create: onType("gpu", "node-1-0-0", "node-1-0-1", "node-2-0-0")}},
			want:  scenario.Applied{Moved: 3, Removed: 2, Added: 1}, wantNodes: "new-00001", wantCost: 0.9,
		},
		"a node that is not there": {
			moves: []solve.Move{{Remove: []string{"node-9"}}}, wantError: "move 0: node node-9 is to go and is not there",
		},
		"a pod left behind": {
			moves: []solve.Move{{Remove: []string{"node-1"}, Bind: to("node-2", "node-1-0-0")}}, wantError: "move 0: 1 pods fit on no other node, among them default/node-1-0-1",
		},
		"a target that went before": {
			moves:     []solve.Move{{Remove: []string{"node-2"}, Bind: to("node-1", "node-2-0-0")}, {Remove: []string{"node-1"}, Bind: to("node-2", "node-1-0-0")}},
			wantError: "move 1: pod default/node-1-0-0 is to go to node node-2, which is not there",
		},
		"a pod of another node": {
			moves: []solve.Move{{Remove: []string{"node-2"}, Bind: to("node-1", "node-1-0-0")}}, wantError: "move 0: pod default/node-1-0-0 is on none of the removed nodes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := twoNodes(t)
			before := c.View
			got, err := c.Apply(tc.moves)
			if tc.wantError != "" {
				if err == nil || err.Error() != tc.wantError {
					t.Fatalf("Apply() says %v, want %s", err, tc.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "applied", got, tc.want)
			var names []string
			for _, n := range c.View.Nodes {
				names = append(names, n.Name)
			}
			diff(t, "nodes", strings.Join(names, " "), tc.wantNodes)
			if _, cost := c.Cost(); cost != tc.wantCost {
				t.Errorf("cost %v, want %v", cost, tc.wantCost)
			}
			if len(before.Nodes) != 2 || len(before.Nodes[0].Pods) != 2 || len(before.Nodes[1].Pods) != 1 {
				t.Error("the view from before has changed")
			}
		})
	}
}

func TestApplyCountsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	// Four pods of 500m and the DaemonSet on 1900m.
	c := compiled(t, replaced(t, `"nodes": [`, `"nodes": [
    {"name": "node-2", "nodePool": "default", "instanceType": "small", "zone": "b", "capacityType": "on-demand", "pods": [{"count": 2, "templateRef": "small"}]},`))
	move := solve.Move{Remove: []string{"node-2"}}
	for _, key := range bound("node-2-0-0", "node-2-0-1") {
		move.Bind = append(move.Bind, solve.Bind{Pod: key, Node: "node-1"})
	}
	got, err := c.Apply([]solve.Move{move})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "applied", got, scenario.Applied{Moved: 2, Removed: 1, Invalid: 1})
}

func TestApplyKeepsLimitsCurrent(t *testing.T) {
	t.Parallel()
	c := twoNodes(t)
	if _, err := c.Apply([]solve.Move{{
		Remove: []string{"node-1", "node-2"},
		Create: []solve.NewNode{{Pool: "default", Pods: bound("node-1-0-0", "node-1-0-1", "node-2-0-0"), Offer: solve.Offer{Type: "gpu", Zone: "a", CapacityType: "on-demand"}}},
	}}); err != nil {
		t.Fatal(err)
	}
	diff(t, "limits", c.View.Pools[0].Limits, []cluster.Limit{{Resource: "cpu", Remaining: 92_000}})
	diff(t, "taints of a new node", c.View.Nodes[0].Taints[0].Key, "dedicated")
}
