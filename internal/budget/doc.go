// Package budget computes how many nodes of a NodePool may be disrupted now: the strictest budget
// that is active and names the reason, less what is being disrupted already. A budget that cannot
// be read closes the whole pool. Numbers of nodes and the time are inputs.
//
// Not here: which nodes count (V15-16), events, gauges; callers own those.
// Enter at Allowed; Limit is the same before subtracting; ParseNodes and ParseSchedule validate.
package budget
