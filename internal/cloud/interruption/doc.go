// Package interruption acts on what a cloud announces about instances: the NodeClaim is deleted, so that its node
// is drained and replaced before the cloud takes it. To delete the NodeClaim is enough: pods of claims that are
// being deleted are planned for at once.
//
// A cloud makes a Notice of each announcement, wherever it has it from, and hands it to the Actor. Not here: how
// announcements are received and read, the drain, the replacement, the end of the instance. Enter at Actor.Act.
package interruption
