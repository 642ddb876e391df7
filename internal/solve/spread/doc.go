// Package spread divides the new spot nodes of a plan over spot pools, so that one reclaimed pool cannot take most of a
// workload. A spot pool is an instance type in a zone: what EC2 reclaims at once. Enter at Plan, or at Nodes to leave
// pods where they are.
//
// Equal claims tend to get the same spot pool, so that what the claims list is divided. Spot pools are divided into
// cells, each a zone with every n-th type, by price. A node of a workload with at least [LeastNodes] spot nodes is
// narrowed to one cell, and a cell takes no more than a share of the pods. Where that costs too much, pods are regrouped
// onto nodes of other sizes. The bound is soft: what spreading costs is limited (model.Policy.SpotCost).
package spread
