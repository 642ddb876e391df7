// Package inspect explains a cluster: which nodes there are and what they cost, why a pod is pending, why
// a node stays, what would be done next.
//
// A Cluster is the view of one instant, with the settings of its decisions. It comes from the caches of the
// controller (internal/app) or from a snapshot (internal/snapshot), so that the controller, the command line, the terminal
// view and the web page give the same response. Every response is a value with stable JSON names.
//
// The decisions are those of internal/solve and internal/disrupt; nothing is decided here a second time. Not here: how the
// view is read, how responses are shown (internal/cli, internal/top, internal/console).
//
// Start reading at Cluster and FleetOf.
package inspect
