// Package directory finds the NodeClaims and Nodes of an instance, by the name that its cloud gave it.
//
// Not here: instances. Start reading at Index, then Cache.
package directory
