package model

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
)

// Need is one distinct set of requirements of pods, with what it leaves of each catalogue and pool.
type Need struct {
	Set         reqs.Set
	Row         reqs.Row
	masks       []*Masks     // by catalogue
	Pools       []*PoolFit   // by pool; taints are not considered
	bySignature []int8       // by signature of nodes: 0 not computed, 1 compatible, -1 not
	there       []reqs.KeyID // labels that must exist, with any value
}

// Masks is what a set of requirements leaves of a catalogue.
type Masks struct {
	Types   bitset.Set
	Columns bitset.Columns
}

// PoolFit is what a set of requirements leaves of a pool: nothing unless OK.
type PoolFit struct {
	OK      bool
	Types   bitset.Set
	Columns bitset.Columns
}

// PinKey is one value of a key: a domain.
type PinKey struct {
	Key   reqs.KeyID
	Value reqs.ValueID
}

// InternNeed returns the id of a set of requirements; the set must be of keys and values in the table.
func (m *Model) InternNeed(s reqs.Set) int {
	if len(s) == 0 && len(m.Needs) > 0 {
		return 0
	}
	key := needKey(s)
	if id, known := m.needIDs[key]; known {
		return id
	}
	row, err := m.Table.Compile(s)
	if err != nil {
		// Every set was shown to the table; one that was not is unsatisfiable.
		return -1
	}
	id := len(m.Needs)
	n := &Need{Set: s, Row: row}
	for k := range m.Table.Len() {
		if k := reqs.KeyID(k); row.Defined(k) && row.Operator(k) == corev1.NodeSelectorOpExists {
			n.there = append(n.there, k)
		}
	}
	m.Needs = append(m.Needs, n)
	m.needIDs[key] = id
	return id
}

// KeepsLabels reports whether a node with these requirements will have the labels of which a need only requires that
// they exist. A custom label of a pool may be missing if only exclusions are known of it.
func (m *Model) KeepsLabels(n *Need, row reqs.Row, catalogue int) bool {
	for _, k := range n.there {
		x := &m.Catalogues[catalogue].Keys[k]
		if !x.ByOffering && !x.ByType && row.Operator(k) == corev1.NodeSelectorOpNotIn {
			return false
		}
	}
	return true
}

// needKey is a text that is equal for equal sets.
func needKey(s reqs.Set) string {
	var b strings.Builder
	for _, key := range s.Keys() {
		r := s[key]
		AppendKey(&b, key, strconv.FormatBool(r.Not))
		AppendKey(&b, r.Values...)
		if r.Bounds.HasLo {
			AppendKey(&b, "\x01>", strconv.FormatInt(r.Bounds.Lo, 10))
		}
		if r.Bounds.HasHi {
			AppendKey(&b, "\x01<", strconv.FormatInt(r.Bounds.Hi, 10))
		}
		b.WriteByte(2)
	}
	return b.String()
}

// IntersectNeeds returns the need that combines two needs, or -1 if they contradict each other.
func (m *Model) IntersectNeeds(a, b int) int {
	switch {
	case a < 0 || b < 0:
		return -1
	case a == 0:
		return b
	case b == 0 || a == b:
		return a
	}
	x, y := m.Needs[a].Set, m.Needs[b].Set
	if _, conflict := x.Conflict(y); conflict || m.hidesExistence(x, y) || m.hidesExistence(y, x) {
		return -1
	}
	return m.InternNeed(x.Intersect(y))
}

// hidesExistence reports whether exclusions would hide that a label must exist. Combined they read NotIn, which a
// node without the label meets. That makes no difference only for labels that the cloud always sets.
func (m *Model) hidesExistence(there, excluded reqs.Set) bool {
	for key, r := range there {
		if other, says := excluded[key]; says && r.Operator() == corev1.NodeSelectorOpExists &&
			other.Operator() == corev1.NodeSelectorOpNotIn && !m.View.Words.WellKnown(key) {
			return true
		}
	}
	return false
}

// PinValue returns the need for one value of a key.
func (m *Model) PinValue(k reqs.KeyID, v reqs.ValueID) int {
	if id, known := m.pins[PinKey{k, v}]; known {
		return id
	}
	r, err := reqs.New(corev1.NodeSelectorOpIn, []string{m.Table.ValueName(k, v)}, 0)
	if err != nil {
		return -1
	}
	id := m.InternNeed(reqs.Set{m.Table.KeyName(k): r})
	m.pins[PinKey{k, v}] = id
	return id
}

// PinAny returns the need for any of some values of a key.
func (m *Model) PinAny(k reqs.KeyID, values bitset.Set) int {
	var names []string
	for v := values.Next(0); v >= 0; v = values.Next(v + 1) {
		names = append(names, m.Table.ValueName(k, reqs.ValueID(v)))
	}
	if len(names) == 0 {
		return -1
	}
	r, err := reqs.New(corev1.NodeSelectorOpIn, names, 0)
	if err != nil {
		return -1
	}
	return m.InternNeed(reqs.Set{m.Table.KeyName(k): r})
}

// MasksFor returns what a need leaves of a catalogue.
func (m *Model) MasksFor(needID, catalogue int) *Masks {
	n := m.Needs[needID]
	for len(n.masks) <= catalogue {
		n.masks = append(n.masks, nil)
	}
	if n.masks[catalogue] == nil {
		n.masks[catalogue] = m.Catalogues[catalogue].Filter(n.Row)
	}
	return n.masks[catalogue]
}

// FitPool returns what a need leaves of a pool.
func (m *Model) FitPool(needID, poolID int) *PoolFit {
	n := m.Needs[needID]
	if n.Pools == nil {
		n.Pools = make([]*PoolFit, len(m.Pools))
	}
	if f := n.Pools[poolID]; f != nil {
		return f
	}
	p := &m.Pools[poolID]
	f := &PoolFit{}
	n.Pools[poolID] = f
	if !m.Table.Compatible(n.Row, p.Row, true) || !m.KeepsLabels(n, p.Row, p.Catalogue) {
		return f
	}
	left := m.MasksFor(needID, p.Catalogue)
	f.Columns = p.Columns.And(left.Columns)
	f.Types = p.Types.Clone()
	f.Types.And(left.Types)
	f.OK = !f.Columns.Empty() && !f.Types.Empty()
	return f
}

// NodeMeets reports whether nodes with a signature meet a need.
func (m *Model) NodeMeets(needID, signatureID int) bool {
	n := m.Needs[needID]
	for len(n.bySignature) <= signatureID {
		n.bySignature = append(n.bySignature, 0)
	}
	if n.bySignature[signatureID] == 0 {
		n.bySignature[signatureID] = -1
		x := &m.Signatures[signatureID]
		if m.Table.Compatible(n.Row, x.Row, false) && (!x.vague || x.certainlyMeets(n, m.Table)) {
			n.bySignature[signatureID] = 1
		}
	}
	return n.bySignature[signatureID] > 0
}

// NeedOfFreeLabels returns the part of a need that is about labels whose value a pool leaves to the pods: a node can
// have only one value (scheduling 18.7).
func (m *Model) NeedOfFreeLabels(needID, poolID int) int {
	if needID == 0 {
		return 0
	}
	pl := &m.Pools[poolID]
	cat := m.Catalogues[pl.Catalogue]
	free := reqs.Set{}
	for key, r := range m.Needs[needID].Set {
		k, known := m.Table.Key(key)
		if !known || cat.Keys[k].ByOffering || cat.Keys[k].ByType || pl.Row.Defined(k) && !pl.Row.Open(k) && pl.Row.Count(k) == 1 {
			continue
		}
		free[key] = r
	}
	if len(free) == 0 {
		return 0
	}
	return m.InternNeed(free)
}

// RowOf compiles requirements of a planned node. Keys and values that are not in the table do not constrain it.
func (m *Model) RowOf(s reqs.Set) reqs.Row {
	known := reqs.Set{}
	for key, r := range s {
		if m.relevant[key] {
			known[key] = r
		}
	}
	row, err := m.Table.Compile(known)
	if err != nil {
		return m.Table.NewRow()
	}
	return row
}
