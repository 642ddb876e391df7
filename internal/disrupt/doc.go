// Package disrupt decides on voluntary disruption. It maintains the conditions that make a claim a candidate, and
// selects nodes to remove within the budgets of their pools.
//
// A decision is a list of complete commands, and the events about nodes that are kept. Executing the commands is the
// task of internal/controller/disruption, involuntary removal that of internal/lifecycle, and draining that of
// internal/drain.
//
// Start at Next and Marks.
package disrupt
