package bitset

import "math/bits"

// Set is a bitset over small ids: instance types of a catalogue, values of a key.
type Set []uint64

// NewSet returns an empty set of numbers below n.
func NewSet(n int) Set { return make(Set, (n+63)/64) }

// NewFullSet returns the set of all numbers below n.
func NewFullSet(n int) Set {
	s := NewSet(n)
	for i := range s {
		s[i] = ^uint64(0)
	}
	if n%64 != 0 {
		s[len(s)-1] = 1<<(n%64) - 1
	}
	return s
}

// Has reports whether a number is a member.
func (s Set) Has(i int) bool { return s[i>>6]>>(i&63)&1 != 0 }

// Add makes a number a member.
func (s Set) Add(i int) { s[i>>6] |= 1 << (i & 63) }

// Remove takes a number out.
func (s Set) Remove(i int) { s[i>>6] &^= 1 << (i & 63) }

// Empty reports whether there is no member.
func (s Set) Empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// Count returns how many members there are.
func (s Set) Count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// And keeps the members that are also in another set.
func (s Set) And(o Set) {
	for i := range s {
		s[i] &= o[i]
	}
}

// Or adds the members of another set.
func (s Set) Or(o Set) {
	for i := range s {
		s[i] |= o[i]
	}
}

// Clone returns a set of the same members that can be changed on its own.
func (s Set) Clone() Set { return append(Set(nil), s...) }

// Overlaps reports whether two sets have a member in common.
func (s Set) Overlaps(o Set) bool {
	for i, w := range s {
		if w&o[i] != 0 {
			return true
		}
	}
	return false
}

// Next returns the first member that is at least i, or -1.
func (s Set) Next(i int) int {
	if i>>6 >= len(s) {
		return -1
	}
	w := s[i>>6] >> (i & 63) << (i & 63)
	for at := i >> 6; ; {
		if w != 0 {
			return at<<6 + bits.TrailingZeros64(w)
		}
		if at++; at >= len(s) {
			return -1
		}
		w = s[at]
	}
}

// MaxColumns is how many distinct (zone, capacity type, reservation) combinations a catalogue can
// have. Thousands of reservations in one pool would pass it; those beyond are not planned with.
const MaxColumns = 128

// Columns is a bitset over the offering columns of a catalogue.
type Columns [MaxColumns / 64]uint64

// And returns the members of both.
func (c Columns) And(o Columns) Columns { return Columns{c[0] & o[0], c[1] & o[1]} }

// Or returns the members of either.
func (c Columns) Or(o Columns) Columns { return Columns{c[0] | o[0], c[1] | o[1]} }

// Not returns the members that are not in the other.
func (c Columns) Not(o Columns) Columns { return Columns{c[0] &^ o[0], c[1] &^ o[1]} }

// Empty reports whether there is no member.
func (c Columns) Empty() bool { return c[0]|c[1] == 0 }

// Has reports whether a number is a member.
func (c Columns) Has(i int) bool { return c[i>>6]>>(i&63)&1 != 0 }

// Add makes a number a member.
func (c *Columns) Add(i int) { c[i>>6] |= 1 << (i & 63) }

// Without returns all members but one.
func (c Columns) Without(i int) Columns {
	c[i>>6] &^= 1 << (i & 63)
	return c
}

// Next returns the first member that is at least i, or -1.
func (c Columns) Next(i int) int {
	for ; i < MaxColumns; i = (i>>6 + 1) << 6 {
		if w := c[i>>6] >> (i & 63); w != 0 {
			return i + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// Bit is 1 if b is true, else 0: for comparing and counting.
func Bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
