// Package flow holds the end-to-end tests: the real controller binary against a real API server and
// scheduler, an emulated AWS and its nodes, with the invariants checked all the time. Each test says
// what a user does and waits for what the user then sees.
//
// Everything is in the tests. One world serves all of them; a test has a NodePool, a node class and a
// namespace of its own, so that most run side by side. Those that kill the controller, or disturb
// everybody, run one after the other. Enter at newFlow in flow_test.go.
package flow
