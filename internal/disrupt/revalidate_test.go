package disrupt

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Disruption 16, FM D01: what is validated again between the taint and the order of replacements.
func TestRevalidate(t *testing.T) {
	t.Parallel()
	const web = "default/web"
	known := cluster.ManagedPod{Pod: podOf(web, 1), Moves: true}
	type now struct {
		node func(n *cluster.ManagedNode)
		pool func(p *cluster.ManagedPool)
		live []cluster.ManagedPod
		gone bool
	}
	tests := map[string]struct {
		reason karpv1.DisruptionReason
		then   func(n *cluster.ManagedNode) // how it was when it was decided
		now    now
		want   string
	}{
		"nothing changed":                 {karpv1.ReasonUnderutilized, nil, now{live: []cluster.ManagedPod{known}}, ""},
		"the claim is gone":               {karpv1.ReasonUnderutilized, nil, now{gone: true}, "churn: it is gone"},
		"it goes already":                 {karpv1.ReasonDrifted, nil, now{node: func(n *cluster.ManagedNode) { n.BeingRemoved = true }}, "churn: it is already on its way out"},
		"it reboots":                      {karpv1.ReasonUnhealthy, nil, now{node: func(n *cluster.ManagedNode) { n.Rebooting = true }}, "churn: it is rebooting"},
		"nominated":                       {karpv1.ReasonUnderutilized, nil, now{node: func(n *cluster.ManagedNode) { n.Nominated = true }}, "budget: a pending pod is expected on it"},
		"a pod of another node may come":  {karpv1.ReasonDrifted, nil, now{node: func(n *cluster.ManagedNode) { n.ExpectsDisplaced = true }}, "budget: a pending pod is expected on it"},
		"repair does not wait for it":     {karpv1.ReasonUnhealthy, nil, now{node: func(n *cluster.ManagedNode) { n.ExpectsDisplaced = true }}, ""},
		"nominated, and that was known":   {karpv1.ReasonUnhealthy, func(n *cluster.ManagedNode) { n.Nominated = true }, now{node: func(n *cluster.ManagedNode) { n.Nominated = true }}, ""},
		"protected":                       {karpv1.ReasonDrifted, nil, now{node: func(n *cluster.ManagedNode) { n.ProtectedBy = karpv1.AnnotationDoNotDisrupt }}, "churn: it carries annotation karpenter.sh/do-not-disrupt"},
		"protected, repair":               {karpv1.ReasonUnhealthy, nil, now{node: func(n *cluster.ManagedNode) { n.ProtectedBy = karpv1.AnnotationDoNotDisrupt }}, ""},
		"not to be repaired":              {karpv1.ReasonUnhealthy, nil, now{node: func(n *cluster.ManagedNode) { n.DoNotRepair = true }}, "churn: it carries annotation karpenter.sh/do-not-repair"},
		"FM K20: consolidateAfter Never":  {karpv1.ReasonUnderutilized, nil, now{pool: func(p *cluster.ManagedPool) { p.NeverConsolidate = true }}, "churn: it is not consolidatable any more"},
		"Never does not matter to drift":  {karpv1.ReasonDrifted, nil, now{pool: func(p *cluster.ManagedPool) { p.NeverConsolidate = true }}, ""},
		"a pod came":                      {karpv1.ReasonUnderutilized, nil, now{live: []cluster.ManagedPod{known, {Pod: podOf("default/new", 1), Moves: true}}}, "churn: pod default/new came to it"},
		"a pod came, drift":               {karpv1.ReasonDrifted, nil, now{live: []cluster.ManagedPod{known, {Pod: podOf("default/new", 1), Moves: true}}}, "churn: pod default/new came to it"},
		"a pod came, repair":              {karpv1.ReasonUnhealthy, nil, now{live: []cluster.ManagedPod{known, {Pod: podOf("default/new", 1), Moves: true}}}, ""},
		"a pod came that need not move":   {karpv1.ReasonUnderutilized, nil, now{live: []cluster.ManagedPod{known, {Pod: podOf("kube-system/agent", 1)}}}, ""},
		"a pod came that costs nothing":   {karpv1.ReasonEmpty, nil, now{live: []cluster.ManagedPod{{Pod: podOf("default/cheap", -1), Moves: true}}}, ""},
		"a pod of a static pool came":     {karpv1.ReasonDrifted, nil, now{pool: func(p *cluster.ManagedPool) { p.Static = true }, live: []cluster.ManagedPod{{Pod: podOf("default/new", 1), Moves: true}}}, ""},
		"a pod got do-not-disrupt":        {karpv1.ReasonUnderutilized, nil, now{live: []cluster.ManagedPod{{Pod: podOf(web, 0), Moves: true, ProtectedBy: karpv1.AnnotationDoNotDisrupt}}}, "churn: pod default/web carries annotation karpenter.sh/do-not-disrupt"},
		"the same, drift without TGP":     {karpv1.ReasonDrifted, nil, now{live: []cluster.ManagedPod{{Pod: podOf(web, 0), Moves: true, ProtectedBy: karpv1.AnnotationDoNotDisrupt}}}, "churn: pod default/web carries annotation karpenter.sh/do-not-disrupt"},
		"the same, drift with TGP":        {karpv1.ReasonDrifted, nil, now{node: func(n *cluster.ManagedNode) { n.Bounded = true }, live: []cluster.ManagedPod{{Pod: podOf(web, 0), Moves: true, ProtectedBy: karpv1.AnnotationDoNotDisrupt}}}, ""},
		"a budget of pods blocks now":     {karpv1.ReasonUnderutilized, nil, now{node: func(n *cluster.ManagedNode) { n.Pods[0].Blocked, n.Pods[0].Budgets = true, []string{"default/b"} }}, "churn: PodDisruptionBudget default/b allows no eviction of pod default/web"},
		"a budget that blocked all along": {karpv1.ReasonUnderutilized, func(n *cluster.ManagedNode) { n.Pods[0].Blocked = true }, now{node: func(n *cluster.ManagedNode) { n.Pods[0].Blocked = true }}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := func(change func(*cluster.ManagedNode)) cluster.ManagedNode {
				n := cluster.ManagedNode{Node: cluster.Node{Name: "n", Claim: "c", Pool: "p", Initialized: true}, Pods: []cluster.ManagedPod{{Pod: podOf(web, 1), Moves: true}}}
				if change != nil {
					change(&n)
				}
				return n
			}
			pool := cluster.ManagedPool{Pool: cluster.Pool{Name: "p"}}
			decided := View{DisruptionView: cluster.DisruptionView{Nodes: []cluster.ManagedNode{node(tc.then)}, Pools: map[string]cluster.ManagedPool{"p": pool}}}
			if tc.now.pool != nil {
				tc.now.pool(&pool)
			}
			fresh := View{DisruptionView: cluster.DisruptionView{Nodes: []cluster.ManagedNode{node(tc.now.node)}, Pools: map[string]cluster.ManagedPool{"p": pool}}}
			if tc.now.gone {
				fresh.Nodes = nil
			}
			c := Command{Reason: tc.reason, Remove: []Candidate{{Node: "n", Claim: "c", Pods: []string{web}}}}
			got := ""
			for _, o := range Revalidate(c, decided, fresh, map[string][]cluster.ManagedPod{"n": tc.now.live}) {
				got += o.Category + ": " + o.Text
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("objections (-want +got):\n%s", diff)
			}
		})
	}
}

// A node that pods were to go to and that goes itself ends the move.
func TestRevalidateLooksAtDestinations(t *testing.T) {
	t.Parallel()
	c := Command{Reason: karpv1.ReasonUnderutilized, Remove: []Candidate{{Node: "n", Claim: "c"}}, Bind: []solve.Bind{{Node: "to"}}}
	view := View{DisruptionView: cluster.DisruptionView{Nodes: []cluster.ManagedNode{{Node: cluster.Node{Name: "n", Claim: "c"}}}, Cluster: &cluster.Snapshot{Nodes: []cluster.Node{{Name: "n"}, {Name: "to"}}}}}
	if got := Revalidate(c, view, view, nil); len(got) != 0 {
		t.Errorf("objections %+v, want none", got)
	}
	fresh := view
	fresh.Cluster = &cluster.Snapshot{Nodes: []cluster.Node{{Name: "n"}, {Name: "to", Deleting: true}}}
	if got := Revalidate(c, view, fresh, nil); len(got) != 1 || got[0].Category != Scheduling {
		t.Errorf("objections %+v, want one about the terminating node", got)
	}
}
