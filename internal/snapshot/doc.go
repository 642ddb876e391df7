// Package snapshot keeps a cluster as a file: its objects, the instance types that its NodePools could launch, and the
// settings that decisions depend on. What is decided about a File is the same on every machine and at any later time, so
// that questions about a live cluster, bug reports and replays are one thing.
//
//	Read, Types   a live cluster becomes a File
//	Encode        writes a File; Decode reads one and says where it is malformed
//	Cluster       what decisions see of a File: internal/inspect and internal/solve take it from there
//
// A File has no credentials, no environment variables and no images: only the fields that decisions look at are kept (see
// internal/store, Strip).
//
// Not here: the decisions, and how the API server and the cloud are reached (internal/cli). Start reading at File.
package snapshot
