package cluster

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Snapshot freezes parts that were read by r: it puts them in order and adds vocabulary, lanes and, if
// they are not given, namespaces. The slices belong to the Snapshot from then on.
func (r *Reader) Snapshot(parts Snapshot) *Snapshot {
	s := &parts
	s.Words, s.Resources = r.words, r.table
	if s.Namespaces == nil {
		s.Namespaces = r.namespaces
	}
	slices.SortFunc(s.Pools, func(a, b Pool) int { // SC-07, RH-01
		if a.Weight == b.Weight && a.Unhealthy != b.Unhealthy {
			if a.Unhealthy {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(b.Name, a.Name))
	})
	if !nodesInOrder(s.Nodes) {
		// A claim that has no node yet may be called like a node of others.
		slices.SortFunc(s.Nodes, func(a, b Node) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Claim, b.Claim)) })
	}
	slices.SortFunc(s.Pending, comparePods)
	slices.SortFunc(s.Daemons, func(a, b Daemon) int { return a.Key.Compare(b.Key) })
	return s
}

// nodesInOrder avoids sorting for most snapshots, which copies every Node to compare it.
func nodesInOrder(nodes []Node) bool {
	for i := 1; i < len(nodes); i++ {
		if nodes[i-1].Name >= nodes[i].Name {
			return false
		}
	}
	return true
}

func comparePods(a, b Pod) int { return a.Key.Compare(b.Key) }

// Without returns a view in which the named nodes are gone, and the pods of those nodes that would
// have to run elsewhere, in order. What the nodes used of the limits of their pools is free again.
// Unknown names are ignored: a node may vanish between being chosen and being simulated.
//
// The view shares memory with s: only the list of nodes is copied, in as many pieces as there are
// names, and the limits of pools that lose nodes.
func (s *Snapshot) Without(names ...string) (*Snapshot, []Pod) {
	gone := make([]int, 0, len(names))
	for _, name := range names {
		if i, found := s.find(name); found {
			gone = append(gone, i)
		}
	}
	view := *s
	if len(gone) == 0 {
		return &view, nil
	}
	slices.Sort(gone)
	gone = slices.Compact(gone)
	view.Nodes = make([]Node, 0, len(s.Nodes)-len(gone))
	view.Pools = slices.Clone(s.Pools)
	freed := map[string]bool{} // pools whose limits are copied already
	var moved []Pod
	next := 0
	for _, i := range gone {
		view.Nodes = append(view.Nodes, s.Nodes[next:i]...)
		next = i + 1
		n := &s.Nodes[i]
		for _, p := range n.Pods {
			if !p.Stays {
				moved = append(moved, p)
			}
		}
		if !n.Deleting { // a terminating node counts in no limit
			view.freeCapacity(n, freed)
		}
	}
	view.Nodes = append(view.Nodes, s.Nodes[next:]...)
	slices.SortFunc(moved, comparePods)
	return &view, moved
}

// WithNodes returns a view with further nodes, whose names must be new. What they use of the limits of their pools is no
// longer free.
func (s *Snapshot) WithNodes(nodes ...Node) *Snapshot {
	view := *s
	if len(nodes) == 0 {
		return &view
	}
	view.Nodes = slices.Concat(s.Nodes, nodes)
	slices.SortFunc(view.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	view.Pools = slices.Clone(s.Pools)
	copied := map[string]bool{}
	for i := range nodes {
		view.chargeCapacity(&nodes[i], copied, -1)
	}
	return &view
}

// find returns the place of a node.
func (s *Snapshot) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.Nodes, name, func(n Node, name string) int { return strings.Compare(n.Name, name) })
}

// freeCapacity gives the capacity of a node back to its pool. freed names the pools whose limits are no longer
// shared with another view.
func (s *Snapshot) freeCapacity(n *Node, freed map[string]bool) { s.chargeCapacity(n, freed, 1) }

// chargeCapacity adds the capacity of a node to what is left of its pool, or takes it off if sign is -1. copied names the
// pools whose limits are no longer shared with another view.
func (s *Snapshot) chargeCapacity(n *Node, copied map[string]bool, sign int64) {
	i := slices.IndexFunc(s.Pools, func(p Pool) bool { return p.Name == n.Pool })
	if i < 0 || n.Pool == "" {
		return
	}
	pool := &s.Pools[i]
	if !copied[pool.Name] {
		copied[pool.Name] = true
		pool.Limits = slices.Clone(pool.Limits)
		if pool.NodeLimit != nil {
			left := *pool.NodeLimit
			pool.NodeLimit = &left
		}
	}
	if pool.NodeLimit != nil {
		*pool.NodeLimit += sign
	}
	for j := range pool.Limits {
		lane, _ := s.Resources.Lane(pool.Limits[j].Resource)
		pool.Limits[j].Remaining = saturate(pool.Limits[j].Remaining, sign*max(n.Capacity.At(lane), 0))
	}
}

// saturate adds without wrapping.
func saturate(left, more int64) int64 {
	sum := left + more
	switch {
	case more > 0 && sum < left:
		return math.MaxInt64
	case more < 0 && sum > left:
		return math.MinInt64
	}
	return sum
}
