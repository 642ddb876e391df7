// Package event is the vocabulary of Kubernetes events: their reasons, and for each its type, the
// objects it appears on, and how often it may repeat (operations 9).
//
// Decisions return events as values; internal/report sends them. Not here: a client, a clock.
//
// Start reading at Event and Docs.
package event
