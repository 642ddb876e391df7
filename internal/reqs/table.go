package reqs

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// KeyID is the position of a key in a Table; ids follow the order of the keys.
type KeyID int

// ValueID is the position of a value among the values of one key. Integers come first, ascending, so
// that bounds cover a contiguous range.
type ValueID int

// Builder collects the universe of a Table: every key, value, bound and minValues that will be
// compiled. The zero value is not usable; start with NewBuilder.
type Builder struct {
	words Vocabulary
	keys  map[string]*seen
}

// seen is what a Builder knows about one key.
type seen struct {
	values map[string]bool
	extra  bool // some requirement has bounds or minValues
}

// NewBuilder starts a universe. The vocabulary says which keys are well-known; keys are taken as they
// come, since the functions that build a Set have already rewritten aliases.
func NewBuilder(words Vocabulary) *Builder {
	return &Builder{words: words, keys: map[string]*seen{}}
}

// AddSet adds everything a Set mentions.
func (b *Builder) AddSet(s Set) {
	// any order: Build sorts keys and values
	for key, r := range s {
		b.AddValues(key, r.Values...)
		if r.Bounds.Limited() || r.MinValues > 0 {
			b.keys[key].extra = true
		}
	}
}

// AddValues adds a key and values it can have; no values adds the key alone.
func (b *Builder) AddValues(key string, values ...string) {
	k := b.keys[key]
	if k == nil {
		k = &seen{values: map[string]bool{}}
		b.keys[key] = k
	}
	for _, v := range values {
		k.values[v] = true
	}
}

// Build freezes what was added so far. Equal universes give equal tables, whatever the order of the
// calls; the Builder can go on and build again.
func (b *Builder) Build() *Table {
	names := slices.Sorted(maps.Keys(b.keys))
	t := &Table{ids: make(map[string]KeyID, len(names)), keys: make([]column, len(names))}
	for i, name := range names {
		t.ids[name] = KeyID(i)
		t.keys[i] = newColumn(name, b.keys[name])
		t.keys[i].first = t.wordCount
		t.wordCount += t.keys[i].words()
		if b.keys[name].extra {
			t.keys[i].slot = len(t.extras)
			t.extras = append(t.extras, KeyID(i))
		}
	}
	t.flagCount = wordsFor(len(names))
	t.wellKnown, t.hasExtra = make([]uint64, t.flagCount), make([]uint64, t.flagCount)
	for i, name := range names {
		setBit(t.wellKnown, i, b.words.WellKnownKeys[name])
		setBit(t.hasExtra, i, b.keys[name].extra)
	}
	t.layOut()
	return t
}

// Table is a frozen universe of keys and values. It is immutable, so any number of goroutines may
// use it; rows belong to the table that made them.
type Table struct {
	ids       map[string]KeyID
	keys      []column
	extras    []KeyID  // keys with bounds or minValues; column.slot is the index here
	wellKnown []uint64 // by key
	hasExtra  []uint64 // by key
	blank     []uint64 // the row that constrains nothing

	wordCount int // words of allowed bits
	flagCount int // words of one bitmap over the keys
	openAt    int // offsets into a row; see Row
	definedAt int
	excludeAt int
	extraAt   int
}

// column is one key of a Table.
type column struct {
	name   string
	values []string // integers ascending, then the rest in order
	ids    map[string]ValueID
	ints   []int64 // of the first len(ints) values
	first  int     // word where its allowed bits begin
	slot   int     // -1: never has bounds or minValues
}

func newColumn(name string, k *seen) column {
	// any order: they are sorted on the next line
	c := column{name: name, values: slices.Collect(maps.Keys(k.values)), slot: -1}
	slices.SortFunc(c.values, func(a, b string) int {
		x, xIsInteger := Integer(a)
		y, yIsInteger := Integer(b)
		switch {
		case xIsInteger && !yIsInteger:
			return -1
		case !xIsInteger && yIsInteger:
			return 1
		}
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	})
	c.ids = make(map[string]ValueID, len(c.values))
	for i, v := range c.values {
		c.ids[v] = ValueID(i)
		if n, isInteger := Integer(v); isInteger {
			c.ints = append(c.ints, n)
		}
	}
	return c
}

func (c *column) words() int { return wordsFor(len(c.values)) }

// within returns the range of values that satisfy the bounds: all if there are none.
func (c *column) within(b Bounds) (from, to int) {
	if !b.Limited() {
		return 0, len(c.values)
	}
	to = len(c.ints)
	if b.HasLo {
		from, _ = slices.BinarySearch(c.ints, b.Lo)
	}
	if b.HasHi && b.Hi < math.MaxInt64 {
		to, _ = slices.BinarySearch(c.ints, b.Hi+1)
	}
	return from, max(from, to)
}

// layOut fixes where the parts of a row are and makes the blank row.
func (t *Table) layOut() {
	t.openAt = t.wordCount
	t.definedAt = t.openAt + t.flagCount
	t.excludeAt = t.definedAt + t.flagCount
	t.extraAt = t.excludeAt + t.flagCount
	t.blank = make([]uint64, t.extraAt+extraWords*len(t.extras))
	for i := range t.keys {
		c := &t.keys[i]
		fill(t.blank[c.first:c.first+c.words()], 0, len(c.values))
	}
	fill(t.blank[t.openAt:t.definedAt], 0, len(t.keys))
}

// Len is the number of keys; ids are 0 to Len()-1.
func (t *Table) Len() int { return len(t.keys) }

// Key returns the id of a key.
func (t *Table) Key(name string) (KeyID, bool) {
	id, known := t.ids[name]
	return id, known
}

// KeyName returns the key of an id, or "" if there is none.
func (t *Table) KeyName(k KeyID) string {
	if !t.has(k) {
		return ""
	}
	return t.keys[k].name
}

// Value returns the id of a value of a key.
func (t *Table) Value(k KeyID, value string) (ValueID, bool) {
	if !t.has(k) {
		return 0, false
	}
	id, known := t.keys[k].ids[value]
	return id, known
}

// ValueName returns the value of an id, or "" if there is none.
func (t *Table) ValueName(k KeyID, v ValueID) string {
	if !t.has(k) || v < 0 || int(v) >= len(t.keys[k].values) {
		return ""
	}
	return t.keys[k].values[v]
}

// ValueCount is the number of values of a key; ids are 0 to ValueCount(k)-1.
func (t *Table) ValueCount(k KeyID) int {
	if !t.has(k) {
		return 0
	}
	return len(t.keys[k].values)
}

func (t *Table) has(k KeyID) bool { return k >= 0 && int(k) < len(t.keys) }

// UnseenError says that a Set mentions something the table's Builder was not shown.
type UnseenError struct {
	Key   string
	Value string // empty for What "key" and "bounds or minValues"
	What  string // "key", "value" or "bounds or minValues"
}

// Error names what is missing and the fix.
func (e *UnseenError) Error() string {
	what := e.What
	if e.What == "value" {
		what += " " + strconv.Quote(e.Value)
	}
	return what + " of " + strconv.Quote(e.Key) + " not in the table; add the set to the Builder before Build"
}

// The bit functions below treat a []uint64 as one long bitmap; bit i is in word i/64.

func wordsFor(n int) int { return (n + 63) / 64 }

func bit(words []uint64, i int) bool { return words[i/64]>>(i%64)&1 != 0 }

func setBit(words []uint64, i int, on bool) {
	words[i/64] &^= 1 << (i % 64)
	if on {
		words[i/64] |= 1 << (i % 64)
	}
}

// mask returns the bits of word w that belong to the range [from, to).
func mask(w, from, to int) uint64 {
	lo, hi := max(from-w*64, 0), min(to-w*64, 64)
	if lo >= hi {
		return 0
	}
	return ^uint64(0) >> (64 - (hi - lo)) << lo
}

// fill sets exactly the bits in [from, to).
func fill(words []uint64, from, to int) {
	for w := range words {
		words[w] = mask(w, from, to)
	}
}

// full reports whether every bit in [from, to) is set.
func full(words []uint64, from, to int) bool {
	for w := from / 64; w < wordsFor(to); w++ {
		if m := mask(w, from, to); words[w]&m != m {
			return false
		}
	}
	return true
}

func count(words []uint64) int {
	n := 0
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	return n
}
