// Package model is the problem, the plan, and the problem compiled. Compile turns names into numbers, requirements
// into bits and quantities into flat vectors; pods that scheduling cannot distinguish become classes. A Model is
// read-only afterwards, except for memo tables that are filled on demand. So each goroutine uses a Fork of its own.
//
// Not here: placing pods (internal/solve/exact). Start reading at Problem, Plan and Compile; the vocabulary is in
// internal/solve.
package model
