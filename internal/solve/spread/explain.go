package spread

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// explain says of nodes on a spot pool that has more of a workload than it should why they are there. likes are the nodes
// before they were narrowed.
func (s *spreader) explain(nodes []model.NewNode, counts [][]podCount, likes []*model.NewNode) {
	type key struct {
		at       spotPool
		workload int
	}
	on := map[key]podCount{} // pods, and in place of the workload the nodes
	poolOf := func(n *model.NewNode) spotPool { return spotPool{n.Offer.Zone, n.Offer.Type} }
	for i := range nodes {
		for _, c := range counts[i] {
			k := key{poolOf(&nodes[i]), c.workload}
			on[k] = podCount{on[k].workload + 1, on[k].count + c.count}
		}
	}
	for i := range nodes {
		n, most := &nodes[i], 0.0
		for _, c := range counts[i] {
			w, k := &s.workloads[c.workload], key{poolOf(n), c.workload}
			if share := float64(on[k].count+w.running[k.at]) / float64(w.pods); s.bounds(c.workload) && (on[k].workload > 1 || w.running[k.at] > 0) && share > s.share+rounding {
				most = max(most, share)
			}
		}
		if most == 0 {
			continue
		}
		why := "there is no other spot pool"
		if price := s.elsewhere(likes[i], n); !math.IsInf(price, 1) {
			why = fmt.Sprintf("the next spot pool costs %s more, and spreading may add %s to the prices of the plan", percent(max(0, price/n.Offer.Price-1)), percent(s.m.Problem.Policy.SpotCost))
		}
		n.Spread = append(slices.Clone(n.Spread), reason.Reason{
			Code: reason.SpotPoolsDear, Rule: "IR-06", Have: fmt.Sprintf("%s in %s has %s of a workload", n.Offer.Type, n.Offer.Zone, percent(most)), Want: why,
		})
	}
}

// elsewhere is the price of the cheapest other spot pool that holds what is on a node.
func (s *spreader) elsewhere(like, n *model.NewNode) float64 {
	least, pool := math.Inf(1), s.poolOf(like)
	if pool < 0 {
		return least
	}
	capacity, cat := s.m.Pools[pool].Capacity, s.m.Catalogues[s.m.Pools[pool].Catalogue]
	columns, _ := cat.ColumnsAllowedBy(like.Needs)
	types := cat.Filter(s.m.RowOf(like.Needs)).Types
	types.And(s.m.Pools[pool].Types)
next:
	for t := types.Next(0); t >= 0; t = types.Next(t + 1) {
		for lane := range s.m.View.Resources.Len() {
			if at := t*s.m.Lanes + lane; n.Requests.At(lane) > capacity.Allocatable[at]+capacity.Overhead[at] {
				continue next
			}
		}
		open := cat.Launchable[t].And(columns)
		for i := open.Next(0); i >= 0; i = open.Next(i + 1) {
			same := cat.Columns[i].Zone == n.Offer.Zone && cat.Types[t].InstanceType.Name == n.Offer.Type
			if cat.Columns[i].Capacity == karpv1.CapacityTypeSpot && !same {
				least = min(least, cat.Price[t*len(cat.Columns)+i])
			}
		}
	}
	return least
}

// percent writes a share.
func percent(share float64) string {
	return strconv.FormatFloat(math.Round(1000*share)/10, 'f', -1, 64) + " %"
}
