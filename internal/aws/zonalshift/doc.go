// Package zonalshift knows which zones traffic is shifted away from, and tells the NodePools that
// could use such a zone (AWS provider 8). While it is not enabled no zone ever is.
//
// Not here: what a shift keeps others from doing with offerings and instances of the zone.
//
// Enter at New, Shifts.Poll and Shifts.Shifted.
package zonalshift
