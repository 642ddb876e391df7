package model

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
)

// Pool is a pool that nodes can be launched from.
type Pool struct {
	Source               *cluster.Pool
	Row                  reqs.Row
	Catalogue            int
	Types                bitset.Set // types that its requirements leave, with an available offering
	InsufficientCapacity bool       // its requirements leave types, but none has capacity at present
	Columns              bitset.Columns
	Taints               int
	Capacity             *PoolCapacity
	Minimums             []Minimum // its minValues
	Limits               []Limit
	NodeLimit            int64
	Reserved             bitset.Columns // columns of reservations
}

// Minimum is one minValues.
type Minimum struct {
	Key    reqs.KeyID
	Values int
}

// Limit is what remains of a limit of a pool on one resource.
type Limit struct {
	Lane      int
	Remaining int64
}

// Daemon is a DaemonSet as planning sees it.
type Daemon struct {
	Key         cluster.PodKey
	needs       []int // alternatives on an existing node
	fresh       []int // alternatives on a new node, which will be registered and initialized (SC-23)
	tolerations int
	Requests    []int64
	Claims      []string // ResourceClaims like those of each of its pods: it runs only where there are devices for them
	ports       []cluster.HostPort
}

// PoolCapacity is the capacity of each type after the DaemonSets that would run on it. Pools with the same catalogue
// and the same DaemonSets share it.
type PoolCapacity struct {
	key         string
	catalogue   int
	Allocatable []int64              // types × lanes
	Overhead    []int64              // types × lanes: requests of the DaemonSets
	RunsOn      []bitset.Set         // by DaemonSet: the types it would run on
	Ports       [][]cluster.HostPort // by type; nil if no DaemonSet has any
}

func (m *Model) readDaemons() {
	for i := range m.View.Daemons {
		s := m.View.Daemons[i].Shape
		if s == nil || len(s.Invalid) > 0 || len(s.Devices) > 0 && m.Devices == nil {
			continue
		}
		d := Daemon{Key: m.View.Daemons[i].Key, tolerations: m.InternTolerations(s.Tolerations, true), Requests: make([]int64, m.Lanes), Claims: s.Devices, ports: s.HostPorts}
		m.flattenRequests(d.Requests, s)
		for l := m.View.Resources.Len(); l < m.Lanes; l++ {
			d.Requests[l] = 0
		}
		for _, r := range s.Required {
			if id := m.InternNeed(r); id >= 0 {
				d.needs = append(d.needs, id)
			}
			if fresh, possible := onceInitialized(r); possible {
				d.fresh = append(d.fresh, m.InternNeed(fresh))
			}
		}
		m.Daemons = append(m.Daemons, d)
	}
}

// onceInitialized returns what remains of requirements on a node with the labels of an initialized one.
func onceInitialized(s reqs.Set) (reqs.Set, bool) {
	out := s
	for _, key := range []string{karpv1.LabelRegistered, karpv1.LabelInitialized} {
		if r, found := s[key]; found {
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

func (m *Model) readPools() {
	for i := range m.View.Pools {
		src := &m.View.Pools[i]
		if src.Closed || len(src.Types) == 0 {
			continue
		}
		row, err := m.Table.Compile(src.Requirements)
		if err != nil {
			continue // cannot happen: the table was shown every pool
		}
		p := Pool{Source: src, Row: row, Catalogue: m.catalogueOf(i), Taints: m.internTaints(src.Taints), NodeLimit: Unlimited}
		if src.NodeLimit != nil {
			p.NodeLimit = *src.NodeLimit
		}
		for _, t := range src.Taints {
			m.SoftTaint = m.SoftTaint || t.Effect == corev1.TaintEffectPreferNoSchedule
		}
		for _, l := range src.Limits {
			lane, known := m.View.Resources.Lane(l.Resource)
			if known {
				p.Limits = append(p.Limits, Limit{lane, l.Remaining})
			}
		}
		c := m.Catalogues[p.Catalogue]
		left := c.Filter(row)
		p.Types, p.Columns = left.Types, left.Columns
		for t := range c.Types {
			if c.Available[t].And(p.Columns).Empty() {
				p.Types.Remove(t)
			}
		}
		for i := range c.Columns {
			if c.Columns[i].Capacity == karpv1.CapacityTypeReserved && c.Columns[i].Reservation != "" && !m.Problem.Policy.NoReserved {
				p.Reserved.Add(i)
			}
		}
		p.Reserved = p.Reserved.And(p.Columns)
		p.InsufficientCapacity = p.Types.Empty() && hasMatchingType(src)
		for k := range m.Table.Len() {
			if n := row.MinValues(reqs.KeyID(k)); n > 0 {
				p.Minimums = append(p.Minimums, Minimum{reqs.KeyID(k), n})
			}
		}
		m.Pools = append(m.Pools, p)
	}
	for i := range m.Pools {
		m.Pools[i].Capacity = m.daemonCapacities(i)
	}
}

// daemonCapacities finds which DaemonSets run on which types of a pool (SC-23, SC-24).
func (m *Model) daemonCapacities(poolID int) *PoolCapacity {
	p := &m.Pools[poolID]
	c := m.Catalogues[p.Catalogue]
	runs := make([]bitset.Set, 0, len(m.Daemons))
	var key strings.Builder
	for i := range m.Daemons {
		d := &m.Daemons[i]
		types := bitset.NewSet(len(c.Types))
		if m.Tolerated(d.tolerations, p.Taints) {
			for _, n := range d.fresh {
				if f := m.FitPool(n, poolID); f.OK {
					left := m.MasksFor(n, p.Catalogue)
					for t := left.Types.Next(0); t >= 0; t = left.Types.Next(t + 1) {
						if !c.Offered[t].And(left.Columns).Empty() && m.hostsDaemon(d, p.Source.Name, c.Types[t].InstanceType.Name) {
							types.Add(t)
						}
					}
				}
			}
		}
		runs = append(runs, types)
		for _, w := range types {
			AppendKey(&key, string(rune(w&0xffff)), string(rune(w>>16&0xffff)), string(rune(w>>32&0xffff)), string(rune(w>>48)))
		}
	}
	for _, r := range m.capacities {
		if r.catalogue == p.Catalogue && r.key == key.String() {
			return r
		}
	}
	r := &PoolCapacity{key: key.String(), catalogue: p.Catalogue, Allocatable: slices.Clone(c.Allocatable), Overhead: make([]int64, len(c.Allocatable)), RunsOn: runs}
	for i := range m.Daemons {
		for t := runs[i].Next(0); t >= 0; t = runs[i].Next(t + 1) {
			for l, v := range m.Daemons[i].Requests {
				r.Allocatable[t*m.Lanes+l] -= v
				if len(m.Daemons[i].Claims) == 0 { // which devices a node will have is an expectation: no NodeClaim requests it
					r.Overhead[t*m.Lanes+l] += v
				}
			}
			if len(m.Daemons[i].ports) > 0 {
				if r.Ports == nil {
					r.Ports = make([][]cluster.HostPort, len(c.Types))
				}
				r.Ports[t] = append(r.Ports[t], m.Daemons[i].ports...)
			}
		}
	}
	m.capacities = append(m.capacities, r)
	return r
}

// hostsDaemon reports whether an instance type of a pool has devices for a DaemonSet (DR-14).
func (m *Model) hostsDaemon(d *Daemon, pool, instanceType string) bool {
	if len(d.Claims) == 0 {
		return true
	}
	if m.daemonDevices == nil {
		m.daemonDevices = m.Devices.Ledger()
	}
	return m.daemonDevices.Hosts(d.Claims, pool, instanceType)
}

// DaemonClaims lists, DaemonSet by DaemonSet, the ResourceClaims that a node of a type has for their pods.
func (m *Model) DaemonClaims(c *PoolCapacity, t int) [][]string {
	var list [][]string
	for i := range m.Daemons {
		if d := &m.Daemons[i]; len(d.Claims) > 0 && c.RunsOn[i].Has(t) {
			list = append(list, d.Claims)
		}
	}
	return list
}

// DaemonClaimsOnNode is the same for a node.
func (m *Model) DaemonClaimsOnNode(n int) [][]string { return m.Nodes[n].daemonClaims }

// hasMatchingType reports whether some type meets the requirements of a pool, whether it has capacity or not.
func hasMatchingType(pool *cluster.Pool) bool {
	for i := range pool.Types {
		if _, conflict := pool.Requirements.Conflict(pool.Types[i].Labels); !conflict && HasMatchingOffering(pool, &pool.Types[i]) {
			return true
		}
	}
	return false
}

// HasMatchingOffering reports whether any offering of a type agrees with the pool.
func HasMatchingOffering(pool *cluster.Pool, t *catalog.InstanceType) bool {
	for i := range t.Offerings {
		if agreesWithOffering(pool.Requirements, &t.Offerings[i]) {
			return true
		}
	}
	return false
}

// agreesWithOffering reports whether no label of an offering contradicts the requirements. It is called for every
// offering of every pool, so it does not allocate.
func agreesWithOffering(needs reqs.Set, o *catalog.Offering) bool {
	for key, r := range needs {
		if value, has := OfferingLabel(o, key); has && !r.Has(value) {
			return false
		}
	}
	return true
}

// OfferingLabel is the value of a label that a node gets from the offering it is launched as.
func OfferingLabel(o *catalog.Offering, key string) (value string, has bool) {
	switch key {
	case corev1.LabelTopologyZone:
		return o.Zone, true
	case karpv1.LabelCapacityType:
		return o.CapacityType, true
	default:
		value, has = o.Labels[key]
		return value, has
	}
}
