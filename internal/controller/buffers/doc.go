// Package buffers keeps the virtual pods of CapacityBuffers up to date, and the status of these. It is the shell of
// internal/buffer.
//
// It watches CapacityBuffers, and the kinds of objects that they refer to from the first reference on, so that a cluster
// without buffers has no further watch. Every change, and every 30 seconds, it resolves all buffers and hands their pods to
// internal/store. A standby does so too; only the leader writes status. Until all buffers were resolved once nothing is
// planned, so that a restart removes no node that a buffer holds.
//
// Not here: where virtual pods are placed (provisioning, internal/provision).
package buffers
