// Package conformance tests what every cloud.Provider guarantees, whatever is behind it. A cloud hands an Environment to Run
// in a test of its own; the simulated market of internal/sim and AWS both do.
//
// Not here: what only one cloud does. Start reading at Run.
package conformance
