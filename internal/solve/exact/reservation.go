package exact

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// FindReservations determines which reservations a trial would take a slot of, and reports whether that is allowed
// (SC-45, SC-46, V15-45).
func (s *State) FindReservations(b *Bin, f *Trial) bool {
	m := s.Model
	pl := &m.Pools[b.Pool]
	reserved := pl.Reserved.And(f.Columns)
	cat := m.Catalogues[pl.Catalogue]
	if reserved.Empty() && len(b.Reservations) == 0 {
		for t := f.Types.Next(0); t >= 0; t = f.Types.Next(t + 1) {
			if !cat.Launchable[t].And(f.Columns).Empty() {
				return true
			}
		}
		return false
	}
	var open, launchable, ordinary bitset.Columns
	for t := f.Types.Next(0); t >= 0; t = f.Types.Next(t + 1) {
		open = open.Or(cat.Available[t].And(reserved))
		launchable = launchable.Or(cat.Launchable[t].And(reserved))
		ordinary = ordinary.Or(cat.Launchable[t].And(f.Columns).Not(reserved))
	}
	f.Reservations = nil
	others := false // some reservation is taken by others
	for i := launchable.Next(0); i >= 0; i = launchable.Next(i + 1) {
		switch id := cat.Columns[i].Reserved; {
		case id < 0 || slices.Contains(f.Reservations, id):
		case slices.Contains(b.Reservations, id) || s.reservationsLeft[id] > 0:
			f.Reservations = append(f.Reservations, id)
		default:
			others = true
		}
	}
	if others {
		f.Reservations = s.separableReservations(pl, f)
	}
	if len(f.Reservations) > 0 {
		return true
	}
	if m.Problem.Policy.ReservedFallback {
		return !ordinary.Empty()
	}
	switch {
	case !launchable.Empty(), len(b.Reservations) > 0: // taken by others, or would be lost
		s.WaitsForReserved = true
		return false
	case !open.Empty() && ordinary.Empty(): // full, and nothing else
		s.WaitsForReserved = true
		return false
	}
	return !ordinary.Empty()
}

// separableReservations returns the held reservations that one NodeClaim can express together. A NodeClaim lists
// zones, types and ids separately. Where offerings have no label with the id, their combination may admit a
// reservation that other nodes hold (SC-45).
func (s *State) separableReservations(pl *model.Pool, f *Trial) []int {
	var kept []int
	for _, id := range f.Reservations {
		if more := append(slices.Clip(kept), id); s.excludesOthers(pl, f, more) {
			kept = more
		}
	}
	return kept
}

// excludesOthers reports whether a NodeClaim for some reservations admits no other one.
func (s *State) excludesOthers(pl *model.Pool, f *Trial, held []int) bool {
	cat := s.Model.Catalogues[pl.Catalogue]
	cols := s.columnsHolding(pl, f.Columns, held)
	var open, near bitset.Columns // of the types that are written, what is held and what else there is
	for t := f.Types.Next(0); t >= 0; t = f.Types.Next(t + 1) {
		if left := cat.Launchable[t].And(cols); !left.Empty() {
			open = open.Or(left)
			near = near.Or(cat.Launchable[t].And(f.Columns).And(pl.Reserved).Not(cols))
		}
	}
	for i := near.Next(0); i >= 0; i = near.Next(i + 1) {
		if !slices.ContainsFunc(cat.Columns[i].Labels, func(l model.Label) bool { return cat.ExcludesLabel(open, l) }) {
			return false
		}
	}
	return true
}

func (s *State) replaceReservations(b *Bin, held []int) {
	for _, id := range b.Reservations {
		s.reservationsLeft[id]++
	}
	for _, id := range held {
		s.reservationsLeft[id]--
	}
	b.Reservations = held
}

// LaunchColumns returns the columns that are written on the NodeClaim of a planned node: those of its reservations if
// it holds any (SC-47).
func (s *State) LaunchColumns(b *Bin) bitset.Columns {
	return s.columnsHolding(&s.Model.Pools[b.Pool], b.Columns, b.Reservations)
}

func (s *State) columnsHolding(pl *model.Pool, cols bitset.Columns, held []int) bitset.Columns {
	if len(held) == 0 {
		return cols.Not(pl.Reserved)
	}
	var out bitset.Columns
	cat := s.Model.Catalogues[pl.Catalogue]
	for i := range cat.Columns {
		if cat.Columns[i].Reserved >= 0 && slices.Contains(held, cat.Columns[i].Reserved) {
			out.Add(i)
		}
	}
	return out.And(cols)
}
