package solve

import "github.com/dovetail-sh/dovetail/internal/solve/consolidate"

// Consolidate proposes moves: nodes whose pods fit on others are deleted, nodes that can be replaced
// by cheaper ones are replaced. The cost of the cluster falls with every move that creates a node, and the number of nodes
// with every other, so a sequence of them ends and no cluster is ever reached twice.
//
// Two ways are tried: node by node, and for the whole cluster at once. What saves more is proposed, unless the
// simple way saves more than either: deleting or replacing one node after another.
func Consolidate(q Question, stop func() bool) Consolidation {
	return consolidate.Search(q, Limits{Stop: stop})
}

// ConsolidateWithin is Consolidate with limits for its parts. If planning for the whole cluster is cut and has found
// nothing, the simple way has its turn all the same (decision 0025).
func ConsolidateWithin(q Question, l Limits) Consolidation { return consolidate.Search(q, l) }
