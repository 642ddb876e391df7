// Package execute carries out what was decided about NodeClaims: it turns the new nodes of plans into claims and
// writes them, and it deletes claims that have to be removed.
//
// It trusts no plan: pools are read again and limits checked before anything is written, and what no longer holds is
// left out with a reason. Every write is idempotent.
//
// Not here: what to launch (internal/solve), what happens to a claim (internal/lifecycle), which claims are removed
// and why (callers of Remove). Start reading at Claims and Remover.
package execute
