package solve

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

type kind int8

const (
	spreading kind = iota
	together
	apart
)

// group counts, per domain of a topology key, the pods that a constraint selects. Constraints that
// count the same share one (SC-31).
type group struct {
	kind       kind
	host       bool
	key        reqs.KeyID // meaningless for host
	selector   cluster.Selector
	namespaces []string
	everywhere bool
	filter     *nodeFilter // which nodes count; nil: all
	sel        []int32     // bound pods that it selects, by value of the key
	own        []int32     // bound pods that demand it, by value of the key; of apart only
	wanted     bool        // some pod to be placed demands it
	lopsided   bool        // selects pods that do not demand it: who comes first matters
}

// nodeFilter is which nodes a spread constraint counts (SC-28).
type nodeFilter struct {
	needs []int // alternatives; nil: any node
	tol   int   // -1: taints do not matter
}

type hostKey struct{ group, node int32 }

type hostCount struct{ sel, own int32 }

// labelSet is one distinct (namespace, labels) of pods, and the groups that select it.
type labelSet struct {
	namespace string
	labels    map[string]string
	groups    []int
	known     bool
}

// groupIndex finds the groups that may select some labels without asking all of them.
type groupIndex struct {
	by   map[label][]int // groups whose selector demands this label
	rest []int
}

// domains are the values of a key that a topology can choose among (SC-26).
type domains struct {
	used   bool
	all    set
	nodes  set   // of existing nodes
	byPool []set // that a pool can offer
}

// readGroups reads what the rules over topologies count. It is false if it was late.
func (m *model) readGroups(late func() bool) bool {
	ignore := m.problem.Policy.IgnorePreferences
	seen := make(map[*cluster.Shape]bool, len(m.classes))
	for k := range m.classes {
		s := m.classes[k].shape
		m.classes[k].wearer = m.internLabels(s)
		if seen[s] || len(s.Spread)+len(s.Affinity)+len(s.AntiAffinity) == 0 || s.Refuses || len(s.Invalid) > 0 {
			continue
		}
		if late() {
			return false
		}
		seen[s] = true
		for i := range s.Spread {
			if !s.Spread[i].Soft || !ignore {
				m.groups[m.spreadGroup(s, &s.Spread[i])].wanted = true
			}
		}
		for i := range s.Affinity {
			if s.Affinity[i].Weight == 0 || !ignore {
				m.groups[m.termGroup(together, &s.Affinity[i])].wanted = true
			}
		}
		for i := range s.AntiAffinity {
			if s.AntiAffinity[i].Weight == 0 || !ignore {
				m.groups[m.termGroup(apart, &s.AntiAffinity[i])].wanted = true
			}
		}
	}
	for i := range m.view.Nodes { // those of bound pods keep others away (SC-35)
		for j := range m.view.Nodes[i].Pods {
			p := &m.view.Nodes[i].Pods[j]
			if p.Shape == nil || seen[p.Shape] {
				continue
			}
			seen[p.Shape] = true
			for t := range p.Shape.AntiAffinity {
				if p.Shape.AntiAffinity[t].Weight == 0 {
					m.termGroup(apart, &p.Shape.AntiAffinity[t])
				}
			}
		}
	}
	m.indexGroups()
	m.readDomains()
	return true
}

func (m *model) spreadGroup(s *cluster.Shape, t *cluster.Spread) int {
	g := group{kind: spreading, selector: t.Selector, namespaces: []string{s.Namespace}, filter: &nodeFilter{tol: -1}}
	if !t.AnyNode {
		for _, r := range s.Required {
			if id := m.intern(r); id > 0 {
				g.filter.needs = append(g.filter.needs, id)
			} else if id == 0 { // an alternative that any node meets
				g.filter.needs = nil
				break
			}
		}
	}
	if t.HonorTaint {
		g.filter.tol = m.tolerate(s.Tolerations, true) // kube-scheduler looks at no soft taint here
	}
	return m.addGroup(g, t.Key)
}

func (m *model) termGroup(k kind, t *cluster.PodTerm) int {
	return m.addGroup(group{kind: k, selector: t.Selector, namespaces: t.Namespaces, everywhere: t.Everywhere}, t.Key)
}

func (m *model) addGroup(g group, key string) int {
	const usual = 128 // bytes
	var b strings.Builder
	b.Grow(usual)
	appendKey(&b, strconv.Itoa(int(g.kind)), key, g.selector.Text, strconv.FormatBool(g.everywhere))
	appendKey(&b, g.namespaces...)
	if g.filter != nil {
		for _, n := range g.filter.needs {
			appendKey(&b, strconv.Itoa(n))
		}
		appendKey(&b, "t", strconv.Itoa(g.filter.tol))
	}
	if id, known := m.groupIDs[b.String()]; known {
		return id
	}
	if g.host = key == corev1.LabelHostname; !g.host {
		g.key, _ = m.table.Key(key)
		n := m.table.ValueCount(g.key)
		g.sel, g.own = make([]int32, n), make([]int32, n)
	}
	m.groupIDs[b.String()] = len(m.groups)
	m.groups = append(m.groups, &g)
	return len(m.groups) - 1
}

func (m *model) indexGroups() {
	m.index.by = map[label][]int{}
	for id, g := range m.groups {
		if g.selector.Is == nil {
			continue // selects nothing (SC-30)
		}
		if l, found := demands(g.selector.Is); found {
			m.index.by[l] = append(m.index.by[l], id)
		} else {
			m.index.rest = append(m.index.rest, id)
		}
	}
}

// demands returns a label that everything a selector selects has.
func demands(s labels.Selector) (label, bool) {
	list, _ := s.Requirements()
	for i := range list {
		switch list[i].Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if v := list[i].ValuesUnsorted(); len(v) == 1 {
				return label{list[i].Key(), v[0]}, true
			}
		default:
		}
	}
	return label{}, false
}

// internLabels interns the labels of a shape.
func (m *model) internLabels(s *cluster.Shape) int {
	if id, known := m.shapeWear[s]; known {
		return id
	}
	keys := make([]string, 0, len(s.Labels))
	for k := range s.Labels {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	appendKey(&b, s.Namespace)
	for _, k := range keys {
		appendKey(&b, k, s.Labels[k])
	}
	id, known := m.wearerIDs[b.String()]
	if !known {
		id = len(m.labelSets)
		m.wearerIDs[b.String()] = id
		m.labelSets = append(m.labelSets, labelSet{namespace: s.Namespace, labels: s.Labels})
	}
	m.shapeWear[s] = id
	return id
}

// selecting returns the groups that select pods with some labels, in order.
func (m *model) selecting(wearerID int) []int {
	w := &m.labelSets[wearerID]
	if w.known {
		return w.groups
	}
	w.known = true
	try := func(ids []int) {
		for _, id := range ids {
			if m.groups[id].selects(w) {
				w.groups = append(w.groups, id)
			}
		}
	}
	// any order: groups are sorted below
	for k, v := range w.labels {
		try(m.index.by[label{k, v}])
	}
	try(m.index.rest)
	slices.Sort(w.groups)
	return w.groups
}

func (g *group) selects(w *labelSet) bool {
	if !g.everywhere {
		if _, in := slices.BinarySearch(g.namespaces, w.namespace); !in {
			return false
		}
	}
	return g.selector.Matches(w.labels)
}

// readDomains collects the values that topologies of each key can use.
func (m *model) readDomains() {
	m.domains = make([]domains, m.table.Len())
	for _, g := range m.groups {
		if g.host || m.domains[g.key].used {
			continue
		}
		n := m.table.ValueCount(g.key)
		d := &m.domains[g.key]
		*d = domains{used: true, all: newSet(n), nodes: newSet(n)}
		for i := range m.nodes {
			if v := m.signs[m.nodes[i].sign].values[g.key]; v >= 0 {
				d.nodes.add(int(v))
			}
		}
		d.all.or(d.nodes)
		for i := range m.pools {
			offers := m.offered(i, g.key)
			d.byPool = append(d.byPool, offers)
			d.all.or(offers)
		}
	}
}

// offered returns the values of a key that nodes of a pool can have.
func (m *model) offered(poolID int, k reqs.KeyID) set {
	p := &m.pools[poolID]
	c := m.catalogues[p.catalogue]
	x := &c.keys[k]
	out := newSet(m.table.ValueCount(k))
	switch {
	case x.columns:
		for v, with := range x.colWith {
			cols := with.and(p.cols)
			for t := p.types.next(0); t >= 0 && !cols.empty(); t = p.types.next(t + 1) {
				// A zone that has no capacity at the moment is a domain all the same.
				if c.offer[t].and(cols).empty() {
					continue
				}
				out.add(v)
				break
			}
		}
	case x.typed:
		for v, with := range x.with {
			if with != nil && with.meets(p.types) {
				out.add(v)
			}
		}
	}
	if p.row.Defined(k) && !p.row.Open(k) {
		finite := set(p.row.Bits(k))
		if x.columns || x.typed {
			return out
		}
		for v := finite.next(0); v >= 0 && v < m.table.ValueCount(k); v = finite.next(v + 1) {
			out.add(v)
		}
	}
	return out
}

// countBound counts the pods that run already (SC-27). Those of nodes that are going away count only
// if they are not among the pods to be placed. It is false if it was late.
func (m *model) countBound(late func() bool) bool {
	if len(m.groups) == 0 {
		return true
	}
	for i := range m.nodes {
		if late() {
			return false
		}
		for j := range m.nodes[i].src.Pods {
			m.countPod(&m.nodes[i].src.Pods[j], &m.nodes[i], int32(i))
		}
	}
	var placing map[cluster.PodKey]bool
	for i := range m.view.Nodes {
		n := &m.view.Nodes[i]
		if !n.Deleting {
			continue
		}
		if placing == nil {
			placing = make(map[cluster.PodKey]bool, len(m.pods))
			for j := range m.pods {
				placing[m.pods[j].Key] = true
			}
		}
		leaving := node{src: n, sign: m.signOf(n), taints: m.taint(n.Taints)}
		for j := range n.Pods {
			if !placing[n.Pods[j].Key] {
				m.countPod(&n.Pods[j], &leaving, -1)
			}
		}
	}
	return true
}

// countPod counts a pod on a node; place is -1 if the node is going away and offers no room.
func (m *model) countPod(p *cluster.Pod, n *node, place int32) {
	if p.Shape == nil || p.Terminating {
		return
	}
	values := m.signs[n.sign].values
	for _, id := range m.selecting(m.internLabels(p.Shape)) {
		if m.counts(m.groups[id], n) {
			m.bump(id, place, values, hostCount{sel: 1})
		}
	}
	for i := range p.Shape.AntiAffinity {
		if t := &p.Shape.AntiAffinity[i]; t.Weight == 0 {
			m.bump(m.termGroup(apart, t), place, values, hostCount{own: 1})
		}
	}
}

func (m *model) bump(id int, place int32, values []int32, by hostCount) {
	g := m.groups[id]
	if g.host {
		if place >= 0 {
			at := hostKey{int32(id), place}
			c := m.hosts[at]
			m.hosts[at] = hostCount{c.sel + by.sel, c.own + by.own}
		}
		return
	}
	if v := values[g.key]; v >= 0 {
		g.sel[v] += by.sel
		g.own[v] += by.own
	}
}

// counts reports whether pods on a node count for a group (SC-28).
func (m *model) counts(g *group, n *node) bool {
	f := g.filter
	if f == nil {
		return true
	}
	if f.tol >= 0 && !m.tolerated(f.tol, n.taints) {
		return false
	}
	return f.needs == nil || slices.ContainsFunc(f.needs, func(id int) bool { return m.onNode(id, n.sign) })
}

// groupsAffectedBy are the groups by which a pod that runs matters to where others go.
func (m *model) groupsAffectedBy(s *cluster.Shape) []int {
	var list []int
	for _, g := range m.selecting(m.internLabels(s)) {
		if m.groups[g].couples() {
			list = append(list, g)
		}
	}
	for i := range s.AntiAffinity {
		if s.AntiAffinity[i].Weight == 0 {
			if g := m.termGroup(apart, &s.AntiAffinity[i]); m.groups[g].couples() {
				list = append(list, g)
			}
		}
	}
	return list
}
