// Package explain says why pods have no place. It asks the functions that placed the others, step by step, against the
// state that planning ended with, and reports the nearest miss of each pool and of the existing nodes.
//
// Not here: the texts of reasons (internal/reason), deciding anything. Enter at Unplaced.
package explain
