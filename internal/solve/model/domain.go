package model

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
)

// HasKnownValues reports whether the possible values of a key on a planned node are known. They are not if its pool
// requires the label and leaves the value open.
func (m *Model) HasKnownValues(pl *Pool, row reqs.Row, k reqs.KeyID) bool {
	x := &m.Catalogues[pl.Catalogue].Keys[k]
	return x.ByOffering || x.ByType || !row.Defined(k) || !row.Open(k)
}

// PossibleDomains is OpenDomains with those that have insufficient capacity: capacity may come back before the launch.
func (m *Model) PossibleDomains(pl *Pool, row reqs.Row, types bitset.Set, cols bitset.Columns, k reqs.KeyID) bitset.Set {
	cat := m.Catalogues[pl.Catalogue]
	x := &cat.Keys[k]
	if !x.ByOffering {
		return m.OpenDomains(pl, row, types, cols, k)
	}
	var offered bitset.Columns
	for t := types.Next(0); t >= 0; t = types.Next(t + 1) {
		offered = offered.Or(cat.Offered[t].And(cols))
	}
	out := bitset.NewSet(m.Table.ValueCount(k))
	for v, with := range x.ColumnsWith {
		if row.Allows(k, reqs.ValueID(v)) && !with.And(offered).Empty() {
			out.Add(v)
		}
	}
	return out
}

// OpenDomains returns the domains of a key in which a planned node can be launched: those that its requirements and
// its remaining types and columns allow.
func (m *Model) OpenDomains(pl *Pool, row reqs.Row, types bitset.Set, cols bitset.Columns, k reqs.KeyID) bitset.Set {
	cat := m.Catalogues[pl.Catalogue]
	x := &cat.Keys[k]
	out := bitset.NewSet(m.Table.ValueCount(k))
	switch {
	case x.ByOffering:
		var live bitset.Columns
		for t := types.Next(0); t >= 0; t = types.Next(t + 1) {
			live = live.Or(cat.Available[t].And(cols))
		}
		for v, with := range x.ColumnsWith {
			if row.Allows(k, reqs.ValueID(v)) && !with.And(live).Empty() {
				out.Add(v)
			}
		}
	case x.ByType:
		for v, with := range x.TypesWith {
			if with != nil && row.Allows(k, reqs.ValueID(v)) && with.Overlaps(types) {
				out.Add(v)
			}
		}
	case row.Defined(k) && !row.Open(k):
		for v := range m.Table.ValueCount(k) {
			if row.Allows(k, reqs.ValueID(v)) {
				out.Add(v)
			}
		}
	}
	return out
}

// KeyDomains are the values of a key that a topology can choose among (SC-26).
type KeyDomains struct {
	Used   bool
	All    bitset.Set
	nodes  bitset.Set   // of existing nodes
	ByPool []bitset.Set // that a pool can offer
}

// readDomains collects the values that topologies of each key can use.
func (m *Model) readDomains() {
	m.Domains = make([]KeyDomains, m.Table.Len())
	for _, g := range m.Groups {
		if g.PerHost || m.Domains[g.Key].Used {
			continue
		}
		n := m.Table.ValueCount(g.Key)
		d := &m.Domains[g.Key]
		*d = KeyDomains{Used: true, All: bitset.NewSet(n), nodes: bitset.NewSet(n)}
		for i := range m.Nodes {
			if v := m.Signatures[m.Nodes[i].Signature].Values[g.Key]; v >= 0 {
				d.nodes.Add(int(v))
			}
		}
		d.All.Or(d.nodes)
		for i := range m.Pools {
			offers := m.offeredDomains(i, g.Key)
			d.ByPool = append(d.ByPool, offers)
			d.All.Or(offers)
		}
	}
}

// offeredDomains returns the values of a key that nodes of a pool can have.
func (m *Model) offeredDomains(poolID int, k reqs.KeyID) bitset.Set {
	p := &m.Pools[poolID]
	c := m.Catalogues[p.Catalogue]
	x := &c.Keys[k]
	out := bitset.NewSet(m.Table.ValueCount(k))
	switch {
	case x.ByOffering:
		for v, with := range x.ColumnsWith {
			cols := with.And(p.Columns)
			for t := p.Types.Next(0); t >= 0 && !cols.Empty(); t = p.Types.Next(t + 1) {
				// A zone that has no capacity at the moment is still a domain.
				if c.Offered[t].And(cols).Empty() {
					continue
				}
				out.Add(v)
				break
			}
		}
	case x.ByType:
		for v, with := range x.TypesWith {
			if with != nil && with.Overlaps(p.Types) {
				out.Add(v)
			}
		}
	}
	if p.Row.Defined(k) && !p.Row.Open(k) {
		finite := bitset.Set(p.Row.Bits(k))
		if x.ByOffering || x.ByType {
			return out
		}
		for v := finite.Next(0); v >= 0 && v < m.Table.ValueCount(k); v = finite.Next(v + 1) {
			out.Add(v)
		}
	}
	return out
}

// Priced reports whether the values of a key depend on the offering, in every catalogue.
func (m *Model) Priced(k reqs.KeyID) bool {
	return !slices.ContainsFunc(m.Catalogues, func(c *Catalogue) bool { return !c.Keys[k].ByOffering && !c.Keys[k].ByType })
}
