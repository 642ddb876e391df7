package disrupt_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func claim(initialized time.Duration, conditions ...metav1.Condition) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{}
	add := func(name string) {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: name, LastTransitionTime: metav1.NewTime(noon.Add(-initialized))})
	}
	add(karpv1.ConditionLaunched)
	add(karpv1.ConditionRegistered)
	if initialized > 0 {
		add(karpv1.ConditionInitialized)
	}
	c.Status.Conditions = append(c.Status.Conditions, conditions...)
	return c
}

// LC-55, LC-57: when a claim is marked, and when to look again.
func TestMarks(t *testing.T) {
	t.Parallel()
	drifted := metav1.Condition{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "AMIDrift"}
	consolidatable := metav1.Condition{Type: karpv1.ConditionConsolidatable, Status: metav1.ConditionTrue, Reason: "Consolidatable"}
	event := func(ago time.Duration, c *karpv1.NodeClaim) *karpv1.NodeClaim {
		c.Status.LastPodEventTime = metav1.NewTime(noon.Add(-ago))
		return c
	}
	for name, tc := range map[string]struct {
		claim              *karpv1.NodeClaim
		quiet              karpv1.Duration
		static             bool
		drift              reason.Code
		unknown            bool
		wantConsolidatable bool
		wantDrift          string
		wantAfter          time.Duration
	}{
		"not initialized":                          {claim: claim(0), quiet: "0s"},
		"quiet time zero":                          {claim: claim(time.Second), quiet: "0s", wantConsolidatable: true},
		"quiet time not over":                      {claim: claim(10 * time.Second), quiet: "30s", wantAfter: 20 * time.Second},
		"quiet time over exactly now":              {claim: claim(30 * time.Second), quiet: "30s", wantConsolidatable: true},
		"the last pod event counts, not the age":   {claim: event(time.Second, claim(time.Hour)), quiet: "30s", wantAfter: 29 * time.Second},
		"an event takes the mark away":             {claim: event(time.Second, claim(time.Hour, consolidatable)), quiet: "30s", wantAfter: 29 * time.Second},
		"never":                                    {claim: claim(time.Hour, consolidatable), quiet: "Never"},
		"static pools are not consolidated, LC-49": {claim: claim(time.Hour, consolidatable), quiet: "0s", static: true},
		"drift is marked with its reason":          {claim: claim(0), quiet: "Never", drift: "NodePoolDrifted", wantDrift: "NodePoolDrifted"},
		"another reason replaces it":               {claim: claim(0, drifted), quiet: "Never", drift: "NodePoolDrifted", wantDrift: "NodePoolDrifted"},
		"drift that is not known stays":            {claim: claim(0, drifted), quiet: "Never", unknown: true, wantDrift: "AMIDrift"},
		"drift that is not known is none":          {claim: claim(0), quiet: "Never", unknown: true},
		"drift that is over is cleared":            {claim: claim(0, drifted), quiet: "Never"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := &karpv1.NodePool{}
			pool.Spec.Disruption.ConsolidateAfter = tc.quiet
			if tc.static {
				pool.Spec.Replicas = new(int64(1))
			}
			list, after := disrupt.Marks(disrupt.MarkFacts{Claim: tc.claim, Pool: pool, Drift: reason.Reason{Code: tc.drift}, DriftUnknown: tc.unknown, Now: noon})
			if got := condition.True(list, karpv1.ConditionConsolidatable); got != tc.wantConsolidatable {
				t.Errorf("Consolidatable = %v, want %v", got, tc.wantConsolidatable)
			}
			gotDrift := ""
			if c := condition.Find(list, karpv1.ConditionDrifted); c != nil {
				gotDrift = c.Reason
			}
			if gotDrift != tc.wantDrift || after != tc.wantAfter {
				t.Errorf("drift %q after %v, want %q after %v", gotDrift, after, tc.wantDrift, tc.wantAfter)
			}
		})
	}
}

func node(name string, change ...func(*cluster.ManagedNode)) cluster.ManagedNode {
	n := cluster.ManagedNode{Node: cluster.Node{Name: name, Claim: "claim-" + name, Pool: "general", Initialized: true}, Ready: true, Registered: true}
	for _, c := range change {
		c(&n)
	}
	return n
}

// podOf is a pod of which only the name, namespace/name, and the cost of its eviction are known.
func podOf(name string, cost float64) cluster.Pod {
	namespace, name, _ := strings.Cut(name, "/")
	return cluster.Pod{Key: cluster.PodKey{Namespace: namespace, Name: name}, EvictCost: cost}
}

func podBlockingDrain(p cluster.ManagedPod) func(*cluster.ManagedNode) {
	return func(n *cluster.ManagedNode) { n.Pods = append(n.Pods, p) }
}

func general(change ...func(*cluster.ManagedPool)) cluster.ManagedPool {
	p := cluster.ManagedPool{Pool: cluster.Pool{Name: "general", Types: make([]catalog.InstanceType, 1)}}
	for _, c := range change {
		c(&p)
	}
	return p
}

// Disruption 5, 8, 12: which empty nodes go, and what is said about those that stay.
func TestEmpty(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		nodes []cluster.ManagedNode
		pool  cluster.ManagedPool
		want  []string
		say   string // part of what is said
	}{
		"empty nodes go, the dearest first": {
			nodes: []cluster.ManagedNode{node("a"), node("b", func(n *cluster.ManagedNode) { n.Price = 2 })}, pool: general(), want: []string{"b", "a"},
		},
		"DaemonSet pods do not keep a node": {nodes: []cluster.ManagedNode{node("a", podBlockingDrain(cluster.ManagedPod{Pod: podOf("x/d", 1)}))}, pool: general(), want: []string{"a"}},
		"a pod that has to move does":       {nodes: []cluster.ManagedNode{node("a", podBlockingDrain(cluster.ManagedPod{Pod: podOf("x/p", 1), Moves: true}))}, pool: general()},
		"an expendable pod does not":        {nodes: []cluster.ManagedNode{node("a", podBlockingDrain(cluster.ManagedPod{Pod: podOf("x/p", -1), Moves: true}))}, pool: general(), want: []string{"a"}},
		"a protected DaemonSet pod does (FM K25)": {
			nodes: []cluster.ManagedNode{node("a", podBlockingDrain(cluster.ManagedPod{Pod: podOf("x/d", 0), ProtectedBy: karpv1.AnnotationDoNotDisrupt}))}, pool: general(), say: "pod x/d carries annotation karpenter.sh/do-not-disrupt",
		},
		"inside the quiet time":   {nodes: []cluster.ManagedNode{node("a", func(n *cluster.ManagedNode) { n.Settling = true })}, pool: general()},
		"not initialized":         {nodes: []cluster.ManagedNode{node("a", func(n *cluster.ManagedNode) { n.Initialized = false })}, pool: general(), say: "not initialized"},
		"a pod of another comes":  {nodes: []cluster.ManagedNode{node("a", func(n *cluster.ManagedNode) { n.ExpectsDisplaced = true })}, pool: general(), say: "pending pod is expected"},
		"nominated":               {nodes: []cluster.ManagedNode{node("a", func(n *cluster.ManagedNode) { n.Nominated = true })}, pool: general(), say: "pending pod is expected"},
		"protected":               {nodes: []cluster.ManagedNode{node("a", func(n *cluster.ManagedNode) { n.ProtectedBy = karpv1.AnnotationDoNotDisrupt })}, pool: general(), say: "the node carries annotation"},
		"its pool is (L-15)":      {nodes: []cluster.ManagedNode{node("a")}, pool: general(func(p *cluster.ManagedPool) { p.ProtectedBy = karpv1.AnnotationDoNotDisrupt }), say: "NodePool general carries"},
		"catalogue unknown (E10)": {nodes: []cluster.ManagedNode{node("a")}, pool: general(func(p *cluster.ManagedPool) { p.Types = nil }), say: "cannot be resolved"},
		"never":                   {nodes: []cluster.ManagedNode{node("a")}, pool: general(func(p *cluster.ManagedPool) { p.NeverConsolidate = true }), say: "consolidateAfter Never"},
		"static":                  {nodes: []cluster.ManagedNode{node("a")}, pool: general(func(p *cluster.ManagedPool) { p.Static = true })},
		"a budget of one": {
			nodes: []cluster.ManagedNode{node("a"), node("b")}, pool: general(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "1"}} }), want: []string{"a"},
		},
		"a node on its way out uses it up": {
			nodes: []cluster.ManagedNode{node("a"), node("b", func(n *cluster.ManagedNode) { n.BeingRemoved = true })},
			pool:  general(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "1"}} }),
		},
		"so does one that is not ready": {
			nodes: []cluster.ManagedNode{node("a"), node("b", func(n *cluster.ManagedNode) { n.Ready, n.Settling = false, true })},
			pool:  general(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "1"}} }),
		},
		"ten percent of 19 is two (FM K26)": {
			nodes: many(19), pool: general(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "10%"}} }), want: []string{"n00", "n01"},
		},
		"a budget of zero says so": {
			nodes: []cluster.ManagedNode{node("a")}, pool: general(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "0", Reasons: []string{"Empty"}}} }), say: "a budget of the NodePool says 0",
		},
		"a budget for another reason does not count": {
			nodes: []cluster.ManagedNode{node("a")}, pool: general(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "0", Reasons: []string{"Drifted"}}} }), want: []string{"a"}, say: "reason Drifted",
		},
		"a budget that cannot be read closes the pool (FM K11)": {
			nodes: []cluster.ManagedNode{node("a")}, pool: general(func(p *cluster.ManagedPool) { p.Budgets = []cluster.Budget{{Nodes: "many"}} }), say: "spec.disruption.budgets[0].nodes: budget many cannot be read",
		},
		"two PodDisruptionBudgets for one pod (FM K03)": {
			nodes: []cluster.ManagedNode{node("a", podBlockingDrain(cluster.ManagedPod{Pod: podOf("x/d", 0), Budgets: []string{"x/one", "x/two"}}))}, pool: general(), say: "more than one PodDisruptionBudget",
		},
		"a PodDisruptionBudget that allows nothing (FM K01)": {
			nodes: []cluster.ManagedNode{node("a", podBlockingDrain(cluster.ManagedPod{Pod: podOf("x/d", 0), Budgets: []string{"x/one"}, Blocked: true}))}, pool: general(), say: "PodDisruptionBudget x/one allows no eviction",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := disrupt.Next(disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon, Nodes: tc.nodes, Pools: map[string]cluster.ManagedPool{"general": tc.pool}}}, nil)
			var got, said []string
			for _, c := range d.Commands {
				for _, n := range c.Remove {
					got = append(got, n.Node)
				}
			}
			for _, s := range d.Events {
				said = append(said, s.Event.Text)
				if s.Event.Reason != event.DisruptionBlocked && s.Event.Reason != event.Unconsolidatable {
					t.Errorf("event reason %s", s.Event.Reason)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
			if text := strings.Join(said, "\n"); !strings.Contains(text, tc.say) || tc.say == "" && text != "" {
				t.Errorf("said %q, want %q", text, tc.say)
			}
		})
	}
}

func many(n int) []cluster.ManagedNode {
	var out []cluster.ManagedNode
	for i := range n {
		out = append(out, node("n"+string(rune('0'+i/10))+string(rune('0'+i%10))))
	}
	return out
}

// The termination of a node has had its event, and a node that has only just come needs no explanation.
func TestTrust_B06_NodesThatComeAndGoAreNoNews(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node cluster.ManagedNode
		want int
	}{
		"it goes":                   {node: node("a", func(n *cluster.ManagedNode) { n.BeingRemoved = true })},
		"its instance ends":         {node: node("a", func(n *cluster.ManagedNode) { n.Terminating = true })},
		"it starts":                 {node: node("a", func(n *cluster.ManagedNode) { n.Initialized, n.Created = false, noon.Add(-time.Minute) })},
		"its first pods come":       {node: node("a", func(n *cluster.ManagedNode) { n.Nominated, n.Created = true, noon.Add(-time.Minute) })},
		"it starts for too long":    {node: node("a", func(n *cluster.ManagedNode) { n.Initialized, n.Created = false, noon.Add(-time.Hour) }), want: 1},
		"pods come after some time": {node: node("a", func(n *cluster.ManagedNode) { n.Nominated, n.Created = true, noon.Add(-time.Hour) }), want: 1},
		"it is marked to remain": {node: node("a", func(n *cluster.ManagedNode) {
			n.ProtectedBy, n.Created = karpv1.AnnotationDoNotDisrupt, noon.Add(-time.Minute)
		}), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := disrupt.Next(disrupt.View{DisruptionView: cluster.DisruptionView{Now: noon, Nodes: []cluster.ManagedNode{tc.node}, Pools: map[string]cluster.ManagedPool{"general": general()}}}, nil)
			if len(d.Events) != tc.want {
				t.Errorf("reported %v, want %d", d.Events, tc.want)
			}
		})
	}
}
