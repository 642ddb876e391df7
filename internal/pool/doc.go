// Package pool decides what is written on a NodePool: whether it is valid, whether its node class is
// ready, whether its nodes register, its hash, and the hashes of claims that another version stamped. It
// also decides how many claims a pool of fixed size lacks, and which of them are too many.
//
// It is pure: Next, Grow and Shrink take what was seen and return what to do. Not here: limits of pools that
// follow their pods, and counting what the nodes of a pool have.
//
// Start reading at Next, Grow and Shrink; Ring records how the last launches ended.
package pool
