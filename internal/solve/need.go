package solve

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// need is one distinct set of requirements of pods, with what it leaves of each catalogue and pool.
type need struct {
	set   reqs.Set
	row   reqs.Row
	masks []*masks     // by catalogue
	pools []*fit       // by pool, with the taints left aside
	signs []int8       // by signature of nodes: 0 not asked yet, 1 compatible, -1 not
	there []reqs.KeyID // labels that must be there, whatever their value
}

// masks is what a set of requirements leaves of a catalogue.
type masks struct {
	types set
	cols  columns
}

// fit is what a set of requirements leaves of a pool: nothing unless ok.
type fit struct {
	ok    bool
	types set
	cols  columns
}

type pinKey struct {
	key   reqs.KeyID
	value reqs.ValueID
}

// intern returns the id of a set of requirements; the set must be of keys and values in the table.
func (m *model) intern(s reqs.Set) int {
	if len(s) == 0 && len(m.needs) > 0 {
		return 0
	}
	key := needKey(s)
	if id, known := m.needIDs[key]; known {
		return id
	}
	row, err := m.table.Compile(s)
	if err != nil {
		// Every set was shown to the table; one that was not constrains more than can be met.
		return -1
	}
	id := len(m.needs)
	n := &need{set: s, row: row}
	for k := range m.table.Len() {
		if k := reqs.KeyID(k); row.Defined(k) && row.Operator(k) == corev1.NodeSelectorOpExists {
			n.there = append(n.there, k)
		}
	}
	m.needs = append(m.needs, n)
	m.needIDs[key] = id
	return id
}

// kept reports whether a node with these requirements will have the labels that a need only asks to
// be there: where exclusions are all that is known of a label of a pool's own, it may be missing.
func (m *model) kept(n *need, row reqs.Row, catalogue int) bool {
	for _, k := range n.there {
		x := &m.catalogues[catalogue].keys[k]
		if !x.columns && !x.typed && row.Operator(k) == corev1.NodeSelectorOpNotIn {
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
		appendKey(&b, key, strconv.FormatBool(r.Not))
		appendKey(&b, r.Values...)
		if r.Bounds.HasLo {
			appendKey(&b, "\x01>", strconv.FormatInt(r.Bounds.Lo, 10))
		}
		if r.Bounds.HasHi {
			appendKey(&b, "\x01<", strconv.FormatInt(r.Bounds.Hi, 10))
		}
		b.WriteByte(2)
	}
	return b.String()
}

// both returns the need that demands two needs at once, or -1 if they contradict each other.
func (m *model) both(a, b int) int {
	switch {
	case a < 0 || b < 0:
		return -1
	case a == 0:
		return b
	case b == 0 || a == b:
		return a
	}
	x, y := m.needs[a].set, m.needs[b].set
	if _, conflict := x.Conflict(y); conflict || m.loses(x, y) || m.loses(y, x) {
		return -1
	}
	return m.intern(x.Intersect(y))
}

// loses reports whether exclusions would hide that a label must be there. Together they read NotIn,
// which a node without the label meets; only for labels that a cloud supplies that makes no difference.
func (m *model) loses(there, excluded reqs.Set) bool {
	for key, r := range there {
		if other, says := excluded[key]; says && r.Operator() == corev1.NodeSelectorOpExists &&
			other.Operator() == corev1.NodeSelectorOpNotIn && !m.view.Words.WellKnown(key) {
			return true
		}
	}
	return false
}

// pin returns the need for one value of a key.
func (m *model) pin(k reqs.KeyID, v reqs.ValueID) int {
	if id, known := m.pins[pinKey{k, v}]; known {
		return id
	}
	r, err := reqs.New(corev1.NodeSelectorOpIn, []string{m.table.ValueName(k, v)}, 0)
	if err != nil {
		return -1
	}
	id := m.intern(reqs.Set{m.table.KeyName(k): r})
	m.pins[pinKey{k, v}] = id
	return id
}

// oneOf returns the need for any of some values of a key.
func (m *model) oneOf(k reqs.KeyID, values set) int {
	var names []string
	for v := values.next(0); v >= 0; v = values.next(v + 1) {
		names = append(names, m.table.ValueName(k, reqs.ValueID(v)))
	}
	if len(names) == 0 {
		return -1
	}
	r, err := reqs.New(corev1.NodeSelectorOpIn, names, 0)
	if err != nil {
		return -1
	}
	return m.intern(reqs.Set{m.table.KeyName(k): r})
}

// leaves returns what a need leaves of a catalogue.
func (m *model) leaves(needID, catalogue int) *masks {
	n := m.needs[needID]
	for len(n.masks) <= catalogue {
		n.masks = append(n.masks, nil)
	}
	if n.masks[catalogue] == nil {
		n.masks[catalogue] = m.catalogues[catalogue].leave(n.row)
	}
	return n.masks[catalogue]
}

// fits returns what a need leaves of a pool.
func (m *model) fits(needID, poolID int) *fit {
	n := m.needs[needID]
	if n.pools == nil {
		n.pools = make([]*fit, len(m.pools))
	}
	if f := n.pools[poolID]; f != nil {
		return f
	}
	p := &m.pools[poolID]
	f := &fit{}
	n.pools[poolID] = f
	if !m.table.Compatible(n.row, p.row, true) || !m.kept(n, p.row, p.catalogue) {
		return f
	}
	left := m.leaves(needID, p.catalogue)
	f.cols = p.cols.and(left.cols)
	f.types = p.types.clone()
	f.types.and(left.types)
	f.ok = !f.cols.empty() && !f.types.empty()
	return f
}

// onNode reports whether nodes with a signature meet a need.
func (m *model) onNode(needID, signID int) bool {
	n := m.needs[needID]
	for len(n.signs) <= signID {
		n.signs = append(n.signs, 0)
	}
	if n.signs[signID] == 0 {
		n.signs[signID] = -1
		x := &m.signs[signID]
		if m.table.Compatible(n.row, x.row, false) && (!x.vague || x.certain(n, m.table)) {
			n.signs[signID] = 1
		}
	}
	return n.signs[signID] > 0
}

// tolerations is one distinct list of tolerations.
type tolerations struct {
	list  []corev1.Toleration
	soft  bool   // PreferNoSchedule is tolerated too, as the last step of relaxation
	known []int8 // by taint set: 0 not asked yet, 1 tolerated, -1 not
}

// taintSet is one distinct list of taints.
type taintSet []corev1.Taint

func (m *model) tolerate(list []corev1.Toleration, soft bool) int {
	var b strings.Builder
	for _, t := range list {
		appendKey(&b, t.Key, string(t.Operator), t.Value, string(t.Effect))
	}
	b.WriteString(strconv.FormatBool(soft))
	if id, known := m.tolIDs[b.String()]; known {
		return id
	}
	m.tolIDs[b.String()] = len(m.tolerations)
	m.tolerations = append(m.tolerations, tolerations{list: list, soft: soft})
	return len(m.tolerations) - 1
}

func (m *model) taint(list []corev1.Taint) int {
	var b strings.Builder
	for _, t := range list {
		appendKey(&b, t.Key, t.Value, string(t.Effect))
	}
	if id, known := m.taintIDs[b.String()]; known {
		return id
	}
	m.taintIDs[b.String()] = len(m.taints)
	m.taints = append(m.taints, list)
	return len(m.taints) - 1
}

// tolerated reports whether a list of tolerations covers a list of taints.
func (m *model) tolerated(tolID, taintID int) bool {
	t := &m.tolerations[tolID]
	for len(t.known) <= taintID {
		t.known = append(t.known, 0)
	}
	if t.known[taintID] == 0 {
		t.known[taintID] = 1
		if _, found := untolerated(t.list, t.soft, m.taints[taintID]); found {
			t.known[taintID] = -1
		}
	}
	return t.known[taintID] > 0
}

// untolerated returns the first taint that nothing tolerates. A PreferNoSchedule taint counts like
// any other until it is relaxed (SC-14).
func untolerated(list []corev1.Toleration, soft bool, taints []corev1.Taint) (corev1.Taint, bool) {
	for _, taint := range taints {
		if soft && taint.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !covers(list, &taint) {
			return taint, true
		}
	}
	return corev1.Taint{}, false
}

func covers(list []corev1.Toleration, taint *corev1.Taint) bool {
	for i := range list {
		t := &list[i]
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			return true
		case "", corev1.TolerationOpEqual:
			if t.Key != "" && t.Value == taint.Value {
				return true
			}
		default: // Lt and Gt compare numbers
			if numeric(t, taint) {
				return true
			}
		}
	}
	return false
}

// numeric is the comparison of Kubernetes' numeric toleration operators.
func numeric(t *corev1.Toleration, taint *corev1.Taint) bool {
	want, err := strconv.ParseInt(t.Value, 10, 64)
	if err != nil || t.Key == "" {
		return false
	}
	have, err := strconv.ParseInt(taint.Value, 10, 64)
	if err != nil {
		return false
	}
	return t.Operator == corev1.TolerationOpLt && have < want || t.Operator == corev1.TolerationOpGt && have > want
}
