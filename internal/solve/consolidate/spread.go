package consolidate

import (
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
	"github.com/dovetail-sh/dovetail/internal/solve/spread"
)

// spreadSpot divides the new spot nodes of moves over spot pools, as provisioning does: otherwise a cluster that moves
// to spot would be on one pool in the end. Where a move then saves too little, its nodes stay as they were. A spot node
// that replaces one spot node keeps the types that disruption 15 requires.
func (v *mover) spreadSpot(moves []Move) {
	if v.model.Problem.Policy.SpotShare <= 0 {
		return
	}
	removed := map[string]bool{}
	var binds []model.Bind
	var nodes []*model.NewNode
	var before [][]model.NewNode
	for i := range moves {
		m := &moves[i]
		binds = append(binds, m.Bind...)
		for _, name := range m.Remove {
			removed[name] = true
		}
		before = append(before, m.Create)
		if len(m.Create) == 0 || len(m.Remove) == 1 && v.allSpot(m) {
			continue
		}
		m.Create = slices.Clone(m.Create)
		for j := range m.Create {
			nodes = append(nodes, &m.Create[j])
		}
	}
	spread.Nodes(v.state, nodes, binds, removed)
	for i := range moves {
		m := &moves[i]
		if len(m.Create) == 0 || slices.EqualFunc(m.Create, before[i], sameOffer) {
			continue
		}
		price := 0.0
		for _, name := range m.Remove {
			price += v.price[v.byName[name]]
		}
		if saved := m.Saves; !v.updateSavings(m, price) || !v.undoesNoSpread(m, price) {
			m.Create, m.Saves = before[i], saved
		}
	}
}

func sameOffer(a, b model.NewNode) bool { return a.Offer == b.Offer }

// undoesNoSpread reports whether a move of spot nodes to spot nodes saves more than it takes to spread a workload over
// spot pools. Otherwise moves would bring back together what provisioning spread.
func (v *mover) undoesNoSpread(m *Move, removed float64) bool {
	if v.model.Problem.Policy.SpotShare <= 0 || !v.allSpot(m) {
		return true
	}
	spot := slices.ContainsFunc(m.Create, func(c model.NewNode) bool { return c.Offer.CapacityType == karpv1.CapacityTypeSpot })
	return !spot || m.Saves > v.model.Problem.Policy.SpreadNodeCost()*removed
}
