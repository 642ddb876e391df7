// Package condition keeps the condition list of an object: dependents decide the root condition,
// times change with the status alone, and the order is fixed (API 2.5).
//
// It is pure: the caller brings the list and the time and writes the result. Start reading at Kind.Apply.
package condition
