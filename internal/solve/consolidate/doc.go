// Package consolidate searches for nodes that are not worth their price: moves that remove nodes and place their pods
// on the nodes that stay, or on new ones that cost less. It removes nodes one by one, plans for all candidates
// jointly, and searches swaps and steps; a forecast of what kube-scheduler does drops moves that would not last.
//
// Not here: which nodes are candidates, budgets, and when to move (internal/disrupt). Start reading at Search; decisions 0012
// and 0018 explain the design.
package consolidate
