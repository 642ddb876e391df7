// Package api carries queries about a cluster over HTTP. Server responds to them in the controller, behind a journal.Guard;
// Client, which Dial connects to the leader, is an inspect.Service that sends them.
//
//	GET  /debug/inspect/fleet, explain, history   with parameters, see docs/reference/decisions.md
//	POST /debug/inspect/plan                      a WhatIf as JSON
//	GET  /debug/inspect/snapshot                  a snapshot.File, compressed by gzip
//
// The work is bounded: a view of the cluster serves all questions of a few seconds, and one plan is made at a time. The
// client listens on no port: connections go through the API server to the pod of the leader.
//
// Not here: the contents of responses (internal/inspect, internal/snapshot). Start reading at Server and at Dial.
package api
