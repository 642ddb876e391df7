// Package devices says which nodes can serve ResourceClaims: it is what planning knows of dynamic resource allocation.
//
// The search itself is kube-scheduler's (k8s.io/dynamic-resource-allocation/structured). This package gives it its input,
// in an order that makes its result repeatable, and keeps account of what the plan in the making allocates. A claim is
// served by published devices of an initialized node, or by a template: what nodes of an instance type publish, else what
// the cloud says. A template stands for nodes that are launching or not initialized, and ties the claim to one of them.
// An Inventory is read from a snapshot and never changes; a Ledger belongs to one plan in the making.
//
// Not here: watching (internal/store), which other rules a pod has (internal/solve). Start reading at New and Ledger.
package devices
