package disrupt

import (
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// PersistentBlocks returns what keeps nodes that a method would look at, by claim: what stays as it is until
// somebody does something about it. What passes by itself, such as a pod that is expected or the age of a
// node, is left out, and so are nodes that one of the methods may take.
func PersistentBlocks(v View) map[string]reason.Reason {
	out := map[string]reason.Reason{}
	for i := range v.Nodes {
		n := v.Nodes[i]
		n.Nominated, n.ExpectsDisplaced, n.BackingOff, n.RepairBackingOff = false, false, false, false // these would hide it for a while
		if why := persistentBlock(&v, &n); why != nil {
			out[n.Claim] = *why
		}
	}
	return out
}

// persistentBlock is what keeps a node from the first method that wants it; nil if there is none, if one of them
// may have it, or if it passes.
func persistentBlock(v *View, n *Node) (first *reason.Reason) {
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

// blocksByMethod says for each method that wants a node what keeps it from having it.
func blocksByMethod(v *View, n *Node) (out []*reason.Reason) {
	pool := v.Pools[n.Pool]
	if v.Methods.Repair && v.Repairs != nil {
		if is, due := v.Repairs.mergeDueMatches(n, v.Now); due {
			out = append(out, unrepairable(v, n, is))
		}
	}
	if n.Drift != "" && (v.Methods.Static || !pool.Static) {
		out = append(out, blocked(v, n, eventual))
	}
	consolidated := !pool.Static && !pool.NeverConsolidate && (n.empty() || pool.Policy != karpv1.ConsolidationWhenEmpty)
	if consolidated {
		out = append(out, blocked(v, n, graceful))
	}
	return out
}

// isPersistent reports whether what keeps a node stays until somebody does something about it.
func isPersistent(code reason.Code) bool {
	switch code {
	case reason.NodeCommanded, reason.NodeRebooting, reason.NodeDeleting, reason.NodeStarting, reason.NodeNominated, reason.NodeRests:
		return false
	default:
		return true
	}
}
