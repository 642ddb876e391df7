package model

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

// GroupKind is which of the three topology rules a group counts for.
type GroupKind int8

// The kinds of topology rules: spread constraints, pod affinity, pod anti-affinity.
const (
	SpreadGroup GroupKind = iota
	AffinityGroup
	AntiAffinityGroup
)

// Group counts, per domain of a topology key, the pods that a constraint selects. Constraints that count the same
// pods share one (SC-31).
type Group struct {
	Kind          GroupKind
	PerHost       bool
	Key           reqs.KeyID // meaningless for host
	Selector      cluster.Selector
	namespaces    []string
	allNamespaces bool
	Filter        *NodeFilter // which nodes count; nil: all
	Selected      []int32     // bound pods that it selects, by value of the key
	Owners        []int32     // bound pods that own the term, by value of the key; anti-affinity only
	Wanted        bool        // some pod to be placed has the rule
	asymmetric    bool        // selects pods that do not have the rule: the order of pods matters
}

// NodeFilter is which nodes a spread constraint counts (SC-28).
type NodeFilter struct {
	Needs       []int // alternatives; nil: any node
	Tolerations int   // -1: taints do not matter
}

// HostKey is a group per host, and a place: a node of the model, or a planned one after these.
type HostKey struct{ Group, Node int32 }

// HostCount is the pods on a node that a group selects, and those that own its anti-affinity term.
type HostCount struct{ Selected, Owners int32 }

// LabelSet is one distinct (namespace, labels) of pods, and the groups that select it.
type LabelSet struct {
	namespace string
	labels    map[string]string
	groups    []int
	known     bool
}

// groupIndex finds the groups that may select some labels without checking all of them.
type groupIndex struct {
	by   map[Label][]int // groups whose selector requires this label
	rest []int
}

// readGroups reads what topology rules count. It returns false if the deadline passed.
func (m *Model) readGroups(late func() bool) bool {
	ignore := m.Problem.Policy.IgnorePreferences
	seen := make(map[*cluster.Shape]bool, len(m.Classes))
	for k := range m.Classes {
		s := m.Classes[k].Shape
		m.Classes[k].labelSet = m.InternLabels(s)
		if seen[s] || len(s.Spread)+len(s.Affinity)+len(s.AntiAffinity) == 0 || s.Refuses || len(s.Invalid) > 0 {
			continue
		}
		if late() {
			return false
		}
		seen[s] = true
		for i := range s.Spread {
			if !s.Spread[i].Soft || !ignore {
				m.Groups[m.internSpreadGroup(s, &s.Spread[i])].Wanted = true
			}
		}
		for i := range s.Affinity {
			if s.Affinity[i].Weight == 0 || !ignore {
				m.Groups[m.InternTermGroup(AffinityGroup, &s.Affinity[i])].Wanted = true
			}
		}
		for i := range s.AntiAffinity {
			if s.AntiAffinity[i].Weight == 0 || !ignore {
				m.Groups[m.InternTermGroup(AntiAffinityGroup, &s.AntiAffinity[i])].Wanted = true
			}
		}
	}
	for i := range m.View.Nodes { // anti-affinity of bound pods applies to others (SC-35)
		for j := range m.View.Nodes[i].Pods {
			p := &m.View.Nodes[i].Pods[j]
			if p.Shape == nil || seen[p.Shape] {
				continue
			}
			seen[p.Shape] = true
			for t := range p.Shape.AntiAffinity {
				if p.Shape.AntiAffinity[t].Weight == 0 {
					m.InternTermGroup(AntiAffinityGroup, &p.Shape.AntiAffinity[t])
				}
			}
		}
	}
	m.indexGroups()
	m.readDomains()
	return true
}

func (m *Model) internSpreadGroup(s *cluster.Shape, t *cluster.Spread) int {
	g := Group{Kind: SpreadGroup, Selector: t.Selector, namespaces: []string{s.Namespace}, Filter: &NodeFilter{Tolerations: -1}}
	if !t.AnyNode {
		for _, r := range s.Required {
			if id := m.InternNeed(r); id > 0 {
				g.Filter.Needs = append(g.Filter.Needs, id)
			} else if id == 0 { // an alternative that any node meets
				g.Filter.Needs = nil
				break
			}
		}
	}
	if t.HonorTaint {
		g.Filter.Tolerations = m.InternTolerations(s.Tolerations, true) // kube-scheduler ignores PreferNoSchedule taints here
	}
	return m.addGroup(g, t.Key)
}

// InternTermGroup returns the group that counts the pods of an affinity or anti-affinity term.
func (m *Model) InternTermGroup(k GroupKind, t *cluster.PodTerm) int {
	return m.addGroup(Group{Kind: k, Selector: t.Selector, namespaces: t.Namespaces, allNamespaces: t.Everywhere}, t.Key)
}

func (m *Model) addGroup(g Group, key string) int {
	const usual = 128 // bytes
	var b strings.Builder
	b.Grow(usual)
	AppendKey(&b, strconv.Itoa(int(g.Kind)), key, g.Selector.Text, strconv.FormatBool(g.allNamespaces))
	AppendKey(&b, g.namespaces...)
	if g.Filter != nil {
		for _, n := range g.Filter.Needs {
			AppendKey(&b, strconv.Itoa(n))
		}
		AppendKey(&b, "t", strconv.Itoa(g.Filter.Tolerations))
	}
	if id, known := m.groupIDs[b.String()]; known {
		return id
	}
	if g.PerHost = key == corev1.LabelHostname; !g.PerHost {
		g.Key, _ = m.Table.Key(key)
		n := m.Table.ValueCount(g.Key)
		g.Selected, g.Owners = make([]int32, n), make([]int32, n)
	}
	m.groupIDs[b.String()] = len(m.Groups)
	m.Groups = append(m.Groups, &g)
	return len(m.Groups) - 1
}

func (m *Model) indexGroups() {
	m.index.by = map[Label][]int{}
	for id, g := range m.Groups {
		if g.Selector.Is == nil {
			continue // selects nothing (SC-30)
		}
		if l, found := demandedLabel(g.Selector.Is); found {
			m.index.by[l] = append(m.index.by[l], id)
		} else {
			m.index.rest = append(m.index.rest, id)
		}
	}
}

// demandedLabel returns a label that every pod selected by a selector has.
func demandedLabel(s labels.Selector) (Label, bool) {
	list, _ := s.Requirements()
	for i := range list {
		switch list[i].Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if v := list[i].ValuesUnsorted(); len(v) == 1 {
				return Label{list[i].Key(), v[0]}, true
			}
		default:
		}
	}
	return Label{}, false
}

// InternLabels interns the labels of a shape.
func (m *Model) InternLabels(s *cluster.Shape) int {
	if id, known := m.shapeLabelSets[s]; known {
		return id
	}
	keys := make([]string, 0, len(s.Labels))
	for k := range s.Labels {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	AppendKey(&b, s.Namespace)
	for _, k := range keys {
		AppendKey(&b, k, s.Labels[k])
	}
	id, known := m.labelSetIDs[b.String()]
	if !known {
		id = len(m.labelSets)
		m.labelSetIDs[b.String()] = id
		m.labelSets = append(m.labelSets, LabelSet{namespace: s.Namespace, labels: s.Labels})
	}
	m.shapeLabelSets[s] = id
	return id
}

// GroupsSelecting returns the groups that select pods with some labels, in order.
func (m *Model) GroupsSelecting(labelSetID int) []int {
	w := &m.labelSets[labelSetID]
	if w.known {
		return w.groups
	}
	w.known = true
	try := func(ids []int) {
		for _, id := range ids {
			if m.Groups[id].selects(w) {
				w.groups = append(w.groups, id)
			}
		}
	}
	// any order: groups are sorted below
	for k, v := range w.labels {
		try(m.index.by[Label{k, v}])
	}
	try(m.index.rest)
	slices.Sort(w.groups)
	return w.groups
}

func (g *Group) selects(w *LabelSet) bool {
	if !g.allNamespaces {
		if _, in := slices.BinarySearch(g.namespaces, w.namespace); !in {
			return false
		}
	}
	return g.Selector.Matches(w.labels)
}

// countBound counts the pods that run already (SC-27). Those of terminating nodes count only if they are not among
// the pods to be placed. It returns false if the deadline passed.
func (m *Model) countBound(late func() bool) bool {
	if len(m.Groups) == 0 {
		return true
	}
	for i := range m.Nodes {
		if late() {
			return false
		}
		for j := range m.Nodes[i].Source.Pods {
			m.countPod(&m.Nodes[i].Source.Pods[j], &m.Nodes[i], int32(i))
		}
	}
	var placing map[cluster.PodKey]bool
	for i := range m.View.Nodes {
		n := &m.View.Nodes[i]
		if !n.Deleting {
			continue
		}
		if placing == nil {
			placing = make(map[cluster.PodKey]bool, len(m.Pods))
			for j := range m.Pods {
				placing[m.Pods[j].Key] = true
			}
		}
		leaving := Node{Source: n, Signature: m.internSignature(n), Taints: m.internTaints(n.Taints)}
		for j := range n.Pods {
			if !placing[n.Pods[j].Key] {
				m.countPod(&n.Pods[j], &leaving, -1)
			}
		}
	}
	return true
}

// countPod counts a pod on a node; place is -1 if the node is terminating and takes no pods.
func (m *Model) countPod(p *cluster.Pod, n *Node, place int32) {
	if p.Shape == nil || p.Terminating {
		return
	}
	values := m.Signatures[n.Signature].Values
	for _, id := range m.GroupsSelecting(m.InternLabels(p.Shape)) {
		if m.CountsNode(m.Groups[id], n) {
			m.addCount(id, place, values, HostCount{Selected: 1})
		}
	}
	for i := range p.Shape.AntiAffinity {
		if t := &p.Shape.AntiAffinity[i]; t.Weight == 0 {
			m.addCount(m.InternTermGroup(AntiAffinityGroup, t), place, values, HostCount{Owners: 1})
		}
	}
}

func (m *Model) addCount(id int, place int32, values []int32, by HostCount) {
	g := m.Groups[id]
	if g.PerHost {
		if place >= 0 {
			at := HostKey{int32(id), place}
			c := m.HostCounts[at]
			m.HostCounts[at] = HostCount{c.Selected + by.Selected, c.Owners + by.Owners}
		}
		return
	}
	if v := values[g.Key]; v >= 0 {
		g.Selected[v] += by.Selected
		g.Owners[v] += by.Owners
	}
}

// CountsNode reports whether pods on a node count for a group (SC-28).
func (m *Model) CountsNode(g *Group, n *Node) bool {
	f := g.Filter
	if f == nil {
		return true
	}
	if f.Tolerations >= 0 && !m.Tolerated(f.Tolerations, n.Taints) {
		return false
	}
	return f.Needs == nil || slices.ContainsFunc(f.Needs, func(id int) bool { return m.NodeMeets(id, n.Signature) })
}

// GroupsAffectedBy are the groups by which a running pod affects where others may run.
func (m *Model) GroupsAffectedBy(s *cluster.Shape) []int {
	var list []int
	for _, g := range m.GroupsSelecting(m.InternLabels(s)) {
		if m.Groups[g].OrderMatters() {
			list = append(list, g)
		}
	}
	for i := range s.AntiAffinity {
		if s.AntiAffinity[i].Weight == 0 {
			if g := m.InternTermGroup(AntiAffinityGroup, &s.AntiAffinity[i]); m.Groups[g].OrderMatters() {
				list = append(list, g)
			}
		}
	}
	return list
}

// OrderMatters reports whether the order in which pods are placed matters to a rule. It does not for anti-affinity,
// nor for spreading over hosts if the rule counts only pods that have it.
func (g *Group) OrderMatters() bool {
	return !g.PerHost || g.Kind == AffinityGroup || g.Kind == SpreadGroup && g.asymmetric
}
