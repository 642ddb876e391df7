// Package directory finds the NodeClaims and Nodes of an instance, by the name that its cloud gave it.
//
// Not here: instances. Enter at Index, then Cache.
package directory
