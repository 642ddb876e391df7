// Package budget computes how many nodes of a NodePool may be in disruption at once: the strictest
// budget that is active and names the reason. A budget that cannot be read closes the whole pool. The
// number of nodes and the time are inputs.
//
// Not here: which nodes count, those in disruption already (V15-16), events, gauges; callers own those.
// Start reading at Limit; ParseNodes and ParseSchedule validate.
package budget
