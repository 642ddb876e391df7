// Package conformance tests what every cloud guarantees, whatever is behind it: RunDriver what the wiring takes from a
// driver.Driver, and Run what controllers take from the cloud.Provider that it connects. A cloud hands its environment to
// RunDriver in a test of its own; the simulated market of internal/sim and AWS both do.
//
// Not here: what only one cloud does. Start reading at RunDriver.
package conformance
