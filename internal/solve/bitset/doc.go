// Package bitset has sets of small numbers as bits: instance types of a catalogue, values of a label, and Columns, the
// ways to buy an instance type. Planning asks them millions of times, so that they allocate nothing unless they say so.
//
// Not here: what the numbers mean; internal/solve/model numbers things. Enter at Set and Columns.
package bitset
