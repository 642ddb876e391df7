// Package reboot decides what happens to a NodeClaim whose node is to be rebooted: the request, the
// drain, the call to the cloud, the wait for the node to come back, and what follows if it does not
// (v1.15-delta 5).
//
// It is pure: the caller brings the objects, the answer of the cloud and the time, and performs what
// comes back. Not here: that a node needs a reboot (internal/disrupt), how pods leave (internal/drain).
//
// Enter at Next; Request is how a reboot begins.
package reboot
