// Package model is the problem, the plan, and the problem compiled. Compile turns names into numbers, requirements into
// bits and quantities into flat vectors; pods that scheduling cannot tell apart become classes. A Model is only read
// afterwards, but for tables that fill up as questions are asked: each goroutine asks a Fork of its own.
//
// Not here: placing pods (internal/solve/exact). Enter at Problem, Plan and Compile; the vocabulary is in internal/solve.
package model
