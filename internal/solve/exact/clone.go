package exact

import (
	"maps"
	"slices"
)

// Clone returns an independent copy of the state without the planned nodes.
func (s *State) Clone() *State {
	c := *s
	c.Free, c.BlockMax = slices.Clone(s.Free), slices.Clone(s.BlockMax)
	c.Selected, c.Owners, c.hostTotals = CloneAll(s.Selected), CloneAll(s.Owners), slices.Clone(s.hostTotals)
	c.HostCounts, c.Ports, c.Claims = maps.Clone(s.HostCounts), maps.Clone(s.Ports), maps.Clone(s.Claims)
	for place, list := range c.Ports {
		c.Ports[place] = slices.Clip(list)
	}
	for place, list := range c.Claims {
		c.Claims[place] = slices.Clip(list)
	}
	c.Limits, c.NodesLeft, c.reservationsLeft = CloneAll(s.Limits), slices.Clone(s.NodesLeft), slices.Clone(s.reservationsLeft)
	c.nodesByDomain, c.removedDomains = CloneAll(s.nodesByDomain), CloneAll(s.removedDomains)
	c.Devices = s.Devices.Clone(int32(len(s.Model.Nodes)))
	c.Bins, c.Placed, c.excluded = nil, nil, nil
	c.row, c.types = s.Model.Table.NewRow(), nil
	return &c
}

// CloneAll copies lists and their elements.
func CloneAll[S ~[]E, E any](lists []S) []S {
	out := make([]S, len(lists))
	for i, list := range lists {
		out[i] = slices.Clone(list)
	}
	return out
}
