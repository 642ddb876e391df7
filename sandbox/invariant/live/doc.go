// Package live tests that the checker of the invariants sees what happens in a world: through watches,
// the proxy and the emulated account.
//
// Everything is in the tests. Not here: the invariants themselves, which sandbox/invariant holds.
package live
