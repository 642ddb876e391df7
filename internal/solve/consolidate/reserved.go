package consolidate

import (
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// readReservedValues computes the value of nodes on reserved capacity.
//
// Reserved capacity is paid for whether it is used or not, so leaving it saves next to nothing. Its value is what
// other nodes would cost on demand without it. A move that only removes reserved nodes is judged by that value, and
// its pods must stay on reserved capacity: on nodes that cost money, they would prevent the removal of those nodes.
func (g *compiledCluster) readReservedValues() {
	g.reservedValue = make([]float64, len(g.model.Nodes))
	for n := range g.model.Nodes {
		src := g.model.Nodes[n].Source
		g.reservedValue[n] = reservedValue(g.model, src.Pool, src.InstanceType, src.Zone, src.CapacityType)
	}
}

func reservedValue(m *model.Model, pool, instanceType, zone, capacityType string) float64 {
	if m.Problem.Policy.NoReserved {
		return 0
	}
	return m.View.Frees(pool, instanceType, zone, capacityType)
}

// allReserved reports whether all of some nodes are on reserved capacity.
func (v *mover) allReserved(nodes ...int) bool {
	for _, n := range nodes {
		if v.reservedValue[n] <= 0 {
			return false
		}
	}
	return len(nodes) > 0
}

// freedReserved computes the value of the reserved capacity that a move frees. A move that only removes reserved
// nodes is allowed only if this value is above zero and its pods stay on reserved capacity.
func (v *mover) freedReserved(m *Move) (removed float64, allowed bool) {
	m.Frees = 0
	for _, name := range m.Remove {
		n := v.byName[name]
		if v.reservedValue[n] <= 0 {
			return 0, true
		}
		removed += v.reservedValue[n]
	}
	for _, b := range m.Bind {
		if v.reservedValue[v.byName[b.Node]] <= 0 {
			return removed, false
		}
	}
	frees := removed
	for i := range m.Create {
		c := &m.Create[i]
		worth := reservedValue(v.model, c.Pool, c.Offer.Type, c.Offer.Zone, c.Offer.CapacityType)
		if worth <= 0 {
			return removed, false
		}
		frees -= worth
	}
	if frees <= 0 {
		return removed, false
	}
	m.Frees = frees
	return removed, true
}

// closePaidNodes keeps pods of nodes on reserved capacity off nodes that cost money.
func (v *mover) closePaidNodes(s *exact.State) {
	for n, frees := range v.reservedValue {
		if frees <= 0 {
			s.CloseNode(n)
		}
	}
}

// reopenPaidNodes undoes closePaidNodes. No pod was placed on those nodes, so their free capacity is unchanged.
func (v *mover) reopenPaidNodes(s, before *exact.State) {
	lanes := v.model.Lanes
	for n, frees := range v.reservedValue {
		if frees <= 0 {
			copy(s.Free[n*lanes:(n+1)*lanes], before.Free[n*lanes:(n+1)*lanes])
			s.UpdateBlockMax(n / exact.BlockSize)
		}
	}
}
