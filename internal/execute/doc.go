// Package execute carries out plans: it turns new nodes into NodeClaims and writes them.
//
// It trusts no plan: pools are read again and limits checked before anything is written, and what no
// longer holds is left out with a reason. Every write may be repeated.
//
// Not here: what to buy (internal/solve), what becomes of a claim (internal/lifecycle). Enter at Claims.
package execute
