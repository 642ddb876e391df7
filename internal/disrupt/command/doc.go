// Package command is the life of a disruption command after its decision: hold the nodes, validate again,
// order replacements, wait for them, delete the nodes or give them back, and resume after a restart.
//
// Each step takes the state and what was observed, changes the state, and returns effects as values. Callers
// perform effects and report back: internal/controller/disruption with API calls, events and metrics, internal/sim on
// its model. So the simulator tests the protocol that ships.
//
// Not here: what to disrupt (internal/disrupt), clients, clocks, locks. Start reading at Queue.
package command
