// Package cluster is one frozen view of a cluster: pools, nodes, pods and what they request, read once
// from the Kubernetes objects so that decisions never read those.
//
// A Snapshot is never written to; Without gives a cheap overlay of it. Equal pods share one Shape.
// Planning and disruption share one model. Node, Pod and Pool are what planning needs; ManagedNode, ManagedPod and
// ManagedPool embed them and add only what disruption alone depends on. Two facts that are alike and not the same, as
// Node.Deleting and ManagedNode.BeingRemoved, have two names, and the comment of the second says how they differ.
//
// Not here: watching (internal/store), deciding (internal/solve). Start reading at Snapshot, DisruptionView and Reader.
package cluster
