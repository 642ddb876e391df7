package disrupt

import "github.com/dovetail-sh/dovetail/internal/reason"

// Blocked counts the nodes whose disruption is blocked, by pool and reason. Nodes that are being deleted or are
// part of a command are left out.
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
