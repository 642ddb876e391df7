// Package devices says which nodes can serve ResourceClaims: it is what planning knows of dynamic resource allocation.
//
// The search itself is the allocator of kube-scheduler (k8s.io/dynamic-resource-allocation/structured), which evaluates
// classes, CEL selectors and constraints. This package gives it its input, in an order that makes its answer
// repeatable, and keeps account of what the plan in the making has allocated.
//
// An Inventory is read from a snapshot and never changes. A Ledger belongs to one plan in the making. A claim is served
// in one of these ways:
//
//   - It is allocated already: then the node must match the node selector of the allocation.
//   - By published devices: those of the node, if it is initialized, and those that several nodes can reach.
//   - By a template, on a node that is to be launched or not initialized yet: what nodes of the instance type publish,
//     else what the cloud says. The claim, and so every pod that uses it, is tied to that node.
//
// What a node publishes before it is initialized does not count: its template stands for it. Claims of pods that leave
// their node are allocated anew, since the devices stay behind.
//
// Enter at New and Ledger.Try.
package devices
