// Package spread divides the new spot nodes of a plan over spot pools, so that one reclaimed pool cannot take most of a
// workload. A spot pool is an instance type in a zone: what EC2 reclaims at once. Enter at Nodes.
//
// Equal claims tend to get the same spot pool, so that what the claims list is divided. Spot pools are divided into
// cells, each a zone with every n-th type, by price. A node of a workload with at least [LeastNodes] spot nodes is
// narrowed to one cell, and a cell takes no more than a share of the pods. Cells are disjoint: whatever EC2 chooses, no
// spot pool has more.
//
// The bound is soft: what spreading costs is limited (model.SpreadCostShare, model.SpreadNodeCostShare), and where that or
// cells do not suffice, the cell that exceeds the bound least is used. Not here: which nodes there are, which exact and pack
// decide; no node is added, and no pod moves.
package spread
