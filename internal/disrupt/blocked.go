package disrupt

import "github.com/dovetail-sh/dovetail/internal/reason"

// Blocked counts the nodes that something keeps from being disrupted at all, by pool and by what that is.
// Those that already go are left out.
func Blocked(v View) map[string]map[reason.Code]int {
	out := map[string]map[reason.Code]int{}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		why := blocked(&v, n, graceful)
		if why == nil || why.Code == reason.NodeCommanded || why.Code == reason.NodeDeleting {
			continue
		}
		if out[n.Pool] == nil {
			out[n.Pool] = map[reason.Code]int{}
		}
		out[n.Pool][why.Code]++
	}
	return out
}
