// Package reason is the vocabulary of "why": a stable code, what it is about, what was wanted and
// what was there. A Reason is a value. Decisions return it, tests compare it, shells print it.
//
// Not here: events, conditions, logging; callers that show a reason to a user call Text.
// Start reading at Reason; Codes lists every code for the reference documentation.
package reason
