package disrupt

import (
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Blockers returns all that keeps a node from being removed now: what a decision names, which is the first of them, and
// what would keep the node once that is gone.
func Blockers(v *View, n *cluster.ManagedNode) []reason.Reason {
	var all []reason.Reason
	eachBlock(v, n, graceful, func(r reason.Reason) bool {
		all = append(all, r)
		return true
	})
	add := func(applies bool, code reason.Code, have, want string) {
		if applies {
			all = append(all, reason.Reason{Code: code, Subject: "node/" + n.Name, Have: have, Want: want})
		}
	}
	pool, known := v.Pools[n.Pool]
	if !known || n.BeingRemoved || n.Terminating || n.Commanded {
		return all
	}
	cause := causeOf(n)
	switch {
	case n.Drift != "": // drift looks at none of the others
		cause = karpv1.ReasonDrifted
	case pool.Static:
		return all
	case pool.NeverConsolidate:
		add(true, reason.ConsolidationOff, pool.Name, "")
	default:
		add(n.Settling, reason.NodeSettling, "", "")
		add(!isEmpty(n) && pool.Policy == karpv1.ConsolidationWhenEmpty, reason.EmptyOnly, pool.Name, "")
	}
	add(Remaining(*v, cause, nil)[n.Pool] == 0, reason.BudgetSpent, pool.Name, string(cause))
	return all
}

// PodBlockers returns what prevents the eviction of a pod of a node now.
func PodBlockers(n *cluster.ManagedNode, p *cluster.ManagedPod) []reason.Reason {
	var all []reason.Reason
	if why, held := heldByAnnotation(n, p); held {
		all = append(all, why)
	}
	if why, held := heldByBudget(n, p); held {
		all = append(all, why)
	}
	return all
}
