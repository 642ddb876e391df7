// Package risk decides what the chance of losing a node, or of not getting it, counts when plans are compared: a share
// of the price of an offering. What was observed of an instance type in a zone counts for less and less as time passes:
// half after [HalfLife].
//
// A share is one of a few levels, so that offerings, and with them plans, change only when a level does. A Book is a
// value of the time that is given to it: it has no clock and no lock. Start reading at Book.Add and Book.Share. Not here: what is observed
// (internal/interruption, the errors of launches), and what counts it (catalog.Offering.Risk).
package risk
