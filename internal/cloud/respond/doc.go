// Package respond performs what internal/interruption decides about the notices of a cloud: it finds the NodeClaims and
// Nodes of an instance, emits events on them, marks capacity unavailable and deletes claims.
//
// A cloud makes an interruption.Notice of each announcement, wherever it has it from, and hands it to the Actor. Enter
// at Actor.Act.
package respond
