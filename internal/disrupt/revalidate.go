package disrupt

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Why a command is cancelled when it is revalidated (disruption 16).
const (
	Churn      = "churn"      // the state of a node changed
	Budget     = "budget"     // a budget was used up meanwhile, or a pending pod is expected on a node
	Scheduling = "scheduling" // the pods no longer fit the nodes they were planned for
)

// NewLivePod reads a pod on a node of a command as the API server has it now. Of what planning depends on, it only has
// the key and the cost of the eviction. costManaged is as in cluster.EvictCost.
func NewLivePod(p *corev1.Pod, costManaged bool, now time.Time) cluster.ManagedPod {
	key := cluster.PodKey{Namespace: p.Namespace, Name: p.Name}
	return cluster.NewManagedPod(cluster.Pod{Key: key, EvictCost: cluster.EvictCost(p, costManaged)}, p, now)
}

// Objection is why a node of a command is kept.
type Objection struct {
	Candidate

	Category string
	Text     string
}

// Revalidate checks a command again once its nodes are tainted, so that no further pod can be scheduled to
// them. fresh must be newer than the taints, and live is what the API server lists for each node. A fact
// that was already known at the decision is no objection. If there is any objection, the whole command must
// be cancelled; an Empty command only loses the nodes that are named.
func Revalidate(c Command, decided, fresh View, live map[string][]cluster.ManagedPod) []Objection {
	then, now := byClaim(decided.Nodes), byClaim(fresh.Nodes)
	var out []Objection
	for i := range c.Remove {
		candidate := &c.Remove[i]
		n := now[candidate.Claim]
		if n == nil {
			out = append(out, Objection{*candidate, Churn, "it is gone"})
			continue
		}
		var known []concern
		if was := then[candidate.Claim]; was != nil {
			known = c.findConcerns(candidate, was, decided.Pools[was.Pool], was.Pods)
		}
		for _, found := range c.findConcerns(candidate, n, fresh.Pools[n.Pool], live[candidate.Node]) {
			if !slices.Contains(known, found) {
				out = append(out, Objection{*candidate, found.category, found.text})
				break
			}
		}
	}
	if where := c.findLostTarget(fresh); where != "" && len(out) == 0 {
		out = append(out, Objection{c.Remove[0], Scheduling, "node " + where + " no longer takes pods"})
	}
	return out
}

func byClaim(nodes []cluster.ManagedNode) map[string]*cluster.ManagedNode {
	out := make(map[string]*cluster.ManagedNode, len(nodes))
	for i := range nodes {
		out[nodes[i].Claim] = &nodes[i]
	}
	return out
}

// concern is a reason against removing a node.
type concern struct{ category, text string }

func (c *Command) findConcerns(candidate *Candidate, n *cluster.ManagedNode, pool cluster.ManagedPool, live []cluster.ManagedPod) []concern {
	var out []concern
	note := func(holds bool, category, text string) {
		if holds {
			out = append(out, concern{category, text})
		}
	}
	repair := c.Reason == karpv1.ReasonUnhealthy
	consolidation := c.Reason == karpv1.ReasonEmpty || c.Reason == karpv1.ReasonUnderutilized
	note(n.BeingRemoved, Churn, "it is already on its way out")
	note(n.Rebooting, Churn, "it is rebooting")
	note(n.Nominated || n.ExpectsDisplaced && !repair, Budget, "a pending pod is expected on it")
	note(repair && n.DoNotRepair, Churn, "it carries annotation "+karpv1.AnnotationDoNotRepair)
	note(!repair && n.ProtectedBy != "", Churn, "it carries annotation "+n.ProtectedBy)
	note(!repair && pool.ProtectedBy != "", Churn, "NodePool "+n.Pool+" carries annotation "+pool.ProtectedBy)
	note(!repair && n.Leading, Churn, reason.Reason{Code: reason.LeaderAlone}.Text())
	note(consolidation && (pool.NeverConsolidate || n.Settling), Churn, "it is not consolidatable any more")
	if !repair && !pool.Static { // a node of a static pool is replaced by one like it, whatever runs on it
		for i := range live {
			p, name := &live[i], live[i].Key.String()
			known := slices.Contains(candidate.Pods, name) || c.Reason == karpv1.ReasonEmpty && p.EvictCost <= 0
			note(p.Moves && !known, Churn, "pod "+name+" came to it")
		}
	}
	if consolidation || c.Reason == karpv1.ReasonDrifted && !n.Bounded {
		for i := range live {
			p := &live[i]
			note(p.ProtectedBy != "", Churn, "pod "+p.Key.String()+" carries annotation "+p.ProtectedBy)
		}
		for i := range n.Pods {
			p := &n.Pods[i]
			note(p.Blocked || len(p.Budgets) > 1, Churn, "PodDisruptionBudget "+strings.Join(p.Budgets, ", ")+" allows no eviction of pod "+p.Key.String())
		}
	}
	return out
}

// findLostTarget returns a target node of the command that no longer accepts pods; empty if there is none.
func (c *Command) findLostTarget(fresh View) string {
	if fresh.Cluster == nil {
		return ""
	}
	takes := make(map[string]bool, len(fresh.Cluster.Nodes))
	for i := range fresh.Cluster.Nodes {
		takes[fresh.Cluster.Nodes[i].Name] = !fresh.Cluster.Nodes[i].Deleting
	}
	for _, b := range c.Bind {
		if !takes[b.Node] {
			return b.Node
		}
	}
	return ""
}

// PlacePendingPods returns the cluster with its pending and displaced pods placed on existing nodes; nil if
// stop ended the search.
func PlacePendingPods(v View, stop func() bool) *cluster.Snapshot {
	return newPlanningState(&v, stop).snapshot()
}
