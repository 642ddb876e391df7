// Package launch buys instances: it chooses what to ask EC2 for, keeps the launch templates that takes,
// sends fleets, and reads the answers.
//
// What is bought is decided in pure functions (filter.go, choose.go, template.go, fleet.go); the shells
// around them keep templates, free addresses of subnets that launches in flight will take, and the
// tokens that make launches idempotent. When EC2 has no capacity for what was asked, the rest of what
// the claim allows is asked for at once (S-004).
//
// Labels and taints of a node at its first boot are decided here (boot.go), not in internal/aws/userdata.
// Not here: which types a claim allows (internal/solve), what instances exist (internal/aws/inventory).
//
// Enter at New and Launcher.Launch.
package launch
