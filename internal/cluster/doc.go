// Package cluster is one frozen view of a cluster: pools, nodes, pods and what they ask for, read once
// from the Kubernetes objects so that decisions never look at those.
//
// A Snapshot is never written to; Without gives a cheap overlay of it. Equal pods share one Shape.
// Not here: watching (internal/store), deciding (internal/solve). Enter at Snapshot and Reader.
package cluster
