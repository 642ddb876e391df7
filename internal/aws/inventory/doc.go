// Package inventory knows the EC2 instances of this cluster: it finds, lists and ends them.
//
// Reads by id are merged into few calls and kept in memory; List refreshes that memory and drops what is
// gone. Whether an instance is gone is only ever concluded from an answer that says so, never from a
// failed call, and an instance that has ended stays ended, in whatever order answers arrive.
//
// Not here: which instance belongs to which NodeClaim, and when one has to go. Enter at New.
package inventory
