package reqs

import (
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Row is a Set compiled over a Table. Copies share memory, so a Row is written only by its owner:
// through Intersect and CopyFrom. The zero Row belongs to no table; operations refuse it.
//
// The words of a row are, in order: per key the bits of its allowed values; open (values outside the
// table are allowed too, that is: a complement); defined; exclude (the key is open and some value
// within its bounds is not allowed, that is: NotIn rather than Exists); then four words for each key
// that can have bounds or minValues. An absent key is open with all bits set, which makes
// intersection an AND of the first two parts and an OR of the next two. The form is canonical: rows
// are equal exactly if their words are.
type Row struct {
	table *Table
	words []uint64
}

// extraWords is what one key with bounds or minValues takes: lo, hi, which of them exist, minValues.
const (
	extraWords = 4
	flagLo     = 1 << 0
	flagHi     = 1 << 1
)

// NewRow returns a row that constrains nothing.
func (t *Table) NewRow() Row { return Row{table: t, words: slices.Clone(t.blank)} }

// Compile returns the set as a row. It fails with an *UnseenError if the table lacks something the
// set mentions: losing a value silently would change what the set means.
func (t *Table) Compile(s Set) (Row, error) {
	row := t.NewRow()
	for _, key := range s.Keys() {
		if err := row.compile(key, s[key]); err != nil {
			return Row{}, err
		}
	}
	return row, nil
}

func (r Row) compile(key string, req Req) error {
	t := r.table
	k, known := t.ids[key]
	if !known {
		return &UnseenError{Key: key, What: "key"}
	}
	c := &t.keys[k]
	if c.slot < 0 && (req.Bounds.Limited() || req.MinValues > 0) {
		return &UnseenError{Key: key, What: "bounds or minValues"}
	}
	allowed := r.allowed(k)
	if req.Not {
		from, to := c.within(req.Bounds)
		fill(allowed, from, to)
	} else {
		clear(allowed)
	}
	for _, v := range req.Values {
		id, seenBefore := c.ids[v]
		if !seenBefore {
			return &UnseenError{Key: key, Value: v, What: "value"}
		}
		setBit(allowed, int(id), !req.Not)
	}
	setBit(r.flags(t.definedAt), int(k), true)
	setBit(r.flags(t.openAt), int(k), req.Not)
	setBit(r.flags(t.excludeAt), int(k), req.Not && len(req.Values) > 0)
	if c.slot >= 0 {
		r.store(c.slot, req.Bounds, req.MinValues)
	}
	return nil
}

// Intersect writes the intersection of a and b into dst, which may be one of them. It allocates
// nothing. It reports false, and writes nothing, if a row is not of this table.
func (t *Table) Intersect(dst, a, b Row) bool {
	if dst.table != t || a.table != t || b.table != t {
		return false
	}
	all, x, y := dst.words, a.words[:len(dst.words)], b.words[:len(dst.words)]
	for i, w := range x[:t.definedAt] {
		all[i] = w & y[i]
	}
	for i := t.definedAt; i < t.extraAt; i++ {
		all[i] = x[i] | y[i]
	}
	open, exclude := dst.flags(t.openAt), dst.flags(t.excludeAt)
	for i, w := range open {
		exclude[i] &= w
	}
	for slot, k := range t.extras {
		p, pMin := a.load(slot)
		q, qMin := b.load(slot)
		dst.applyBounds(slot, k, p.tighten(q), max(pMin, qMin))
	}
	return true
}

// applyBounds applies the rules for bounds to a key whose bits are already combined.
func (r Row) applyBounds(slot int, k KeyID, b Bounds, minValues int) {
	t := r.table
	switch {
	case b.Contradictory(): // DoesNotExist; disjoint bounds have left no bit set
		setBit(r.flags(t.openAt), int(k), false)
		setBit(r.flags(t.excludeAt), int(k), false)
		b = Bounds{}
	case !bit(r.flags(t.openAt), int(k)): // finite: its bits respect the bounds already
		b = Bounds{}
	case b.Limited(): // exclusions that tighter bounds cover no longer count
		from, to := t.keys[k].within(b)
		setBit(r.flags(t.excludeAt), int(k), !full(r.allowed(k), from, to))
	}
	r.store(slot, b, minValues)
}

// Compatible reports what Compatible reports for the sets; allowUndefined lets the node side leave
// well-known keys undefined. Rows of another table are never compatible.
func (t *Table) Compatible(pod, node Row, allowUndefined bool) bool {
	return pod.table == t && node.table == t && t.mismatch(pod, node, allowUndefined) < 0
}

// Mismatch returns the smallest key on which Compatible fails, or false.
func (t *Table) Mismatch(pod, node Row, allowUndefined bool) (KeyID, bool) {
	if pod.table != t || node.table != t {
		return 0, false
	}
	k := t.mismatch(pod, node, allowUndefined)
	return max(k, 0), k >= 0
}

// mismatch returns the smallest key on which a is not compatible with b, or -1. Most keys are settled a
// word at a time: only those where a side is finite, or that may have bounds, are looked at one by one.
func (t *Table) mismatch(a, b Row, allowWellKnown bool) KeyID {
	for w := range t.flagCount {
		aDefined, bDefined := a.words[t.definedAt+w], b.words[t.definedAt+w]
		missing := aDefined &^ bDefined
		if allowWellKnown {
			missing &^= t.wellKnown[w]
		}
		bothOpen := a.words[t.openAt+w] & b.words[t.openAt+w]
		look := missing | aDefined&bDefined&(^bothOpen|t.hasExtra[w])
		for ; look != 0; look &= look - 1 {
			i := bits.TrailingZeros64(look)
			k := KeyID(w*64 + i)
			if missing>>i&1 != 0 {
				if !a.negative(k) {
					return k
				}
				continue
			}
			if !t.overlapOnKey(a, b, k, bothOpen>>i&1 != 0) && !(a.negative(k) && b.negative(k)) {
				return k
			}
		}
	}
	return -1
}

// overlapOnKey reports whether the requirements on one key overlap.
func (t *Table) overlapOnKey(a, b Row, k KeyID, bothOpen bool) bool {
	if bothOpen {
		slot := t.keys[k].slot
		p, _ := a.load(slot)
		q, _ := b.load(slot)
		return !p.tighten(q).Contradictory()
	}
	y := b.allowed(k)
	for i, w := range a.allowed(k) {
		if w&y[i] != 0 {
			return true
		}
	}
	return false
}

// negative is Req.Negative for one key: NotIn or DoesNotExist.
func (r Row) negative(k KeyID) bool {
	if bit(r.flags(r.table.openAt), int(k)) {
		return bit(r.flags(r.table.excludeAt), int(k))
	}
	for _, w := range r.allowed(k) {
		if w != 0 {
			return false
		}
	}
	return true
}

// Clone returns a row with memory of its own.
func (r Row) Clone() Row { return Row{table: r.table, words: slices.Clone(r.words)} }

// CopyFrom overwrites r with src without allocating. It reports false, and writes nothing, if they
// are not of one table.
func (r Row) CopyFrom(src Row) bool {
	if r.table == nil || r.table != src.table {
		return false
	}
	copy(r.words, src.words)
	return true
}

// Defined reports whether the row says something about the key.
func (r Row) Defined(k KeyID) bool { return r.has(k) && bit(r.flags(r.table.definedAt), int(k)) }

// Open reports whether values outside the table may be allowed too: the key is absent or its
// effective operator is NotIn or Exists.
func (r Row) Open(k KeyID) bool { return r.has(k) && bit(r.flags(r.table.openAt), int(k)) }

// Allows reports whether a value is allowed. An absent key allows everything, an unknown id nothing.
func (r Row) Allows(k KeyID, v ValueID) bool {
	return r.has(k) && v >= 0 && int(v) < len(r.table.keys[k].values) && bit(r.allowed(k), int(v))
}

// Count is the number of values of the table that are allowed for a key.
func (r Row) Count(k KeyID) int { return count(r.Bits(k)) }

// Bits returns the allowed values of a key, bit v of word v/64 for ValueID v, to count distinct
// values over many rows. It is a view of the row: read it only.
func (r Row) Bits(k KeyID) []uint64 {
	if !r.has(k) {
		return nil
	}
	return r.allowed(k)
}

// Operator is Req.Operator for one key; an absent or unknown key reads Exists.
func (r Row) Operator(k KeyID) corev1.NodeSelectorOperator {
	if !r.Defined(k) {
		return corev1.NodeSelectorOpExists
	}
	open := r.Open(k)
	return operator(open, r.negative(k) == open)
}

// MinValues returns how many distinct values the row demands of a key; 0 is no demand.
func (r Row) MinValues(k KeyID) int {
	if !r.has(k) || r.table.keys[k].slot < 0 {
		return 0
	}
	_, n := r.load(r.table.keys[k].slot)
	return n
}

// Set converts the row back, for rendering.
func (r Row) Set() Set {
	set := Set{}
	if r.table == nil {
		return set
	}
	for k := range r.table.keys {
		if r.Defined(KeyID(k)) {
			set[r.table.keys[k].name] = r.Req(KeyID(k))
		}
	}
	return set
}

// Req converts one key back; an absent or unknown key reads as a plain Exists.
func (r Row) Req(k KeyID) Req {
	if !r.Defined(k) {
		return Req{Not: true}
	}
	c := &r.table.keys[k]
	req := Req{Not: r.Open(k)}
	if c.slot >= 0 {
		req.Bounds, req.MinValues = r.load(c.slot)
	}
	from, to := c.within(req.Bounds)
	for v := from; v < to; v++ {
		if bit(r.allowed(k), v) != req.Not {
			req.Values = append(req.Values, c.values[v])
		}
	}
	slices.Sort(req.Values)
	return req
}

func (r Row) has(k KeyID) bool { return r.table != nil && r.table.has(k) }

// allowed returns the words with the allowed bits of a key.
func (r Row) allowed(k KeyID) []uint64 {
	c := &r.table.keys[k]
	end := c.first + c.words()
	return r.words[c.first:end:end]
}

// flags returns the bitmap over the keys that begins at an offset.
func (r Row) flags(at int) []uint64 { return r.words[at : at+r.table.flagCount] }

// load and store read and write what a slot holds. Bounds and minValues of an absent key are zero.
func (r Row) load(slot int) (Bounds, int) {
	e := r.words[r.table.extraAt+slot*extraWords:][:extraWords]
	return Bounds{
		Lo: int64(e[0]), Hi: int64(e[1]), HasLo: e[2]&flagLo != 0, HasHi: e[2]&flagHi != 0,
	}, int(e[3])
}

func (r Row) store(slot int, b Bounds, minValues int) {
	e := r.words[r.table.extraAt+slot*extraWords:][:extraWords]
	e[0], e[1], e[2], e[3] = uint64(b.Lo), uint64(b.Hi), 0, uint64(minValues)
	if b.HasLo {
		e[2] |= flagLo
	}
	if b.HasHi {
		e[2] |= flagHi
	}
}
