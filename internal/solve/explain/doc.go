// Package explain says why pods are unschedulable. It calls the functions that placed the others, step by step, on
// the final state of planning, and reports the nearest miss of each pool and of the existing nodes.
//
// Not here: the texts of reasons (internal/reason), deciding anything. Start reading at Unplaced.
package explain
