package solve

import "math/bits"

// set is a bitset over small ids: instance types of a catalogue, values of a key.
type set []uint64

func newSet(n int) set { return make(set, (n+63)/64) }

func fullSet(n int) set {
	s := newSet(n)
	for i := range s {
		s[i] = ^uint64(0)
	}
	if n%64 != 0 {
		s[len(s)-1] = 1<<(n%64) - 1
	}
	return s
}

func (s set) has(i int) bool { return s[i>>6]>>(i&63)&1 != 0 }
func (s set) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s set) drop(i int)     { s[i>>6] &^= 1 << (i & 63) }

func (s set) empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

func (s set) count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

func (s set) and(o set) {
	for i := range s {
		s[i] &= o[i]
	}
}

func (s set) or(o set) {
	for i := range s {
		s[i] |= o[i]
	}
}

func (s set) clone() set { return append(set(nil), s...) }

func (s set) meets(o set) bool {
	for i, w := range s {
		if w&o[i] != 0 {
			return true
		}
	}
	return false
}

// next returns the first member that is at least i, or -1.
func (s set) next(i int) int {
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

// maxColumns is how many distinct (zone, capacity type, reservation) combinations a catalogue can
// have. Thousands of reservations in one pool would pass it; those beyond are not planned with.
const maxColumns = 128

// columns is a bitset over the offering columns of a catalogue.
type columns [maxColumns / 64]uint64

func (c columns) and(o columns) columns { return columns{c[0] & o[0], c[1] & o[1]} }
func (c columns) or(o columns) columns  { return columns{c[0] | o[0], c[1] | o[1]} }
func (c columns) not(o columns) columns { return columns{c[0] &^ o[0], c[1] &^ o[1]} }
func (c columns) empty() bool           { return c[0]|c[1] == 0 }
func (c columns) has(i int) bool        { return c[i>>6]>>(i&63)&1 != 0 }
func (c *columns) add(i int)            { c[i>>6] |= 1 << (i & 63) }

func (c columns) without(i int) columns {
	c[i>>6] &^= 1 << (i & 63)
	return c
}

// next returns the first member that is at least i, or -1.
func (c columns) next(i int) int {
	for ; i < maxColumns; i = (i>>6 + 1) << 6 {
		if w := c[i>>6] >> (i & 63); w != 0 {
			return i + bits.TrailingZeros64(w)
		}
	}
	return -1
}
