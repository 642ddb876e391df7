// Package pool decides what is written on a NodePool: whether it is valid, whether its node class is
// ready, whether its nodes register, its hash, and the hashes of claims that another version stamped.
//
// It is pure: Next takes what was seen and returns what to write. Not here: limits, and counting what
// the nodes of a pool have.
//
// Enter at Next; Ring remembers how the last launches ended.
package pool
