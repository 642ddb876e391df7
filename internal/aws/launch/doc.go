// Package launch launches instances: it chooses what to request from EC2, maintains the launch templates for it,
// sends fleets, and reads the responses.
//
// What is launched is decided in pure functions (filter.go, choose.go, template.go, fleet.go). The shells around them
// hold state: templates, subnet addresses reserved for launches in flight, and the tokens that make launches
// idempotent. If EC2 has insufficient capacity for a request, the remaining offerings that the claim allows are
// requested at once (S-004).
//
// Labels and taints of a node at its first boot are decided here (boot.go), not in internal/aws/userdata. Not here:
// which types a claim allows (internal/solve), what instances exist (internal/aws/inventory).
//
// Start reading at New and Launcher.Launch.
package launch
