package model

import "github.com/dovetail-sh/dovetail/internal/cluster"

// PlannedPlacement is a class of pods and the node that an earlier plan placed them on.
type PlannedPlacement struct{ Class, Node int }

// RanksAmongEqualNodes numbers equal nodes: the first of each kind has 0, the second 1.
func (m *Model) RanksAmongEqualNodes() []int {
	rank, seen := make([]int, len(m.Nodes)), map[int]int{}
	for n := range m.Nodes {
		sign := m.Nodes[n].Signature
		rank[n] = seen[sign]
		seen[sign]++
	}
	return rank
}

// readPlannedBinds finds the pods of each class that an earlier plan placed on each node, in queue order.
func (m *Model) readPlannedBinds() {
	if len(m.Problem.PlannedBinds) == 0 {
		return
	}
	nodes := make(map[string]int, len(m.Nodes))
	for n := range m.Nodes {
		nodes[m.Nodes[n].Source.Name] = n
	}
	places := make(map[cluster.PodKey]int, len(m.Problem.PlannedBinds))
	for _, b := range m.Problem.PlannedBinds {
		if n, there := nodes[b.Node]; there {
			places[b.Pod] = n
		}
	}
	m.PlannedPods = map[PlannedPlacement][]int32{}
	for k := range m.Classes {
		for _, p := range m.Classes[k].Pods {
			if n, planned := places[m.Pods[p].Key]; planned {
				m.PlannedPods[PlannedPlacement{k, n}] = append(m.PlannedPods[PlannedPlacement{k, n}], p)
			}
		}
	}
}
