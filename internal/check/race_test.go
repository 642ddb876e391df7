//go:build race

package check_test

// Under the race detector pools keep less of what is given back, and everything is bigger.
const memoryFactor = 4
