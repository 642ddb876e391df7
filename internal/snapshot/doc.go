// Package snapshot keeps a cluster as a file: its objects, the instance types that its NodePools could launch, and the
// settings that decisions depend on. What is decided about a File is the same on every machine and at any later time, so
// that questions about a live cluster, bug reports and replays are one thing.
//
//	Read          a live cluster becomes a File; a MarketSource adds instance types and prices
//	Encode        writes a File; Decode reads one and says where it is malformed
//	With          applies a what-if to a copy; Anonymize replaces names, so that the plan stays the same except for names
//	Cluster       what decisions see of a File: internal/inspect and internal/solve take it from there
//
// A File has no credentials, no environment variables and no images: testdata/kept.txt lists the fields that are kept.
//
// Not here: the decisions, and how the API server and the cloud are reached (internal/cli). Start reading at File.
package snapshot
