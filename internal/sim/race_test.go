//go:build race

package sim_test

// Under the race detector everything takes ten times as long; a run has one goroutine anyway.
const (
	racing = true
	seeds  = 20
)
