// Package seed makes property tests draw the same values in every run: a test that rolls dice fails for
// an author who changed something else. Every test package that uses rapid imports it for its effect.
//
// The seed is Fixed; -rapid.seed=N, or RAPID_SEED, takes another one. DOVETAIL_EXPLORE=1 takes a new one in
// every run, to find what Fixed does not. A property that does not hold prints the seed of the check that
// failed: -run='^TestName$' -rapid.seed=N makes it the first check of the next run. Rapid also keeps what
// failed in testdata/rapid, which git ignores, and tries it first until it is deleted.
//
// Not here: seeds of simulated clusters and of scenarios, which are arguments there. No program imports this.
package seed
