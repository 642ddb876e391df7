//go:build !race

package sim_test

// 2,000 seeds take three minutes of CPU time. They are the default, so that go test keeps the result while nothing
// changed: with a flag it would not.
const (
	racing = false
	seeds  = 2000
)
