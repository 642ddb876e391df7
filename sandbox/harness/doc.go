// Package harness is what tests on a real control plane have in common: it starts one for a test
// binary, gives each test its own namespace, waits on watches, and builds the programs that users have.
//
// A test binary calls Main from its TestMain. Only tests import it.
package harness
