package exact

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// CloseNode makes a node unusable for placements.
func (s *State) CloseNode(n int) {
	for l := range s.Model.Lanes {
		s.Free[n*s.Model.Lanes+l] = -1
	}
	s.UpdateBlockMax(n / BlockSize)
}

// CountNodesByDomain counts the nodes of each domain. A domain that no pool offers disappears with its last node
// (SC-26).
func (s *State) CountNodesByDomain() {
	m := s.Model
	s.nodesByDomain, s.removedDomains = make([][]int32, m.Table.Len()), make([]bitset.Set, m.Table.Len())
	for k := range m.Domains {
		if m.Domains[k].Used {
			s.nodesByDomain[k], s.removedDomains[k] = make([]int32, m.Table.ValueCount(reqs.KeyID(k))), bitset.NewSet(m.Table.ValueCount(reqs.KeyID(k)))
		}
	}
	for n := range m.Nodes {
		s.adjustDomainNodes(n, 1)
	}
}

// adjustDomainNodes adds a node to the counts of its domains, or subtracts it.
func (s *State) adjustDomainNodes(n int, sign int32) {
	for k, v := range s.Model.Signatures[s.Model.Nodes[n].Signature].Values {
		if v < 0 || s.nodesByDomain[k] == nil {
			continue
		}
		s.nodesByDomain[k][v] += sign
		s.removedDomains[k].Remove(int(v))
		if s.nodesByDomain[k][v] == 0 && !slices.ContainsFunc(s.Model.Domains[k].ByPool, func(offers bitset.Set) bool { return offers.Has(int(v)) }) {
			s.removedDomains[k].Add(int(v))
		}
	}
}

// AddNodeCounts removes a node and its pods from the topology groups, or adds them again.
func (s *State) AddNodeCounts(n int, sign int32) {
	m := s.Model
	if len(m.Groups) == 0 {
		return
	}
	s.adjustDomainNodes(n, sign)
	values := m.Signatures[m.Nodes[n].Signature].Values
	bump := func(id int, sel, own int32) {
		g := m.Groups[id]
		if g.PerHost {
			s.hostTotals[id] += sign * sel
		} else if v := values[g.Key]; v >= 0 {
			s.Selected[id][v] += sign * sel
			s.Owners[id][v] += sign * own
		}
	}
	for i := range m.Nodes[n].Source.Pods {
		p := &m.Nodes[n].Source.Pods[i]
		if p.Shape == nil || p.Terminating {
			continue
		}
		for _, id := range m.GroupsSelecting(m.InternLabels(p.Shape)) {
			if m.CountsNode(m.Groups[id], &m.Nodes[n]) {
				bump(id, 1, 0)
			}
		}
		for t := range p.Shape.AntiAffinity {
			if p.Shape.AntiAffinity[t].Weight == 0 {
				bump(m.InternTermGroup(model.AntiAffinityGroup, &p.Shape.AntiAffinity[t]), 0, 1)
			}
		}
	}
}
