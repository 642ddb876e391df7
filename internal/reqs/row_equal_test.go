package reqs

import "slices"

// Equal reports whether both rows are of one table and mean the same: the form of a row is canonical.
func (r Row) Equal(other Row) bool {
	return r.table == other.table && slices.Equal(r.words, other.words)
}
