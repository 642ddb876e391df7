// Package bitset has sets of small numbers as bits: instance types of a catalogue, values of a label, and Columns,
// the ways to launch an instance type. Planning reads them millions of times, so they allocate nothing unless they
// say so.
//
// Not here: what the numbers mean; internal/solve/model numbers things. Start reading at Set and Columns.
package bitset
