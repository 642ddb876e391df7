// Package write holds how controllers write: patches of NodeClaims that leave out the spec, optimistic locks, the versions
// that were written and that the cache may not show yet, the removal of a claim with its Nodes, and the interfaces
// through which events are emitted.
//
// A controller that decides on a NodeClaim keeps Versions: it records its writes there, and reads the claim through it, so
// that nothing is decided on a cache that lacks a write. Patches fail with a conflict if another client wrote the object first; IsStale recognizes that.
//
// Not here: when something is written, which a decision package says, and the creation of claims (internal/execute).
package write
