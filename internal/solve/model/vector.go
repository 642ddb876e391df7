package model

import (
	"math"

	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Unlimited is more of a resource than any pod requests, and small enough that sums do not overflow.
const Unlimited = math.MaxInt64 / 4

// CopyLanes writes a vector into lanes.
func CopyLanes(dst []int64, v resources.Vec, lanes int) {
	for l := range lanes {
		dst[l] = v.At(l)
	}
}

// FitsWithin reports whether a vector is at most another one in every lane.
func FitsWithin(requests, capacity []int64) bool {
	for l, v := range requests {
		if v > capacity[l] {
			return false
		}
	}
	return true
}
