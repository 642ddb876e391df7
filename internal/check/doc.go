// Package check verifies plans: does a Plan, or a Consolidation, obey every rule of scheduling? It is written from
// the specification alone, in simple and slow code. It shares nothing with the solver but the types of its results,
// so that a mistake would have to be made twice to go unnoticed.
//
// A rule that depends on the order of placements is broken only if no order obeys it, and violations that existed
// before the plan are not reported. Where the specification leaves two readings, a plan that obeys either is
// accepted; comments say where. Not here: how good a plan is, and how to make one (internal/solve). Start reading at Plan and
// Consolidation.
package check
