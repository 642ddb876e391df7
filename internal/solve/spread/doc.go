// Package spread divides the new spot nodes of a plan over spot pools, so that one reclaimed pool cannot take most of a
// workload. A spot pool is an instance type in a zone: what EC2 reclaims at once.
//
// A claim leaves the choice among its types and zones to the cloud, and equal claims tend to get the same answer. So it
// is not enough to plan different offers: what the claims list is divided. All spot pools are divided into cells, each
// a zone with every n-th type, by price. A node of a workload with at least [LeastNodes] spot nodes is narrowed to one
// cell, and a cell takes no more than a share of the pods of the workload. Cells are disjoint, so whatever the cloud
// chooses within them, no spot pool has more than the share.
//
// The bound is soft. All spot nodes of a plan together cost at most model.SpreadCostShare more than their cheapest
// offerings, and one of them at most model.SpreadNodeCostShare. Where no cell is left within the bound and the budget,
// the one that exceeds the bound least is used. Nothing is left unplaced, no node is added, and on-demand and reserved
// nodes stay as they are. Enter at Nodes.
package spread
