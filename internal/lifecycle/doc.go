// Package lifecycle decides what happens to a NodeClaim from its creation until its deletion:
// launch, registration, initialization, timeouts (nodeclaim-lifecycle 2–5), and the smaller rules
// about claims and their nodes: expiry, collection, consistency, hydration, pod events.
//
// It is pure: the caller brings the objects and the time and performs what comes back. Not here: the
// end of a claim and its node (internal/drain).
//
// Start reading at Next.
package lifecycle
