package solve

import (
	"encoding/binary"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// pool is a pool that nodes can be bought from.
type pool struct {
	src                  *cluster.Pool
	row                  reqs.Row
	catalogue            int
	types                set  // those its requirements leave, with an available offering
	insufficientCapacity bool // its requirements leave types, but none can be had at present
	cols                 columns
	taints               int
	rooms                *rooms
	minimums             []minimum // minValues it demands
	limits               []limit
	nodeLimit            int64
	reserved             columns // columns of reservations
}

// minimum is one minValues.
type minimum struct {
	key    reqs.KeyID
	values int
}

type limit struct {
	lane      int
	remaining int64
}

// daemon is a DaemonSet as planning sees it.
type daemon struct {
	key   cluster.PodKey
	needs []int // alternatives on a node that is there
	fresh []int // alternatives on a new node, which will be registered and initialized (SC-23)
	tol   int
	req   []int64
	ports []cluster.HostPort
}

// rooms is what is left of each type once the DaemonSets that would run on it are there. Pools with
// the same catalogue and the same DaemonSets share it.
type rooms struct {
	key       string
	catalogue int
	room      []int64              // types × lanes
	over      []int64              // types × lanes: what the DaemonSets take
	runs      []set                // by DaemonSet: the types it would run on
	ports     [][]cluster.HostPort // by type; nil if no DaemonSet has any
}

func (m *model) readDaemons() {
	for i := range m.view.Daemons {
		s := m.view.Daemons[i].Shape
		if s == nil || len(s.Invalid) > 0 {
			continue
		}
		d := daemon{key: m.view.Daemons[i].Key, tol: m.tolerate(s.Tolerations, true), req: make([]int64, m.lanes), ports: s.HostPorts}
		m.requests(d.req, s)
		for l := m.view.Resources.Len(); l < m.lanes; l++ {
			d.req[l] = 0
		}
		for _, r := range s.Required {
			if id := m.intern(r); id >= 0 {
				d.needs = append(d.needs, id)
			}
			if fresh, possible := onceUp(r); possible {
				d.fresh = append(d.fresh, m.intern(fresh))
			}
		}
		m.daemons = append(m.daemons, d)
	}
}

// onceUp returns what is left of requirements for a node that carries the labels of one that is up.
func onceUp(s reqs.Set) (reqs.Set, bool) {
	out := s
	for _, key := range []string{karpv1.LabelRegistered, karpv1.LabelInitialized} {
		if r, asked := s[key]; asked {
			if !r.Has("true") {
				return nil, false
			}
			if len(out) == len(s) {
				out = s.Clone()
			}
			delete(out, key)
		}
	}
	return out, true
}

func (m *model) readPools() {
	for i := range m.view.Pools {
		src := &m.view.Pools[i]
		if src.Closed || len(src.Types) == 0 {
			continue
		}
		row, err := m.table.Compile(src.Requirements)
		if err != nil {
			continue // cannot be: the table was shown every pool
		}
		p := pool{src: src, row: row, catalogue: m.catalogueOf(i), taints: m.taint(src.Taints), nodeLimit: unlimited}
		if src.NodeLimit != nil {
			p.nodeLimit = *src.NodeLimit
		}
		for _, t := range src.Taints {
			m.softTaint = m.softTaint || t.Effect == corev1.TaintEffectPreferNoSchedule
		}
		for _, l := range src.Limits {
			lane, known := m.view.Resources.Lane(l.Resource)
			if known {
				p.limits = append(p.limits, limit{lane, l.Remaining})
			}
		}
		c := m.catalogues[p.catalogue]
		left := c.leave(row)
		p.types, p.cols = left.types, left.cols
		for t := range c.types {
			if c.avail[t].and(p.cols).empty() {
				p.types.drop(t)
			}
		}
		for i := range c.cols {
			if c.cols[i].capacity == karpv1.CapacityTypeReserved && c.cols[i].reservation != "" && !m.problem.Policy.NoReserved {
				p.reserved.add(i)
			}
		}
		p.reserved = p.reserved.and(p.cols)
		p.insufficientCapacity = p.types.empty() && meets(src)
		for k := range m.table.Len() {
			if n := row.MinValues(reqs.KeyID(k)); n > 0 {
				p.minimums = append(p.minimums, minimum{reqs.KeyID(k), n})
			}
		}
		m.pools = append(m.pools, p)
	}
	for i := range m.pools {
		m.pools[i].rooms = m.daemonCapacities(i)
	}
}

// daemonCapacities finds which DaemonSets run on which types of a pool (SC-23, SC-24).
func (m *model) daemonCapacities(poolID int) *rooms {
	p := &m.pools[poolID]
	c := m.catalogues[p.catalogue]
	runs := make([]set, 0, len(m.daemons))
	var key strings.Builder
	for i := range m.daemons {
		d := &m.daemons[i]
		types := newSet(len(c.types))
		if m.tolerated(d.tol, p.taints) {
			for _, n := range d.fresh {
				if f := m.fits(n, poolID); f.ok {
					left := m.leaves(n, p.catalogue)
					for t := left.types.next(0); t >= 0; t = left.types.next(t + 1) {
						if !c.offer[t].and(left.cols).empty() {
							types.add(t)
						}
					}
				}
			}
		}
		runs = append(runs, types)
		for _, w := range types {
			appendKey(&key, string(rune(w&0xffff)), string(rune(w>>16&0xffff)), string(rune(w>>32&0xffff)), string(rune(w>>48)))
		}
	}
	for _, r := range m.rooms {
		if r.catalogue == p.catalogue && r.key == key.String() {
			return r
		}
	}
	r := &rooms{key: key.String(), catalogue: p.catalogue, room: slices.Clone(c.room), over: make([]int64, len(c.room)), runs: runs}
	for i := range m.daemons {
		for t := runs[i].next(0); t >= 0; t = runs[i].next(t + 1) {
			for l, v := range m.daemons[i].req {
				r.over[t*m.lanes+l] += v
				r.room[t*m.lanes+l] -= v
			}
			if len(m.daemons[i].ports) > 0 {
				if r.ports == nil {
					r.ports = make([][]cluster.HostPort, len(c.types))
				}
				r.ports[t] = append(r.ports[t], m.daemons[i].ports...)
			}
		}
	}
	m.rooms = append(m.rooms, r)
	return r
}

// node is an existing node that can take pods.
type node struct {
	src    *cluster.Node
	sign   int
	taints int
	free   []int64
	ports  []cluster.HostPort
	claims []int // shared claims that are attached
	full   bool  // overcommitted: takes nothing more (SC-11)
}

// sign is one distinct combination of the labels that matter.
type sign struct {
	row    reqs.Row
	values []int32  // by key of the table; absent or open if there is no certain value
	open   reqs.Set // of a claim that is not launched: what its labels will satisfy
	vague  bool     // some value is open
}

// What a node has of a key instead of a value.
const (
	absent int32 = -1
	open   int32 = -2 // some value, but it is not known which: the node is not launched yet
)

// readNodes reads the nodes that offer capacity: initialized ones first, then by name (SC-18).
func (m *model) readNodes() {
	order := make([]*cluster.Node, 0, len(m.view.Nodes))
	for i := range m.view.Nodes {
		if !m.view.Nodes[i].Deleting {
			order = append(order, &m.view.Nodes[i])
		}
	}
	slices.SortStableFunc(order, func(a, b *cluster.Node) int {
		if a.Initialized != b.Initialized {
			return boolInt(b.Initialized) - boolInt(a.Initialized)
		}
		return strings.Compare(a.Name, b.Name)
	})
	m.nodes = make([]node, 0, len(order))
	slab, scratch := make([]int64, len(order)*m.lanes), make([]int64, m.lanes)
	for i, src := range order {
		n := node{src: src, sign: m.signOf(src), taints: m.taint(src.Taints), free: slab[i*m.lanes : (i+1)*m.lanes]}
		m.fillNode(&n, scratch)
		m.nodes = append(m.nodes, n)
	}
}

// fillNode works out what is left on a node: allocatable less the pods on it and the DaemonSet pods
// that are still to come (scheduling 6.1).
func (m *model) fillNode(n *node, scratch []int64) {
	base := m.view.Resources.Len()
	flat(n.free, n.src.Allocatable, base)
	for d, driver := range m.drivers {
		n.free[base+d] = unlimited
		if limit, known := n.src.VolumeLimits[driver]; known {
			n.free[base+d] = int64(limit)
		}
	}
	here := scratch // what DaemonSet pods already there take
	clear(here)
	for i := range n.src.Pods {
		p := &n.src.Pods[i]
		if p.Shape == nil {
			continue
		}
		for l := range base {
			v := p.Shape.Requests.At(l)
			n.free[l] -= v
			if p.Daemon {
				here[l] += v
			}
		}
		m.attach(n, p.Shape)
		n.ports = append(n.ports, p.Shape.HostPorts...)
	}
	coming := m.comingTo(n)
	for l := range base {
		n.free[l] -= max(0, coming[l]-here[l])
		n.full = n.full || n.free[l] < 0
	}
}

// comingTo is what DaemonSets take of a node in all.
func (m *model) comingTo(n *node) []int64 {
	at := [2]int{n.sign, n.taints}
	if sum, known := m.coming[at]; known {
		return sum
	}
	sum := make([]int64, m.lanes)
	for i := range m.daemons {
		if m.runsOn(&m.daemons[i], n) {
			for l, v := range m.daemons[i].req {
				sum[l] += v
			}
		}
	}
	m.coming[at] = sum
	return sum
}

// attach counts the volumes of a pod on a node; a claim that several pods share counts once.
func (m *model) attach(n *node, s *cluster.Shape) {
	for _, v := range s.Volumes {
		d := m.driver(v.Driver)
		if d < 0 { // nobody who is to be placed uses it
			continue
		}
		if id, shared := m.claims[v.Claim]; shared {
			if slices.Contains(n.claims, id) {
				continue
			}
			n.claims = append(n.claims, id)
		}
		n.free[m.view.Resources.Len()+d]--
	}
}

func (m *model) runsOn(d *daemon, n *node) bool {
	if !m.tolerated(d.tol, n.taints) {
		return false
	}
	return slices.ContainsFunc(d.needs, func(id int) bool { return m.onNode(id, n.sign) })
}

// signOf interns the labels of a node as far as they matter.
func (m *model) signOf(n *cluster.Node) int {
	values := make([]int32, m.table.Len())
	key := make([]byte, 0, 4*len(values))
	vague := false
	for k := range values {
		values[k] = m.valueOf(n, reqs.KeyID(k))
		vague = vague || values[k] == open
		key = binary.LittleEndian.AppendUint32(key, uint32(values[k]))
	}
	if vague {
		key = append(key, needKey(n.Needs)...)
	}
	if id, known := m.signIDs[string(key)]; known {
		return id
	}
	labels := reqs.Set{}
	for k, v := range values {
		name := m.table.KeyName(reqs.KeyID(k))
		if r, says := n.Needs[name]; v == open && says {
			labels[name] = r
		}
		if v < 0 {
			continue
		}
		r, err := reqs.New(corev1.NodeSelectorOpIn, []string{m.table.ValueName(reqs.KeyID(k), reqs.ValueID(v))}, 0)
		if err == nil {
			labels[m.table.KeyName(reqs.KeyID(k))] = r
		}
	}
	row, err := m.table.Compile(labels)
	if err != nil {
		row = m.table.NewRow()
	}
	m.signIDs[string(key)] = len(m.signs)
	m.signs = append(m.signs, sign{row: row, values: values, open: n.Needs, vague: vague})
	return len(m.signs) - 1
}

// valueOf returns what a node has of a key.
func (m *model) valueOf(n *cluster.Node, k reqs.KeyID) int32 {
	name := m.table.KeyName(k)
	value, has := m.labelOf(n, name)
	r, says := n.Needs[name]
	switch {
	case has:
	case says && !r.Not && len(r.Values) == 1:
		value = r.Values[0]
	case says && r.Empty():
		return absent
	case says || n.Needs != nil && m.view.Words.WellKnown(name):
		return open
	default:
		return absent
	}
	if v, known := m.table.Value(k, value); known {
		return int32(v)
	}
	return absent
}

// certain reports whether a vague node will meet a need whatever it turns out to be.
func (x *sign) certain(n *need, table *reqs.Table) bool {
	for k, v := range x.values {
		if v != open || !n.row.Defined(reqs.KeyID(k)) {
			continue
		}
		r, says := x.open[table.KeyName(reqs.KeyID(k))]
		if !says || r.Not {
			return false
		}
		for _, value := range r.Values {
			if id, known := table.Value(reqs.KeyID(k), value); !known || !n.row.Allows(reqs.KeyID(k), id) {
				return false
			}
		}
	}
	return true
}

// labelOf reads a label by its canonical key; a label under an alias counts where the canonical one
// is missing.
func (m *model) labelOf(n *cluster.Node, key string) (string, bool) {
	if value, has := n.Labels[key]; has {
		return m.view.Words.Value(key, value), true
	}
	for _, alias := range m.aliases[key] {
		if value, has := n.Labels[alias]; has {
			return m.view.Words.Value(key, value), true
		}
	}
	return "", false
}
