package reqs

import (
	"math"
	"strconv"
)

// Bounds are inclusive integer limits on the values of a label. The zero value is unlimited.
// Lo and Hi mean something only where HasLo and HasHi say so, and are zero otherwise.
type Bounds struct {
	Lo    int64 `json:"lo,omitempty"`
	Hi    int64 `json:"hi,omitempty"`
	HasLo bool  `json:"hasLo,omitempty"`
	HasHi bool  `json:"hasHi,omitempty"`
}

// Limited reports whether there is any bound. A limited requirement never allows a non-integer.
func (b Bounds) Limited() bool { return b.HasLo || b.HasHi }

// Contradictory reports whether no integer lies within the bounds.
func (b Bounds) Contradictory() bool { return b.HasLo && b.HasHi && b.Lo > b.Hi }

// Contain reports whether value is allowed by the bounds: any value if there are none, otherwise
// only an integer inside.
func (b Bounds) Contain(value string) bool {
	if !b.Limited() {
		return true
	}
	n, isInteger := Integer(value)
	return isInteger && (!b.HasLo || n >= b.Lo) && (!b.HasHi || n <= b.Hi)
}

// tighten returns the bounds that allow what both allow.
func (b Bounds) tighten(other Bounds) Bounds {
	if other.HasLo && (!b.HasLo || other.Lo > b.Lo) {
		b.Lo, b.HasLo = other.Lo, true
	}
	if other.HasHi && (!b.HasHi || other.Hi < b.Hi) {
		b.Hi, b.HasHi = other.Hi, true
	}
	return b
}

// above and below are the exclusive limits Gt and Lt as inclusive ones. Nothing is above the largest
// integer, which the false result says; n is never negative, so n-1 cannot underflow.
func above(n int64) (Bounds, bool) {
	if n == math.MaxInt64 {
		return Bounds{}, false
	}
	return atLeast(n + 1), true
}

func below(n int64) Bounds   { return atMost(n - 1) }
func atLeast(n int64) Bounds { return Bounds{Lo: n, HasLo: true} }
func atMost(n int64) Bounds  { return Bounds{Hi: n, HasHi: true} }

// Integer reads a label value the way kube-scheduler does for Gt and Lt: base ten, 64 bits, a sign
// and leading zeros allowed. "007" is therefore 7 to a bound, while set membership stays textual:
// In [7] does not allow "007". A value past 64 bits is not an integer.
func Integer(value string) (int64, bool) {
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil
}
