// Package zonalshift knows which zones traffic is shifted away from, and reports it on the NodePools that could use
// such a zone (AWS provider 8). While it is disabled, no zone is shifted.
//
// Not here: what a shift prevents for offerings and instances of the zone.
//
// Start reading at New, Shifts.Poll and Shifts.Shifted.
package zonalshift
