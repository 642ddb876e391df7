// Package random makes small planning problems for property tests and fuzzing: clusters with pools,
// offerings, DaemonSets, bound and pending pods, and every kind of constraint between them.
//
// All chance comes from a Source that the caller passes, so a failure can be replayed and shrunk.
// Not here: anything a controller needs; only tests and tools import this.
// Start reading at Problem and Question for clusters that make sense, at Wild for those that do not.
package random
