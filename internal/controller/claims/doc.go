// Package claims takes NodeClaims from creation to a node that runs pods. It is the shell of internal/lifecycle.
//
// It watches NodeClaims, their Nodes and pods, and calls the cloud to launch. It writes labels, finalizers and status of
// claims, and labels and taints of Nodes. Small controllers beside it remove expired claims and those without an
// instance, report inconsistent ones, add labels that older versions did not write, and record when pods came or went.
//
// Not here: the removal of a claim that is being deleted, which Claims.Terminate does (nodes). Start reading at Claims.Reconcile.
package claims
