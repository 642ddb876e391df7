package exact

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/devices"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// State is a plan in the making: the free capacity of nodes, the planned nodes, and how many pods of each topology
// group are in which domain. Places are numbered: existing nodes first, then planned ones.
type State struct {
	Model            *model.Model                      // a fork that only this state uses
	Free             []int64                           // free capacity of existing nodes: nodes × lanes
	BlockMax         []int64                           // blocks of nodes × 2: at least the most cpu and memory that any node of a block has left
	Selected, Owners [][]int32                         // by group, by domain: pods that it selects, and pods that own its anti-affinity term
	HostCounts       map[model.HostKey]model.HostCount // the same for groups per host, of the pods placed
	hostTotals       []int32                           // pods a group of hosts selects, wherever they are
	Ports            map[int32][]cluster.HostPort      // by place: host ports of the pods placed
	Claims           map[int32][]int                   // by place: shared claims that the pods placed attach
	Bins             []*Bin                            // planned nodes
	Limits           [][]int64                         // by pool: what remains of its limits
	NodesLeft        []int64                           // by pool: what remains of its limit on nodes
	reservationsLeft []int                             // nodes that can still hold each reservation
	Placed           []Placement                       // in the order in which pods were placed
	stop             func() bool                       // nil: never
	Stopped          bool                              // stop returned true
	row              reqs.Row                          // of the current trial
	types            bitset.Set                        // of the current trial
	excluded         []model.PinKey                    // domains in which the planned node cannot be launched
	WaitsForReserved bool                              // the last refusal was because reserved capacity is in use
	KeepPrices       bool                              // a planned node becomes more expensive only for pods that fit nowhere else
	nodesByDomain    [][]int32                         // by key, by value: existing nodes; nil unless nodes are removed
	removedDomains   []bitset.Set                      // by key: domains that disappeared with their last node
	Devices          *devices.Ledger                   // devices that ResourceClaims are given; nil: dynamic resource allocation is off
	NoDevices        *reason.Reason                    // why the last trial of a planned node failed for lack of devices; nil if it did not
}

// Placement is some pods of a class at a place.
type Placement struct {
	Class, Place, Count int32
}

// BlockSize is how many nodes share an entry of State.BlockMax.
const BlockSize = 32

// NewState returns the state before any pod is placed. stop is polled between placements.
func NewState(m *model.Model, stop func() bool) *State {
	s := &State{Model: m, stop: stop, HostCounts: map[model.HostKey]model.HostCount{}, Ports: map[int32][]cluster.HostPort{}, Claims: map[int32][]int{}}
	s.Free = make([]int64, 0, len(m.Nodes)*m.Lanes)
	for i := range m.Nodes {
		s.Free = append(s.Free, m.Nodes[i].Free...)
	}
	s.BlockMax = make([]int64, 2*((len(m.Nodes)+BlockSize-1)/BlockSize))
	for b := range len(s.BlockMax) / 2 {
		s.UpdateBlockMax(b)
	}
	s.Selected, s.Owners, s.hostTotals = make([][]int32, len(m.Groups)), make([][]int32, len(m.Groups)), make([]int32, len(m.Groups))
	for i, g := range m.Groups {
		s.Selected[i], s.Owners[i] = slices.Clone(g.Selected), slices.Clone(g.Owners)
	}
	for at, c := range m.HostCounts {
		s.hostTotals[at.Group] += c.Selected
	}
	for i := range m.Pools {
		var left []int64
		for _, l := range m.Pools[i].Limits {
			left = append(left, l.Remaining)
		}
		s.Limits, s.NodesLeft = append(s.Limits, left), append(s.NodesLeft, m.Pools[i].NodeLimit)
	}
	for _, r := range m.Reservations {
		s.reservationsLeft = append(s.reservationsLeft, r.Left)
	}
	s.Devices = m.Devices.Ledger()
	s.row = m.Table.NewRow()
	return s
}

// UpdateBlockMax recomputes an entry of BlockMax after nodes of the block have changed.
func (s *State) UpdateBlockMax(b int) {
	var cpu, memory int64
	for n := b * BlockSize; n < min((b+1)*BlockSize, len(s.Model.Nodes)); n++ {
		if !s.Model.Nodes[n].Full {
			cpu, memory = max(cpu, s.Free[n*s.Model.Lanes]), max(memory, s.Free[n*s.Model.Lanes+1])
		}
	}
	s.BlockMax[2*b], s.BlockMax[2*b+1] = cpu, memory
}

// ShouldStop reports whether to stop. Once true, it stays true.
func (s *State) ShouldStop() bool {
	if !s.Stopped && s.stop != nil && s.stop() {
		s.Stopped = true
	}
	return s.Stopped
}

// FitOnNode returns how many pods of a class an existing node can take now, at most want.
func (s *State) FitOnNode(c *model.Class, p *model.Profile, n, want int) int {
	m := s.Model
	x := &m.Nodes[n]
	if x.Full || c.Moved && (x.Source.Settling || !x.Source.Initialized && x.Source.Pool != "") {
		return 0
	}
	left := s.Free[n*m.Lanes : (n+1)*m.Lanes]
	if len(c.SharedClaims) > 0 {
		return s.devicesAllow(c, n, s.fitOnNodeSharing(c, p, n))
	}
	if want = model.CountFitting(c, left, want); want == 0 {
		return 0
	}
	return s.devicesAllow(c, n, s.allowedOnNode(p, n, want))
}

// allowedOnNode is FitOnNode for everything but resources.
func (s *State) allowedOnNode(p *model.Profile, n, want int) int {
	m := s.Model
	x := &m.Nodes[n]
	if !m.Tolerated(p.Tolerations, x.Taints) || !m.NodeMeets(p.Need, x.Signature) {
		return 0
	}
	if len(p.Ports) > 0 {
		if want = 1; model.PortsConflict(p.Ports, x.Ports) || model.PortsConflict(p.Ports, s.Ports[int32(n)]) {
			return 0
		}
	}
	if p.HasHostRules {
		want = s.AllowedOnHost(p, int32(n), want)
	}
	if p.HasZoneRules && want > 0 {
		want = s.AllowedInZone(p, m.Signatures[x.Signature].Values, want)
	}
	return want
}

// fitOnNodeSharing is FitOnNode for pods with shared claims. Claims that are already attached take no slot.
func (s *State) fitOnNodeSharing(c *model.Class, p *model.Profile, n int) int {
	m := s.Model
	base := m.View.Resources.Len()
	left := s.Free[n*m.Lanes : (n+1)*m.Lanes]
	need := slices.Clone(c.Requests)
	for i, v := range c.Shape.Volumes {
		if id, shared := m.SharedClaims[v.Claim]; shared && s.IsAttached(n, id) || slices.ContainsFunc(c.Shape.Volumes[:i], func(o cluster.Volume) bool { return o.Claim == v.Claim }) {
			need[base+m.DriverIndex(v.Driver)]--
		}
	}
	for _, l := range c.Lanes {
		if left[l] < need[l] {
			return 0
		}
	}
	return s.allowedOnNode(p, n, 1)
}

// IsAttached reports whether a shared claim is attached at a place.
func (s *State) IsAttached(place, claim int) bool {
	if place < len(s.Model.Nodes) && slices.Contains(s.Model.Nodes[place].Claims, claim) {
		return true
	}
	return slices.Contains(s.Claims[int32(place)], claim)
}

// PutOnNode puts pods of a class on an existing node.
func (s *State) PutOnNode(k int, p *model.Profile, n, count int) {
	m := s.Model
	c := &m.Classes[k]
	left := s.Free[n*m.Lanes : (n+1)*m.Lanes]
	for _, l := range c.Lanes {
		left[l] -= int64(count) * c.Requests[l]
	}
	if len(c.SharedClaims) > 0 {
		s.shareClaims(c, n, left)
	}
	s.takeDevicesOnNode(c, n)
	s.UpdateBlockMax(n / BlockSize)
	s.CountPods(p, int32(n), m.Signatures[m.Nodes[n].Signature].Values, count, &m.Nodes[n], nil)
	s.Placed = append(s.Placed, Placement{int32(k), int32(n), int32(count)})
}

// shareClaims returns the slots of claims that were already attached, and records the new ones.
func (s *State) shareClaims(c *model.Class, place int, left []int64) {
	base := s.Model.View.Resources.Len()
	for _, v := range c.Shape.Volumes {
		id, shared := s.Model.SharedClaims[v.Claim]
		if !shared {
			continue
		}
		if s.IsAttached(place, id) {
			left[base+s.Model.DriverIndex(v.Driver)]++
			continue
		}
		s.Claims[int32(place)] = append(s.Claims[int32(place)], id)
	}
}

// CountPods counts pods of a profile at a place for the groups they belong to, on a node that exists or on
// one that is planned. values are the domains that are certain.
func (s *State) CountPods(p *model.Profile, place int32, values []int32, count int, n *model.Node, b *Bin) {
	if len(p.Ports) > 0 {
		s.Ports[place] = append(s.Ports[place], p.Ports...)
	}
	for _, id := range p.Groups {
		g := s.Model.Groups[id]
		if n != nil && !s.Model.CountsNode(g, n) {
			continue
		}
		if g.PerHost {
			at := model.HostKey{Group: int32(id), Node: place}
			h := s.HostCounts[at]
			h.Selected += int32(count)
			s.HostCounts[at] = h
			s.hostTotals[id] += int32(count)
		} else if v := values[g.Key]; v >= 0 && (b == nil || s.meetsNodeFilter(b, id, p)) {
			s.Selected[id][v] += int32(count)
		} else if v >= 0 && !slices.Contains(b.unsure, id) {
			b.unsure = append(b.unsure, id)
		}
	}
	for i := range p.AntiAffinity {
		r := &p.AntiAffinity[i]
		if !r.Required {
			continue
		}
		if g := s.Model.Groups[r.Group]; g.PerHost {
			at := model.HostKey{Group: int32(r.Group), Node: place}
			h := s.HostCounts[at]
			h.Owners += int32(count)
			s.HostCounts[at] = h
		} else if v := values[g.Key]; v >= 0 {
			s.Owners[r.Group][v] += int32(count)
		}
	}
}
