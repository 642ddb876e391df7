// Package reboot decides what happens to a NodeClaim whose node is to be rebooted: the request, the drain, the call
// to the cloud, the wait for the node to become ready again, and what follows if it does not (v1.15-delta 5).
//
// It is pure: the caller provides the objects, the response of the cloud and the time, and performs what is returned.
// Not here: that a node needs a reboot (internal/disrupt), how pods are evicted (internal/drain).
//
// Start reading at Next; Request is how a reboot begins.
package reboot
