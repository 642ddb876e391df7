// Package pack packs pods onto new nodes by price. Rules that can be counted become quotas: so many pods in a zone,
// so many on a host. A linear program computes what a core or a gigabyte is worth, and nodes are filled by that
// measure. Pods whose rules cannot be counted are left for internal/solve/exact.
//
// Not here: the rules themselves. Start reading at Place; Filler fills existing nodes by the same measure.
package pack
