package model

import (
	"encoding/binary"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
)

// Node is an existing node that can take pods.
type Node struct {
	Source    *cluster.Node
	Signature int
	Taints    int
	Free      []int64
	Ports     []cluster.HostPort
	Claims    []int // shared claims that are attached
	Full      bool  // overcommitted: takes nothing more (SC-11)

	daemonClaims [][]string // ResourceClaims of DaemonSets that run on it, while it is not initialized
}

// Signature is one distinct combination of the labels in use.
type Signature struct {
	Row    reqs.Row
	Values []int32  // by key of the table; absent or open if there is no certain value
	open   reqs.Set // of a claim that is not launched: requirements that its labels will meet
	vague  bool     // some value is open
}

// What a node has of a key instead of a value.
const (
	Absent int32 = -1
	Open   int32 = -2 // the node is not launched yet, so the value is not known
)

// readNodes reads the nodes that offer capacity: initialized ones first, then by name (SC-18).
func (m *Model) readNodes() {
	order := make([]*cluster.Node, 0, len(m.View.Nodes))
	for i := range m.View.Nodes {
		if !m.View.Nodes[i].Deleting {
			order = append(order, &m.View.Nodes[i])
		}
	}
	slices.SortStableFunc(order, func(a, b *cluster.Node) int {
		if a.Initialized != b.Initialized {
			return bitset.Bit(b.Initialized) - bitset.Bit(a.Initialized)
		}
		return strings.Compare(a.Name, b.Name)
	})
	m.Nodes = make([]Node, 0, len(order))
	slab, scratch := make([]int64, len(order)*m.Lanes), make([]int64, m.Lanes)
	for i, src := range order {
		n := Node{Source: src, Signature: m.internSignature(src), Taints: m.internTaints(src.Taints), Free: slab[i*m.Lanes : (i+1)*m.Lanes]}
		m.fillNode(&n, scratch)
		m.Nodes = append(m.Nodes, n)
	}
}

// fillNode computes the free capacity of a node: allocatable less the pods on it and the DaemonSet pods that are
// still to come (scheduling 6.1).
func (m *Model) fillNode(n *Node, scratch []int64) {
	base := m.View.Resources.Len()
	CopyLanes(n.Free, n.Source.Allocatable, base)
	for d, driver := range m.Drivers {
		n.Free[base+d] = Unlimited
		if limit, known := n.Source.VolumeLimits[driver]; known {
			n.Free[base+d] = int64(limit)
		}
	}
	here := scratch // requests of the DaemonSet pods on the node
	clear(here)
	for i := range n.Source.Pods {
		p := &n.Source.Pods[i]
		if p.Shape == nil {
			continue
		}
		for l := range base {
			v := p.Shape.Requests.At(l)
			n.Free[l] -= v
			if p.Daemon {
				here[l] += v
			}
		}
		m.attachVolumes(n, p.Shape)
		n.Ports = append(n.Ports, p.Shape.HostPorts...)
	}
	coming := m.DaemonRequests(n)
	for i := range m.Daemons {
		if d := &m.Daemons[i]; len(d.Claims) > 0 && !n.Source.Initialized && m.runsOn(d, n) && m.hostsDaemon(d, n.Source.Pool, n.Source.InstanceType) {
			n.daemonClaims = append(n.daemonClaims, d.Claims)
		}
	}
	for l := range base {
		n.Free[l] -= max(0, coming[l]-here[l])
		n.Full = n.Full || n.Free[l] < 0
	}
}

// daemonPlace is all that says which DaemonSets run on a node.
type daemonPlace struct {
	signature, taints  int
	pool, instanceType string // only if some need devices
}

// DaemonRequests is the sum of the requests of DaemonSets on a node.
func (m *Model) DaemonRequests(n *Node) []int64 {
	at := daemonPlace{signature: n.Signature, taints: n.Taints}
	if slices.ContainsFunc(m.Daemons, func(d Daemon) bool { return len(d.Claims) > 0 }) {
		at.pool, at.instanceType = n.Source.Pool, n.Source.InstanceType
	}
	if sum, known := m.daemonSums[at]; known {
		return sum
	}
	sum := make([]int64, m.Lanes)
	for i := range m.Daemons {
		if m.runsOn(&m.Daemons[i], n) && m.hostsDaemon(&m.Daemons[i], n.Source.Pool, n.Source.InstanceType) {
			for l, v := range m.Daemons[i].Requests {
				sum[l] += v
			}
		}
	}
	m.daemonSums[at] = sum
	return sum
}

// attachVolumes counts the volumes of a pod on a node; a claim that several pods share counts once.
func (m *Model) attachVolumes(n *Node, s *cluster.Shape) {
	for _, v := range s.Volumes {
		d := m.DriverIndex(v.Driver)
		if d < 0 { // no pod to be placed uses it
			continue
		}
		if id, shared := m.SharedClaims[v.Claim]; shared {
			if slices.Contains(n.Claims, id) {
				continue
			}
			n.Claims = append(n.Claims, id)
		}
		n.Free[m.View.Resources.Len()+d]--
	}
}

func (m *Model) runsOn(d *Daemon, n *Node) bool {
	if !m.Tolerated(d.tolerations, n.Taints) {
		return false
	}
	return slices.ContainsFunc(d.needs, func(id int) bool { return m.NodeMeets(id, n.Signature) })
}

// internSignature interns the labels of a node as far as they matter.
func (m *Model) internSignature(n *cluster.Node) int {
	values := make([]int32, m.Table.Len())
	key := make([]byte, 0, 4*len(values))
	vague := false
	for k := range values {
		values[k] = m.valueOf(n, reqs.KeyID(k))
		vague = vague || values[k] == Open
		key = binary.LittleEndian.AppendUint32(key, uint32(values[k]))
	}
	if vague {
		key = append(key, needKey(n.Needs)...)
	}
	if id, known := m.signatureIDs[string(key)]; known {
		return id
	}
	labels := reqs.Set{}
	for k, v := range values {
		name := m.Table.KeyName(reqs.KeyID(k))
		if r, says := n.Needs[name]; v == Open && says {
			labels[name] = r
		}
		if v < 0 {
			continue
		}
		r, err := reqs.New(corev1.NodeSelectorOpIn, []string{m.Table.ValueName(reqs.KeyID(k), reqs.ValueID(v))}, 0)
		if err == nil {
			labels[m.Table.KeyName(reqs.KeyID(k))] = r
		}
	}
	row, err := m.Table.Compile(labels)
	if err != nil {
		row = m.Table.NewRow()
	}
	m.signatureIDs[string(key)] = len(m.Signatures)
	m.Signatures = append(m.Signatures, Signature{Row: row, Values: values, open: n.Needs, vague: vague})
	return len(m.Signatures) - 1
}

// valueOf returns what a node has of a key.
func (m *Model) valueOf(n *cluster.Node, k reqs.KeyID) int32 {
	name := m.Table.KeyName(k)
	value, has := m.labelOf(n, name)
	r, says := n.Needs[name]
	switch {
	case has:
	case says && !r.Not && len(r.Values) == 1:
		value = r.Values[0]
	case says && r.Empty():
		return Absent
	case says || n.Needs != nil && m.View.Words.WellKnown(name):
		return Open
	default:
		return Absent
	}
	if v, known := m.Table.Value(k, value); known {
		return int32(v)
	}
	return Absent
}

// certainlyMeets reports whether a node that is not launched yet will meet a need, whatever is launched.
func (x *Signature) certainlyMeets(n *Need, table *reqs.Table) bool {
	for k, v := range x.Values {
		if v != Open || !n.Row.Defined(reqs.KeyID(k)) {
			continue
		}
		r, says := x.open[table.KeyName(reqs.KeyID(k))]
		if !says || r.Not {
			return false
		}
		for _, value := range r.Values {
			if id, known := table.Value(reqs.KeyID(k), value); !known || !n.Row.Allows(reqs.KeyID(k), id) {
				return false
			}
		}
	}
	return true
}

// labelOf reads a label by its canonical key; a label under an alias counts where the canonical one
// is missing.
func (m *Model) labelOf(n *cluster.Node, key string) (string, bool) {
	if value, has := n.Labels[key]; has {
		return m.View.Words.Value(key, value), true
	}
	for _, alias := range m.aliases[key] {
		if value, has := n.Labels[alias]; has {
			return m.View.Words.Value(key, value), true
		}
	}
	return "", false
}
