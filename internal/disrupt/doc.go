// Package disrupt decides on voluntary disruption: Marks keeps the conditions that make a claim a candidate, and Next selects
// nodes to remove within the budgets of their pools.
//
// Next takes a View, which is the cluster at one instant, and runs the methods of method.go in order: repair, emptiness, static
// drift, drift, consolidation. The first that adds a Command ends the pass. A Command is complete: nodes to remove, nodes to
// create, where their pods are expected. What is not done is in the Decision too: refusals with reasons, and events. What
// passes learn from each other (back-offs, moves that were reverted, searches that need no repetition) are values here that
// callers keep. Revalidate objects to commands whose nodes are held by now; Recover finds commands after a restart.
//
// Not here: carrying out commands (internal/disrupt/command), involuntary removal (internal/lifecycle), draining
// (internal/drain), the search for moves (internal/solve). Start reading at Next and Marks.
package disrupt
