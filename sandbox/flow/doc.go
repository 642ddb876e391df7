// Package flow holds the end-to-end tests: the real controller binary against a real API server and
// scheduler, an emulated AWS and its nodes, with the invariants checked all the time. Each test says
// what a user does and waits for what the user then sees.
//
// Everything is in the tests. A few clusters serve all of them, each with an account and a controller of its own;
// a test has a NodePool, a node class and a namespace of its own, so that most share a cluster. What a test does
// to the others is its mode, see clusters_test.go. No test depends on the speed of the machine: it waits for what
// must come, with a deadline that only a defect misses. Start reading at newFlow in flow_test.go.
//
// What Helm, a rolling update and the cluster's DNS do to the controller's own pods is in package takeover.
package flow

// What cannot be tested here, by its number in the lists of failure modes, of seeds and of rules, with the reason:
//
//   - A04, A18: the emulated fleet never returns more, or other, than was requested. Unit tests do.
//   - A16, A17, B02, D03, D07, D10, D11, D13, D15, H10, H14: moments that only a unit test can hold still.
//   - B05: emulated addresses are not used again so soon. A unit test has a Node whose instance is gone.
//   - B13: emulated kubelets count pods as the real ones do. The density of all types is a unit test.
//   - C04, C06, H09, I12: loads that only the benchmarks bring (make bench-controller).
//   - N01, N02: 5,000 nodes are more than the sandbox has room for. Benchmarks of package store are a pass over
//     them (make bench-go BENCH=FM_N).
//   - D12: takes fifteen minutes. A unit test moves the clock.
//   - E10 to E12: catalogues that age. Package provider tests them against the same emulated AWS.
//   - E16: the controller ends at its start, which all tests need. Package provider tests it.
//   - E20: the emulated API never responds out of order.
//   - F11: the tests of package disrupt have a reservation that is full.
//   - P03, P05: prices are read every few hours, and at the start before a test could look. Package disrupt
//     has prices that jump, and packages disrupt and controller a leader that has none yet.
//   - H05: needs a second cluster on the same queue. Package interrupt has foreign messages.
//   - LC-05, LC-34, LC-45, LC-48, LC-61: these are not visible from outside. The spec of a claim cannot change, so its
//     generation never does; the rest is inside the controller. Unit tests.
//   - LC-09: the emulated EC2 knows the partition of an instance from the start, so that no hook is ever pending.
//   - LC-38: emulated instances send a message when they end, as those of EC2 do, and the claim goes by that. The
//     round that finds what no message reported comes every two minutes; unit tests have it.
//   - S-016, S-017, S-018, S-020: times that EC2 and real machines take; here these are emulated. What the
//     controller adds is measured by make bench-controller, and TestS_019_Timeline bounds the whole.
//   - S-026: EC2 gives notice of two minutes. The flows give 15 to 90 seconds, which is harder.
