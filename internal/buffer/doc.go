// Package buffer decides what a CapacityBuffer requests: how many pods, what these virtual pods look like, and what
// the conditions of the buffer say. Virtual pods exist only in memory. Planning and disruption place them after all real
// pods, so that nodes are launched and kept for them.
//
// Start reading at Ours for whether a buffer is ours, at Resolve for its pods, at Placements for what a plan means for them, at
// Status for what is written to the buffer, and at Passes for when buffers are resolved and until when plans wait for that.
//
// Not here: how pods are placed (internal/solve), in which order (internal/provision), and where buffers and templates are
// read and written (internal/controller/buffers).
package buffer
