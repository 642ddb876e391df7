// Package store is the one in-memory state of the cluster: fed by watches, read by decisions as snapshots.
//
// It keeps pointers to the objects of the informers, which are stripped of unused fields, and for each node what
// decisions see of it, recomputed only when it changed. It also holds state that no object contains: claims that were
// just created, pods that were planned for a node, nodes that pods are expected on.
//
// Not here: decisions, writes. Start reading at New, Watch and Snapshot.
package store
