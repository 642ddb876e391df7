// Package exact places pods exactly as the rules say: requirements, taints, resources, ports, volumes, topology,
// minValues, limits and reservations. A State is a plan in the making; Bins are the planned nodes in it. What other ways
// of planning place is checked by the same functions, and PlaceAll finishes what they leave.
//
// Not here: packing by price (internal/solve/pack), reasons for people (internal/solve/explain). Enter at State.
package exact
