// Package collect ends instances that no NodeClaim has: their process died before it wrote them down, or a user
// removed the claim by force.
//
// Not here: claims without instance (internal/lifecycle), and the search of claims for their instance
// (internal/cloud/adopt). Start reading at Collector.
package collect
