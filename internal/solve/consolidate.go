package solve

import "github.com/dovetail-sh/dovetail/internal/solve/consolidate"

// Consolidate proposes moves: nodes whose pods fit on others are deleted, nodes that can be replaced by cheaper ones
// are replaced. Every move that creates a node lowers the cost of the cluster, and every other move lowers the number
// of nodes. So a sequence of moves ends, and no cluster is reached twice.
//
// Two searches run: node by node, and for the whole cluster at once. The result that saves more is proposed, unless
// the step search, which deletes or replaces one node after another, saves more than either.
func Consolidate(q Question, stop func() bool) Consolidation {
	return consolidate.Search(q, Limits{Stop: stop})
}

// ConsolidateWithin is Consolidate with limits for its parts. If planning for the whole cluster is cut short and has
// found nothing, the step search still runs (decision 0025).
func ConsolidateWithin(q Question, l Limits) Consolidation { return consolidate.Search(q, l) }
