// Package parallel runs independent parts of planning on several goroutines. Results are kept by index, so that the
// number of goroutines never shows in a plan.
//
// A panic of a call is handed to the caller, so that what runs in the controller for a user alone can recover from it.
//
// Not here: limits of time; callers poll their stop. Start reading at Each.
package parallel
