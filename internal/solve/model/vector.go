package model

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Unlimited is more of a resource than anyone asks for, and far from overflowing when added to.
const Unlimited = math.MaxInt64 / 4

// CopyLanes writes a vector into lanes.
func CopyLanes(dst []int64, v resources.Vec, lanes int) {
	for l := range lanes {
		dst[l] = v.At(l)
	}
}

// FitsWithin reports whether a vector is at most another one in every lane.
func FitsWithin(ask, room []int64) bool {
	for l, v := range ask {
		if v > room[l] {
			return false
		}
	}
	return true
}
