package spread

import (
	"cmp"
	"maps"
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/lp"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// group is nodes whose pods may change places: those of a pool with equal requirements, and pods without rules about where
// other pods are.
type group struct {
	pool       int
	cat        *model.Catalogue
	nodes      []int // into the nodes of the plan
	like       *model.NewNode
	columns    map[string]bitset.Columns // by zone
	zones      []string
	offers     map[string][]priced // by zone: of spot
	workloads  []int               // most worth first
	classes    []*model.Class      // of these
	worth      []float64           // of a pod of these, USD an hour
	poolOffers []poolOffer         // all offers, those first that cost least for what they hold
}

// poolOffer is a type in a zone.
type poolOffer struct {
	at    cell
	t     int
	price float64 // risk included
	ratio float64 // to what all that it holds is worth: with pods it is no better
}

// groups finds the nodes whose pods may change places.
func (s *spreader) groups(nodes []model.NewNode) []*group {
	free := make([]*model.Class, len(s.workloads))
	for k := range s.m.Classes {
		c := &s.m.Classes[k]
		if id, known := s.ids[c.Shape]; known && s.isFree(c) {
			free[id] = c
		}
	}
	byKey := map[string]*group{}
	var out []*group
	for i := range nodes {
		n := &nodes[i]
		if !s.spreads(s.counts[i]) || slices.ContainsFunc(s.counts[i], func(c podCount) bool { return free[c.workload] == nil }) {
			continue
		}
		pool := s.poolOf(n)
		if pool < 0 || len(s.m.Pools[pool].Minimums) > 0 || s.m.Catalogues[s.m.Pools[pool].Catalogue].HasSizes {
			continue
		}
		key := n.Pool + "\n" + n.Needs.String()
		g := byKey[key]
		if g == nil {
			g = s.newGroup(n, pool)
			byKey[key] = g
			out = append(out, g)
		}
		g.nodes = append(g.nodes, i)
		for _, c := range s.counts[i] {
			if !slices.Contains(g.workloads, c.workload) {
				g.workloads, g.classes = append(g.workloads, c.workload), append(g.classes, free[c.workload])
			}
		}
	}
	return slices.DeleteFunc(out, func(g *group) bool { return !s.price(g) })
}

// isFree reports whether pods of a class may be on any node that their requirements allow.
func (s *spreader) isFree(c *model.Class) bool {
	if c.Moved || len(c.Variants) != 1 || c.Variants[0].Profile < 0 || len(c.SharedClaims)+len(c.Shape.Devices)+len(c.Shape.Volumes) > 0 {
		return false
	}
	p := s.m.Profiles[c.Variants[0].Profile]
	return !p.HasZoneRules && !p.HasHostRules && len(p.Groups)+len(p.Spread)+len(p.Affinity)+len(p.AntiAffinity)+len(p.Avoids)+len(p.Anchors)+len(p.Ports) == 0
}

func (s *spreader) newGroup(n *model.NewNode, pool int) *group {
	cat := s.m.Catalogues[s.m.Pools[pool].Catalogue]
	g := &group{pool: pool, cat: cat, like: n, columns: map[string]bitset.Columns{}, offers: map[string][]priced{}}
	allowed := cat.Filter(s.m.RowOf(n.Needs)).Types
	allowed.And(s.m.Pools[pool].Types)
	var types []int
	for t := allowed.Next(0); t >= 0; t = allowed.Next(t + 1) {
		types = append(types, t)
	}
	columns, _ := s.choicesOf(n, pool, cat)
	for _, zone := range slices.Sorted(maps.Keys(columns)) {
		var spot bitset.Columns
		for i := columns[zone].Next(0); i >= 0; i = columns[zone].Next(i + 1) {
			if cat.Columns[i].Capacity == karpv1.CapacityTypeSpot {
				spot.Add(i)
			}
		}
		if list := offersIn(cat, types, spot); len(list) > 0 {
			g.zones, g.columns[zone], g.offers[zone] = append(g.zones, zone), columns[zone], list
			s.divide(cat, zone, list, len(columns))
		}
	}
	return g
}

// price finds what pods of a group are worth, by a linear program over the spot nodes that they may have.
func (s *spreader) price(g *group) bool {
	used := make([]bool, s.m.Lanes)
	for _, c := range g.classes {
		for _, lane := range c.Lanes {
			used[lane] = true
		}
	}
	var lanes []int
	for lane, is := range used {
		if is {
			lanes = append(lanes, lane)
		}
	}
	demand := make([]float64, len(lanes))
	for _, i := range g.nodes {
		for _, c := range s.counts[i] {
			class := g.classes[slices.Index(g.workloads, c.workload)]
			for r, lane := range lanes {
				demand[r] += float64(c.count) * float64(class.Requests[lane])
			}
		}
	}
	var cost, rows []float64
	for _, zone := range g.zones {
		for _, p := range g.offers[zone] {
			cost = append(cost, p.counted)
			for _, lane := range lanes {
				rows = append(rows, float64(max(0, s.room(g, p.t)[lane])))
			}
		}
	}
	sol := lp.Cover(cost, rows, len(lanes), demand)
	if !sol.OK {
		return false
	}
	worth := make([]float64, len(g.classes))
	order := make([]int, len(g.classes))
	for i, c := range g.classes {
		order[i] = i
		for r, lane := range lanes {
			worth[i] += sol.Duals[r] * float64(c.Requests[lane])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(worth[b], worth[a]) })
	for _, zone := range g.zones {
		for _, p := range g.offers[zone] {
			full := 0.0
			for r, lane := range lanes {
				full += sol.Duals[r] * float64(max(0, s.room(g, p.t)[lane]))
			}
			if full > 0 {
				g.poolOffers = append(g.poolOffers, poolOffer{cell{zone, s.stripeOf(g, zone, p.t)}, p.t, p.counted, p.counted / full})
			}
		}
	}
	slices.SortStableFunc(g.poolOffers, func(a, b poolOffer) int { return cmp.Compare(a.ratio, b.ratio) })
	workloads, classes := g.workloads, g.classes
	g.workloads, g.classes = nil, nil
	for _, i := range order {
		g.workloads, g.classes, g.worth = append(g.workloads, workloads[i]), append(g.classes, classes[i]), append(g.worth, worth[i])
	}
	return true
}

// room is what pods can use of a type.
func (s *spreader) room(g *group, t int) []int64 {
	return s.m.Pools[g.pool].Capacity.Allocatable[t*s.m.Lanes : (t+1)*s.m.Lanes]
}

func (s *spreader) stripeOf(g *group, zone string, t int) int {
	return s.ranks[zone][g.cat.Types[t].InstanceType.Name] % s.stripes[zone]
}
