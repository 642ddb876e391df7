// Package report sends events: it drops repeats and keeps to the limits that internal/event documents.
//
// It is the only place where an event leaves the process. Not here: what to report (the decisions), log
// lines (the shells).
//
// Start reading at New.
package report
