// Package provisioning creates NodeClaims for pending pods. It is the shell of internal/provision and internal/solve.
//
// It watches nothing itself: internal/store wakes the Batcher, and a pass reads one snapshot of the store. It writes
// NodeClaims through internal/execute, events on pods and pools, metrics and the journal. LaunchBackoff is the back-off of
// launches that all planning loops share.
//
// Not here: what a plan is (internal/solve), and what becomes of a claim (claims). Start reading at Provisioner.Pass.
package provisioning
