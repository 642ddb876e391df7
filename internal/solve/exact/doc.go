// Package exact places pods exactly by the rules: requirements, taints, resources, ports, volumes, topology,
// minValues, limits and reservations. A State is a plan in the making; Bins are the planned nodes in it. Placements
// of the other packages are checked by the same functions, and PlaceAll places the pods that they leave.
//
// Not here: packing by price (internal/solve/pack), reasons for users (internal/solve/explain). Start reading at State.
package exact
