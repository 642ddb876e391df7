// Package check judges plans: does a Plan, or a Consolidation, obey every rule of scheduling? It is
// written from the specification alone, slowly and plainly, and shares nothing with the solver but
// the types of its answers, so that a mistake would have to be made twice to go unseen.
//
// A rule that only an order of placing can decide is broken only if no order obeys it, and what was
// wrong before the plan is not held against it. Where the specification leaves two readings, a plan
// that obeys either is accepted; each such place says so.
// Not here: how good a plan is, and how to make one (internal/solve). Enter at Plan and Consolidation.
package check
