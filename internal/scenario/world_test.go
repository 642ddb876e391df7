package scenario_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

func compiled(t *testing.T, text string) *scenario.Compiled {
	t.Helper()
	s, err := scenario.Load([]byte(text), awsv1.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	return s.World(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)).Compile()
}

func diff(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestLabelsOfTypes(t *testing.T) {
	t.Parallel()
	small := compiled(t, tiny(t)).World.Types[0].Labels
	got := map[string]string{}
	for key, r := range small {
		got[key] = r.String()
	}
	diff(t, "labels of a type: a label that another type has is known not to be there", got, map[string]string{
		"example.com/size":             "In [small]",
		"example.com/gpu":              "DoesNotExist",
		corev1.LabelInstanceTypeStable: "In [small]",
		corev1.LabelArchStable:         "In [amd64]",
		corev1.LabelOSStable:           "In [linux]",
	})
}

func TestKnownLabels(t *testing.T) {
	t.Parallel()
	words := compiled(t, tiny(t)).World.Words
	for label, want := range map[string]bool{"example.com/gpu": true, corev1.LabelTopologyZone: true, "example.com/other": false} {
		if got := words.WellKnown(label); got != want {
			t.Errorf("%s is well-known: %v, want %v", label, got, want)
		}
	}
}

func TestNodeIsReadAsItRuns(t *testing.T) {
	t.Parallel()
	view := compiled(t, tiny(t)).View
	node := view.Nodes[0]
	diff(t, "node", map[string]any{
		"pool": node.Pool, "type": node.InstanceType, "zone": node.Zone, "capacity": node.CapacityType, "price": node.Price,
		"initialized": node.Initialized, "pods": len(node.Pods), "allocatable": view.Resources.Format(node.Allocatable),
		"template label": node.Labels["team"], "own label": node.Labels["rack"], "type label": node.Labels["example.com/size"],
	}, map[string]any{
		"pool": "default", "type": "small", "zone": "a", "capacity": "on-demand", "price": 0.1,
		"initialized": true, "pods": 2, "allocatable": "cpu:1900m,memory:3584Mi,pods:10",
		"template label": "web", "own label": "1", "type label": "small",
	})
}

func TestPoolIsOpenAndLimited(t *testing.T) {
	t.Parallel()
	c := compiled(t, tiny(t))
	pool := c.View.Pools[0]
	if pool.Closed {
		t.Error("the pool is closed; in a scenario all are ready")
	}
	diff(t, "what the node leaves of the limit", pool.Limits, []cluster.Limit{{Resource: "cpu", Remaining: 98_000}})
	if &pool.Types[0] != &c.World.Types[0] {
		t.Error("the pool has types of its own; all pools share one list")
	}
}

func TestPodsOfAGroupShareAShape(t *testing.T) {
	t.Parallel()
	view := compiled(t, tiny(t)).View
	if len(view.Pending) != 6 || len(view.Daemons) != 1 {
		t.Fatalf("%d pods and %d DaemonSets, want 6 and 1", len(view.Pending), len(view.Daemons))
	}
	shapes := map[*cluster.Shape]int{}
	for _, p := range view.Pending {
		shapes[p.Shape]++
	}
	for _, p := range view.Nodes[0].Pods {
		shapes[p.Shape]++
	}
	if len(shapes) != 3 {
		t.Errorf("%d shapes, want 3: no selector looks at labels, and the bound pods are like those of the first group", len(shapes))
	}
}

// What is waiting may look at a label that no pod on a node looks at: those pods must then have it.
func TestLabelsThatWaitingPodsLookAt(t *testing.T) {
	t.Parallel()
	const spread = `"topologySpreadConstraints": [{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"LABEL": "web"}}}], `
	for name, tc := range map[string]struct {
		label string
		want  map[string]string
	}{
		"a label that pods on nodes have": {"app", map[string]string{"app": "web"}},
		"a label that they do not have":   {"other", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const picky = `"app": "picky"}}, "spec": {`
			view := compiled(t, replaced(t, picky, picky+strings.Replace(spread, "LABEL", tc.label, 1))).View
			for _, p := range view.Nodes[0].Pods {
				diff(t, "labels of "+p.Key.Name, p.Shape.Labels, tc.want)
			}
		})
	}
}

func TestCandidatesFollowThePolicy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		disruption string
		want       []string
	}{
		"by default all":                {``, []string{"node-1"}},
		"never means never":             {`"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "Never"},`, nil},
		"a node with pods is not empty": {`"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"},`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := compiled(t, replaced(t, `"weight": 10,`, `"weight": 10, `+tc.disruption))
			diff(t, "candidates", c.Candidates(), tc.want)
		})
	}
}

func TestPlanFile(t *testing.T) {
	t.Parallel()
	c := compiled(t, tiny(t))
	keys := func(from, to int) (list []cluster.PodKey) {
		for _, p := range c.View.Pending[from:to] {
			list = append(list, p.Key)
		}
		return list
	}
	plan := &solve.Plan{
		Create: []solve.NewNode{{
			Pool: "default", Pods: keys(1, 4), Needs: reqs.Set{},
			Offer: solve.Offer{Type: "gpu", Zone: "a", CapacityType: "on-demand", Price: 0.9},
		}},
		Bind: []solve.Bind{{Pod: c.View.Pending[0].Key, Node: "node-1"}},
	}
	text, err := json.Marshal(c.World.Scenario.File("tool", plan))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "file", string(text), `{"scenario":"tiny","tool":"tool","nodes":[`+
		`{"nodePool":"default","instanceType":"gpu","zone":"a","capacityType":"on-demand","price":0.9,"pods":{"0":2,"1":1}},`+
		`{"existing":"node-1","pods":{"0":1}}]}`)
}

func TestGroupText(t *testing.T) {
	t.Parallel()
	diff(t, "text", scenario.GroupText(map[int]int{3: 1, 1: 5, 7: 5, 9: 2}, 3), "$.pods[1] ×5, $.pods[7] ×5, $.pods[9] ×2, and 1 more")
	if g, found := scenario.Group(cluster.PodKey{Name: "node-1-0-1"}); found {
		t.Errorf("a bound pod is of group %d", g)
	}
}
