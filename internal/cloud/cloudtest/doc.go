// Package cloudtest has what the tests of several clouds need: a cluster whose NodeClaims and Nodes are found by instance, and
// which records what is done to them, and a manager without an API server.
//
// Not here: clouds (each test has its own), and anything that a binary uses. Enter at NewCluster.
package cloudtest
