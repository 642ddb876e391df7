// Package interruption decides what a notice of a cloud about an instance leads to: an event, an offering that is left
// out of plans, the deletion of the NodeClaim, so that its node is drained and replaced before the cloud takes it. To
// delete the NodeClaim is enough: pods of terminating claims are planned for at once.
//
// Start reading at State.Advance. internal/cloud/respond performs the effects on a cluster, internal/sim on its model. Not
// here: how notices are received and read, the drain, the replacement, the termination of the instance.
package interruption
