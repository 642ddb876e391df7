// Package takeover swaps controllers in place, as users do: the real helm upgrades a release that is laid out like one of
// Karpenter's to the chart of this repository and back, installs, tests, rolls back and uninstalls it, with pods of the
// image run as processes and an emulated AWS behind them.
//
// There are only tests, one world for all of them, and they run one after the other: what a test leaves is what the next one
// finds. The objects of a cluster that Karpenter ran are written by karpenter_test.go as Karpenter leaves them; in its place
// runs the program predecessor, which holds its lease and does nothing. An hour passes by making everything an hour
// older, and the leader a new one: ages are read from objects, and a new process begins all its rounds. Enter at
// TestTakeOver.
package takeover
