//go:build !race

package sim_test

const (
	racing = false
	few    = 300
)
