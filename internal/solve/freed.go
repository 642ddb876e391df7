package solve

// readFrees notes what the nodes of the model free that are on reserved capacity.
//
// Reserved capacity is paid for whether it is used or not, so that leaving it saves next to nothing. What it is worth is what others
// would pay on demand without it. Moves of nodes that are all reserved are judged by that, if their pods stay on reserved capacity: pods
// that went to nodes which cost money would keep those from going.
func (g *compiledCluster) readFrees() {
	g.frees = make([]float64, len(g.m.nodes))
	for n := range g.m.nodes {
		src := g.m.nodes[n].src
		g.frees[n] = g.m.frees(src.Pool, src.InstanceType, src.Zone, src.CapacityType)
	}
}

func (m *model) frees(pool, instanceType, zone, capacityType string) float64 {
	if m.problem.Policy.NoReserved {
		return 0
	}
	return m.view.Frees(pool, instanceType, zone, capacityType)
}

// reserved reports whether all of some nodes are on reserved capacity.
func (v *mover) reserved(nodes ...int) bool {
	for _, n := range nodes {
		if v.frees[n] <= 0 {
			return false
		}
	}
	return len(nodes) > 0
}

// free works out what a move frees of reserved capacity. A move that only takes nodes off reserved capacity is not allowed unless
// that is something, and pods stay on reserved capacity.
func (v *mover) free(m *Move) (removed float64, allowed bool) {
	m.Frees = 0
	for _, name := range m.Remove {
		n := v.byName[name]
		if v.frees[n] <= 0 {
			return 0, true
		}
		removed += v.frees[n]
	}
	for _, b := range m.Bind {
		if v.frees[v.byName[b.Node]] <= 0 {
			return removed, false
		}
	}
	frees := removed
	for i := range m.Create {
		c := &m.Create[i]
		worth := v.m.frees(c.Pool, c.Offer.Type, c.Offer.Zone, c.Offer.CapacityType)
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
func (v *mover) closePaidNodes(s *state) {
	for n, frees := range v.frees {
		if frees <= 0 {
			s.markRemoved(n)
		}
	}
}

// reopenPaidNodes undoes closePaidNodes. No pod was placed on those nodes, so their free capacity is unchanged.
func (v *mover) reopenPaidNodes(s, before *state) {
	lanes := v.m.lanes
	for n, frees := range v.frees {
		if frees <= 0 {
			copy(s.free[n*lanes:(n+1)*lanes], before.free[n*lanes:(n+1)*lanes])
			s.updateBlockMax(n / block)
		}
	}
}
