// Package batch collects requests that arrive close together and sends them as one.
//
// A request waits until its bucket got no other request for a moment, reaches its timeout, or is full; then all
// requests of the bucket are sent in one call and each caller gets its own response.
//
// Not here: what is sent and how a response is divided; that is the Run function of the caller. Start reading at New and
// Batcher.Do.
package batch
