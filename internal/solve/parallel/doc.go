// Package parallel runs independent parts of planning on several goroutines. Results are kept by index, so that the
// number of goroutines never shows in a plan.
//
// Not here: limits of time; callers poll their stop. Start reading at Each.
package parallel
