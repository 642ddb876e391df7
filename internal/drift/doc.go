// Package drift says whether a node still is what its NodePool requests, and has what a cloud needs to say the same of
// its node classes. Hashes over static fields have version strings of our own: under another
// controller's version a different hash would replace a whole fleet.
//
// Not here: node classes (each cloud hashes its own), and what is done about drift. Enter at Evaluate and PoolHash.
package drift
