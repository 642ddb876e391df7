// Package loop runs the work of controllers: how many objects at a time, how soon after a failure, at which interval, and
// with a heartbeat for the liveness probe.
//
// A reconciler takes DefaultOptions, or Options with waits of its own. Work that no object triggers is a Ticker, which runs
// at an interval, or Turns, which say when the next one is due and can be woken. RegisterPodQueue is for work on single
// pods that other controllers hand over. All of them count panics and go on.
//
// Not here: what is done in a turn, and anything that reads or writes objects (lookup, write).
package loop
