// Package execute carries out what was decided about NodeClaims: it turns the new nodes of plans into claims and
// writes them, and it deletes claims that have to go.
//
// It trusts no plan: pools are read again and limits checked before anything is written, and what no
// longer holds is left out with a reason. Every write may be repeated.
//
// Not here: what to buy (internal/solve), what becomes of a claim (internal/lifecycle), who has to go and why (those
// that call Remove). Enter at Claims and Remover.
package execute
