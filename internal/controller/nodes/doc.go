// Package nodes drains nodes and terminates their instances, and reboots unhealthy ones. It is the shell of internal/drain
// and internal/reboot.
//
// It watches Nodes that are being deleted, their pods, and claims that request a reboot. It writes taints, conditions and
// finalizers of Nodes and claims, evicts pods through the queue Evictions, and calls the cloud to terminate or reboot.
// Drains and ImpossibleBudgets report what a drain waits for; NodeHealth is repair as it was before disruption did it.
//
// Not here: why a node is removed. Start reading at NodeTermination.Reconcile, ClaimTermination.Terminate and Reboots.Reconcile.
package nodes
