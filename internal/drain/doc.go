// Package drain decides how a node comes to its end: which pods leave next, whom to wait for and why,
// when volumes are off, when the instance may be ended and when the finalizers may go.
//
// Everything is pure: facts in, a step out, and asking again with the same facts gives the same step.
// The limits are those of the user: PodDisruptionBudgets are left to the eviction API, do-not-disrupt
// is kept until the deadline of the node. Not here: calls, queues, clocks (internal/controller/nodes), and
// whether a node should end at all (internal/disrupt).
//
// Enter at Next for Nodes, NextClaim for NodeClaims and Limit.Act for one pod in the eviction queue.
package drain
