// Package lp solves the small optimisation problems that packing leans on: Cover, a linear covering
// program with few rows and many columns; Bound, the resource program that says what the nodes of a
// plan must cost at least, with the price of each resource to each class of pods; and OneSize, the
// cheapest bins for equal pods. All three are deterministic functions of their arguments.
//
// Not here: pods, instance types, requirements, units; callers translate. Nor integer rounding of
// the linear programs: that is packing.
package lp
