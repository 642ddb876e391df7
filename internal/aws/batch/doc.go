// Package batch collects requests that arrive close together and sends them as one.
//
// A request waits until its bucket was quiet for a moment, is as old as allowed, or is full; then all
// requests of the bucket go out in one call and each caller gets its own answer.
//
// Not here: what is sent and how an answer is divided; that is the Run function of the caller.
// Enter at New and Batcher.Do.
package batch
