// Package inventory knows the EC2 instances of this cluster: it finds, lists and terminates them.
//
// Reads by id are merged into few calls and cached; List refreshes the cache and drops instances that no longer
// exist. Only a response that says so proves that an instance is terminated, never a failed call. A terminated
// instance stays terminated, in whatever order responses arrive.
//
// Not here: which instance belongs to which NodeClaim, and when one has to be terminated. Start reading at New.
package inventory
