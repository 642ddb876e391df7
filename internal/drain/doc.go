// Package drain decides how a node is terminated: which pods are evicted next, which pods to wait for and why, when
// volumes are detached, when the instance may be terminated and when the finalizers may be removed.
//
// Everything is pure: facts in, a step out, and the same facts give the same step. The limits are those of the user:
// PodDisruptionBudgets are left to the eviction API, do-not-disrupt is honoured until the deadline of the node. Not
// here: calls, work queues, clocks (internal/controller/nodes), and whether a node should be terminated at all
// (internal/disrupt).
//
// Start reading at Next for Nodes, NextClaim for NodeClaims and EvictionQueue for the pods that leave.
package drain
