// Package pool decides what is written on a NodePool: whether it is valid, its hash, and the hashes
// of claims that another version stamped.
//
// It is pure: Next takes what was seen and returns what to write. Not here: limits, readiness of the
// node class, registration health.
package pool
