package resources

import (
	"encoding/json"
	"math"
	"slices"
)

// fixed is how many lanes live in the Vec itself. Measured over 800 instance types: against a plain
// slice a fit test costs a quarter less and a copy a quarter as much, because most pods and nodes
// have no other lanes and then own no heap memory.
const fixed = Pods + 1

// Vec holds one number per lane of a Table. The zero Vec is all zeros; lanes that were never set are
// zero. Like a slice, an assigned copy shares memory with the original: call Clone before changing
// one of the two in place.
type Vec struct {
	base [fixed]int64
	rest []int64 // lanes from fixed on; may be shorter than the Table
}

// Of returns the vector with these numbers in its lanes.
func Of(lanes ...int64) Vec {
	var v Vec
	if n := copy(v.base[:], lanes); n < len(lanes) {
		v.rest = slices.Clone(trim(lanes[n:]))
	}
	return v
}

// At returns the number in a lane; a lane the vector does not have holds zero.
func (v Vec) At(lane int) int64 {
	switch {
	case lane < 0 || lane >= v.len():
		return 0
	case lane < fixed:
		return v.base[lane]
	default:
		return v.rest[lane-fixed]
	}
}

// Clone returns a copy that shares no memory with v.
func (v Vec) Clone() Vec {
	v.rest = slices.Clone(v.rest)
	return v
}

// IsZero reports whether every lane is zero.
func (v Vec) IsZero() bool {
	return v.base == [fixed]int64{} && len(trim(v.rest)) == 0
}

// Equal reports whether every lane is equal.
func (v Vec) Equal(other Vec) bool {
	return v.base == other.base && slices.Equal(trim(v.rest), trim(other.rest))
}

// String renders the vector without the names of a Table, for tests and debugging; see Table.Format.
func (v Vec) String() string {
	return Table{}.Format(v)
}

// MarshalJSON writes the lanes in order, without trailing zeros.
func (v Vec) MarshalJSON() ([]byte, error) {
	return json.Marshal(trim(slices.Concat(v.base[:], v.rest)))
}

// UnmarshalJSON reads lanes in order.
func (v *Vec) UnmarshalJSON(data []byte) error {
	var lanes []int64
	if err := json.Unmarshal(data, &lanes); err != nil {
		return err
	}
	*v = Vec{}
	if n := copy(v.base[:], lanes); n < len(lanes) {
		v.rest = lanes[n:]
	}
	return nil
}

// Fits reports whether a request fits what is available: no lane requests more than there is, and
// no available lane is negative, requested or not. An overcommitted node takes nothing more (SC-11).
func Fits(request, available *Vec) bool {
	for i, have := range available.base {
		if have < 0 || request.base[i] > have {
			return false
		}
	}
	if len(request.rest) == 0 && len(available.rest) == 0 {
		return true
	}
	return short(request.rest, available.rest) < 0
}

// Short names the first lane because of which Fits fails; found is false when it does not.
func Short(request, available *Vec) (lane int, found bool) {
	if i := short(request.base[:], available.base[:]); i >= 0 {
		return i, true
	}
	if i := short(request.rest, available.rest); i >= 0 {
		return fixed + i, true
	}
	return 0, false
}

// short returns the first index at which a request does not fit, or -1.
func short(request, available []int64) int {
	for i := range max(len(request), len(available)) {
		var want, have int64
		if i < len(request) {
			want = request[i]
		}
		if i < len(available) {
			have = available[i]
		}
		if have < 0 || want > have {
			return i
		}
	}
	return -1
}

// Add returns a + b in new memory.
func Add(a, b Vec) Vec {
	sum := a.Clone()
	AddTo(&sum, &b)
	return sum
}

// Sub returns a - b in new memory. The result may be negative; Max(Sub(a, b), Vec{}) is not.
func Sub(a, b Vec) Vec {
	rest := a.Clone()
	SubFrom(&rest, &b)
	return rest
}

// Max returns the larger number of each lane in new memory.
func Max(a, b Vec) Vec {
	larger := a.Clone()
	MaxTo(&larger, &b)
	return larger
}

// With returns v with another number in one lane, in new memory.
func With(v Vec, lane int, n int64) Vec {
	changed := v.Clone()
	changed.set(lane, n)
	return changed
}

// Fill returns v with every lane that is zero taken from other, in new memory: how a node that has
// not reported all of its capacity is completed from an estimate.
func Fill(v, other Vec) Vec {
	full := v.Clone()
	full.grow(other.rest)
	for i := range full.base {
		if full.base[i] == 0 {
			full.base[i] = other.base[i]
		}
	}
	for i := range trim(other.rest) {
		if full.rest[i] == 0 {
			full.rest[i] = other.rest[i]
		}
	}
	return full
}

// AddTo adds v to dst in place. It allocates only if v has lanes that dst has no room for; a dst
// from Table.Zero always has.
func AddTo(dst, v *Vec) {
	for i, n := range v.base {
		dst.base[i] = add(dst.base[i], n)
	}
	if len(v.rest) == 0 {
		return
	}
	dst.grow(v.rest)
	for i, n := range v.rest[:min(len(v.rest), len(dst.rest))] {
		dst.rest[i] = add(dst.rest[i], n)
	}
}

// SubFrom subtracts v from dst in place, allocating like AddTo.
func SubFrom(dst, v *Vec) {
	for i, n := range v.base {
		dst.base[i] = sub(dst.base[i], n)
	}
	if len(v.rest) == 0 {
		return
	}
	dst.grow(v.rest)
	for i, n := range v.rest[:min(len(v.rest), len(dst.rest))] {
		dst.rest[i] = sub(dst.rest[i], n)
	}
}

// MaxTo raises each lane of dst to that of v in place, allocating like AddTo.
func MaxTo(dst, v *Vec) {
	for i, n := range v.base {
		dst.base[i] = max(dst.base[i], n)
	}
	dst.grow(v.rest)
	for i := range dst.rest {
		var n int64
		if i < len(v.rest) {
			n = v.rest[i]
		}
		dst.rest[i] = max(dst.rest[i], n)
	}
}

// MinTo lowers each lane of dst to that of v in place.
func MinTo(dst, v *Vec) {
	for i, n := range v.base {
		dst.base[i] = min(dst.base[i], n)
	}
	dst.grow(v.rest)
	for i := range dst.rest {
		dst.rest[i] = min(dst.rest[i], v.At(fixed+i))
	}
}

// len is the number of lanes the vector has memory for.
func (v *Vec) len() int {
	return fixed + len(v.rest)
}

// grow makes room for every lane of rest that is not zero.
func (v *Vec) grow(rest []int64) {
	if len(rest) <= len(v.rest) {
		return
	}
	if want := len(trim(rest)); want > len(v.rest) {
		// Never into spare capacity: a copy of v may own it.
		v.rest = append(make([]int64, 0, want), v.rest...)[:want]
	}
}

// set stores a number in a lane of a table.
func (v *Vec) set(lane int, n int64) {
	if lane < fixed {
		v.base[lane] = n
		return
	}
	if missing := lane + 1 - v.len(); missing > 0 {
		if n == 0 {
			return
		}
		v.rest = append(slices.Clip(v.rest), make([]int64, missing)...)
	}
	v.rest[lane-fixed] = n
}

// trim cuts trailing zeros.
func trim(lanes []int64) []int64 {
	n := len(lanes)
	for n > 0 && lanes[n-1] == 0 {
		n--
	}
	return lanes[:n]
}

// add is a + b, saturating.
func add(a, b int64) int64 {
	sum := a + b
	if (a^sum)&(b^sum) < 0 { // the operands share a sign that the sum does not have
		return limit(a < 0)
	}
	return sum
}

// sub is a - b, saturating.
func sub(a, b int64) int64 {
	rest := a - b
	if (a^b)&(a^rest) < 0 {
		return limit(a < 0)
	}
	return rest
}

func limit(negative bool) int64 {
	if negative {
		return math.MinInt64
	}
	return math.MaxInt64
}
