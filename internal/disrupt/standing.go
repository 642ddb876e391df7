package disrupt

import (
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Standing returns what keeps nodes that a method would look at, by claim: what stays as it is until
// somebody does something about it. What passes by itself, such as a pod that is expected or the age of a
// node, is left out, and so are nodes that one of the methods may take.
func Standing(v View) map[string]reason.Reason {
	out := map[string]reason.Reason{}
	for i := range v.Nodes {
		n := v.Nodes[i]
		n.Nominated, n.Refuge, n.Tired, n.Untreated = false, false, false, false // these would hide it for a while
		if why := standing(&v, &n); why != nil {
			out[n.Claim] = *why
		}
	}
	return out
}

// standing is what keeps a node from the first method that wants it; nil if there is none, if one of them
// may have it, or if it passes.
func standing(v *View, n *Node) (first *reason.Reason) {
	for _, why := range refusals(v, n) {
		if why == nil || !lasts(why.Code) {
			return nil
		}
		if first == nil {
			first = why
		}
	}
	return first
}

// refusals says for each method that wants a node what keeps it from having it.
func refusals(v *View, n *Node) (out []*reason.Reason) {
	pool := v.Pools[n.Pool]
	if v.Methods.Repair && v.Repairs != nil {
		if is, due := v.Repairs.judge(n, v.Now); due {
			out = append(out, unrepairable(v, n, is))
		}
	}
	if n.Drift != "" && (v.Methods.Static || !pool.Static) {
		out = append(out, blocked(v, n, eventual))
	}
	consolidated := !pool.Static && !pool.Never && (n.empty() || pool.Policy != karpv1.ConsolidationWhenEmpty)
	if consolidated {
		out = append(out, blocked(v, n, graceful))
	}
	return out
}

// lasts reports whether what keeps a node stays until somebody does something about it.
func lasts(code reason.Code) bool {
	switch code {
	case reason.NodeCommanded, reason.NodeRebooting, reason.NodeDeleting, reason.NodeStarting, reason.NodeNominated, reason.NodeRests:
		return false
	default:
		return true
	}
}
