package spread

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// Plan spreads the new spot nodes of a plan over spot pools. Where cells for the nodes as they are cost too much, pods
// of workloads without rules about where other pods are may share nodes in another way, of other sizes: often another size is
// almost as cheap for a pod, and has spot pools of its own.
func Plan(state *exact.State, plan *model.Plan) {
	nodes := make([]*model.NewNode, len(plan.Create))
	for i := range plan.Create {
		nodes[i] = &plan.Create[i]
	}
	s := newSpreader(state, nodes, plan.Bind, nil)
	if s == nil {
		return
	}
	before := slices.Clone(plan.Create)
	plan.Cost += s.narrowAll(nodes)
	counts, likes := s.counts, make([]*model.NewNode, len(before))
	for i := range before {
		likes[i] = &before[i]
	}
	defer func() { s.explain(plan.Create, counts, likes) }()
	if plan.Partial || s.most <= 0 {
		return
	}
	if a := s.search(before, s.over(plan.Create, s.counts)); a != nil {
		plan.Create, counts, likes = a.nodes, a.counts, a.likes
		plan.Cost = 0
		for i := range a.nodes {
			plan.Cost += a.nodes[i].Offer.Price
		}
	}
}

// How nodes are regrouped: shares that a cell may have, each by so much larger than the one before, and how much more than
// its cheapest offering a node may cost if it stays as it is. The effort is in types that are tried for a node.
const (
	nextShare = 1.08
	mostShare = 0.9
	effort    = 60_000
)

// search regroups pods such that cells have as small a share as the budget allows, or returns nil if spot pools would not
// have less than now.
func (s *spreader) search(nodes []model.NewNode, over float64) *attempt {
	if over <= rounding {
		return nil
	}
	groups := s.groups(nodes)
	if len(groups) == 0 {
		return nil
	}
	tries := effort
	var best *attempt
	for share := s.share; share < mostShare && best == nil; share *= nextShare {
		s.loosened = nil
		for _, keep := range []float64{1, 1.02, 1.05, 1.1, 0} {
			a := s.regroup(nodes, groups, share, keep, &tries)
			if tries <= 0 {
				return best
			}
			if a == nil || a.added > s.most+rounding {
				continue
			}
			if left := s.over(a.nodes, a.counts); left < over-rounding || best != nil && left < over+rounding && a.added < best.added {
				best, over = a, left
			}
		}
	}
	return best
}

// over is by how much the largest shares of spot pools exceed the bound, over all workloads. counts are the pods of the
// nodes, nil for those that are not spot nodes.
func (s *spreader) over(nodes []model.NewNode, counts [][]podCount) float64 {
	on := make([]map[spotPool]int, len(s.workloads))
	for i := range nodes {
		at := spotPool{nodes[i].Offer.Zone, nodes[i].Offer.Type}
		for _, c := range counts[i] {
			if !s.bounds(c.workload) {
				continue
			}
			if on[c.workload] == nil {
				on[c.workload] = map[spotPool]int{}
			}
			on[c.workload][at] += c.count
		}
	}
	total := 0.0
	for id, pools := range on {
		w, most := &s.workloads[id], 0
		// any order: a maximum
		for at, n := range pools {
			most = max(most, n+w.running[at])
		}
		total += max(0, float64(most)/float64(w.pods)-s.share)
	}
	return total
}

// attempt is the nodes of a plan with pods on other nodes than before.
type attempt struct {
	nodes  []model.NewNode
	counts [][]podCount
	likes  []*model.NewNode // with the requirements of each, before it was narrowed
	added  float64          // USD an hour, with the fee for nodes that are more
}

func (a *attempt) add(n model.NewNode, counts []podCount, like *model.NewNode) {
	a.nodes, a.counts, a.likes = append(a.nodes, n), append(a.counts, counts), append(a.likes, like)
}

// regroup lets cells have a share of each workload. Nodes that find a cell for at most keep times what they cost stay; the
// pods of the others are put on whatever nodes cost least for them. It returns nil if that is not possible, and if the same
// nodes stay as in the attempt before.
func (s *spreader) regroup(nodes []model.NewNode, groups []*group, share, keep float64, tries *int) *attempt {
	bound := s.share
	s.share, s.budget = share, math.Inf(1)
	defer func() { s.share = bound }()
	for i := range s.workloads {
		clear(s.workloads[i].planned)
	}
	in := make([]*group, len(nodes))
	for _, g := range groups {
		for _, i := range g.nodes {
			in[i] = g
		}
	}
	a := &attempt{nodes: make([]model.NewNode, 0, len(nodes))}
	loose, loosened := map[*group]*loosePods{}, []int{}
	for i := range nodes {
		n := nodes[i]
		if !s.spreads(s.counts[i]) {
			a.add(n, s.counts[i], &nodes[i])
			continue
		}
		o := s.cheapestWithin(&n, s.counts[i])
		switch {
		case in[i] != nil && (o == nil || o.node.Offer.Price > n.Offer.Price*keep+rounding):
			if loose[in[i]] == nil {
				loose[in[i]] = newLoosePods(in[i])
			}
			loose[in[i]].take(s, in[i], &n, s.counts[i])
			loosened = append(loosened, i)
			a.added -= n.Offer.Price
			continue
		case o != nil:
			a.added += s.put(&n, s.counts[i], o)
		default:
			a.added += s.narrow(&n, s.counts[i])
		}
		a.add(n, s.counts[i], &nodes[i])
	}
	if s.loosened != nil && slices.Equal(loosened, s.loosened) {
		return nil
	}
	s.loosened = loosened
	for _, g := range groups {
		if l := loose[g]; l != nil && (!s.placeLoosePods(g, l, a, tries) || !s.withinLimits(g, nodes, a)) {
			return nil
		}
	}
	a.added += float64(max(0, len(a.nodes)-len(nodes))) * s.m.Problem.Policy.NodeFee
	return a
}

// cheapestWithin is the cheapest cell for a node that no workload has too many pods in, or nil.
func (s *spreader) cheapestWithin(n *model.NewNode, counts []podCount) *option {
	var best *option
	options := s.options(n)
	for i := range options {
		if o := &options[i]; (best == nil || o.compare(best) < 0) && s.excess(o.cell, counts) == 0 {
			best = o
		}
	}
	return best
}

// withinLimits reports whether the limits of a pool allow the nodes of an attempt in place of those before.
func (s *spreader) withinLimits(g *group, before []model.NewNode, a *attempt) bool {
	pool := &s.m.Pools[g.pool]
	if s.state.NodesLeft[g.pool] != model.Unlimited && len(a.nodes)-len(before) > int(s.state.NodesLeft[g.pool]) {
		return false
	}
	for i, l := range pool.Limits {
		if s.charge(g, a.nodes, l.Lane)-s.charge(g, before, l.Lane) > s.state.Limits[g.pool][i] {
			return false
		}
	}
	return true
}

// charge is what nodes take of a limit of their pool: each the largest type that it may become.
func (s *spreader) charge(g *group, nodes []model.NewNode, lane int) (total int64) {
	byName := make(map[string]int, len(g.cat.Types))
	for t := range g.cat.Types {
		byName[g.cat.Types[t].InstanceType.Name] = t
	}
	for i := range nodes {
		if nodes[i].Pool != g.like.Pool {
			continue
		}
		most := int64(0)
		for _, name := range nodes[i].Types {
			most = max(most, g.cat.Capacity[byName[name]*s.m.Lanes+lane])
		}
		total += most
	}
	return total
}
