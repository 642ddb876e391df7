// Package pack packs pods onto new nodes by price. Rules that are numbers become quotas: so many pods in a zone, so many
// on a host. A linear program says what a core or a gigabyte is worth, and nodes are filled by that measure. Pods whose
// rules are not numbers are left for internal/solve/exact.
//
// Not here: the rules themselves. Enter at Place; Filler fills nodes that exist by the same measure.
package pack
