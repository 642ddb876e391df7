// Package store is the one memory of the cluster: fed by watches, read by decisions as snapshots.
//
// It keeps pointers to the objects of the informers, which are stripped of what nobody looks at, and for
// each node what decisions see of it, read anew only when it changed. What no object says is here too:
// claims that were just created, pods that were planned for a node, nodes that pods are expected on.
//
// Not here: decisions, writes. Enter at New, Watch and Snapshot.
package store
