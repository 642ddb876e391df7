package sim_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// Simulations allocate much and keep next to nothing. Without this a third of their time goes into collecting garbage.
func TestMain(m *testing.M) {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}
