// Package drift says whether a node still is what its NodePool and EC2NodeClass ask for. So far it
// holds the hashes over the static fields, with version strings of our own: under another
// controller's version a different hash would replace a whole fleet.
//
// Not here: when drift is looked at, and what is done about it. Enter at PoolHash and ClassHash.
package drift
