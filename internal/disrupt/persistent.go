package disrupt

import (
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// PersistentBlocks returns, by claim, what blocks disruption until a user acts. Temporary blocks, such as an
// expected pod or the age of a node, are left out. So are nodes that one of the methods may disrupt.
func PersistentBlocks(v View) map[string]reason.Reason {
	out := map[string]reason.Reason{}
	for i := range v.Nodes {
		n := v.Nodes[i]
		n.Nominated, n.ExpectsDisplaced, n.BackingOff, n.RepairBackingOff = false, false, false, false // temporary blocks would hide a persistent one
		if why := persistentBlock(&v, &n); why != nil {
			out[n.Claim] = *why
		}
	}
	return out
}

// persistentBlock returns what blocks the first method that considers a node. It returns nil if no method does,
// if one of them may disrupt the node, or if a block is temporary.
func persistentBlock(v *View, n *cluster.ManagedNode) (first *reason.Reason) {
	for _, why := range blocksByMethod(v, n) {
		if why == nil || !isPersistent(why.Code) {
			return nil
		}
		if first == nil {
			first = why
		}
	}
	return first
}

// blocksByMethod returns what blocks each method that considers a node.
func blocksByMethod(v *View, n *cluster.ManagedNode) (out []*reason.Reason) {
	pool := v.Pools[n.Pool]
	if v.Methods.Repair && v.Repairs != nil {
		if is, due := v.Repairs.mergeDueMatches(n, v.Now); due {
			out = append(out, unrepairable(v, n, is))
		}
	}
	if n.Drift != "" && (v.Methods.Static || !pool.Static) {
		out = append(out, blocked(v, n, eventual))
	}
	consolidated := !pool.Static && !pool.NeverConsolidate && (isEmpty(n) || pool.Policy != karpv1.ConsolidationWhenEmpty)
	if consolidated {
		out = append(out, blocked(v, n, graceful))
	}
	return out
}

// isPersistent reports whether a block remains until a user acts.
func isPersistent(code reason.Code) bool {
	switch code {
	case reason.NodeCommanded, reason.NodeRebooting, reason.NodeDeleting, reason.NodeStarting, reason.NodeNominated, reason.NodeRests:
		return false
	default:
		return true
	}
}
