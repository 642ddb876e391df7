// Package provision holds what provisioning carries from one plan to the next, as plain values: the window that
// collects triggers, the nodes that were launched for pending pods, the pods that are expected on nodes, the
// partitions of plans that take too long, and the back-off of launches that fail.
//
// Each step takes the state, what was observed and the time, and returns what to do. internal/controller/provisioning
// turns that into API calls, events and metrics, and internal/sim into changes of its model. Nothing here is safe for
// concurrent use.
//
// Not here: where pods are placed (internal/solve) and how claims are written (internal/execute). Start reading at Window,
// State and LaunchBackoff.
package provision
