package spread

import (
	"cmp"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

const (
	// LeastNodes is how many spot nodes a workload has, at least, before they are spread.
	LeastNodes = 3
	// leastTypes is how many types a cell keeps for a node, so that the cloud still has a choice.
	leastTypes = 3
	rounding   = 1e-9
)

// Nodes narrows new spot nodes to cells and returns what that adds to their prices, USD an hour. The nodes are changed in
// place. binds are the pods that go to existing nodes, and removed the nodes that are about to be removed.
func Nodes(state *exact.State, nodes []*model.NewNode, binds []model.Bind, removed map[string]bool) (added float64) {
	m := state.Model
	share := m.Problem.Policy.SpotShare
	if share <= 0 || share >= 1 || !slices.ContainsFunc(nodes, isSpot) {
		return 0
	}
	s := newSpreader(state, share)
	shapes := make(map[cluster.PodKey]*cluster.Shape, len(m.Pods))
	for i := range m.Pods {
		shapes[m.Pods[i].Key] = m.Pods[i].Shape
	}
	counts := make([][]podCount, len(nodes))
	for i, n := range nodes {
		if isSpot(n) {
			counts[i] = s.countPods(n.Pods, shapes)
		}
	}
	s.countExisting(binds, shapes, removed)
	spread := func(i int) bool {
		return slices.ContainsFunc(counts[i], func(c podCount) bool { return s.workloads[c.workload].nodes >= LeastNodes })
	}
	for i, n := range nodes {
		if spread(i) {
			s.budget += n.Offer.Price * model.SpreadCostShare
		}
	}
	for i, n := range nodes {
		if spread(i) {
			cost := s.narrow(n, counts[i])
			added, s.budget = added+cost, s.budget-cost
		}
	}
	return added
}

func isSpot(n *model.NewNode) bool {
	return n.Offer.CapacityType == karpv1.CapacityTypeSpot && n.Offer.Reservation == "" && !n.Relaxed && len(n.Drivers) == 0
}

// workload is the pods that scheduling cannot tell apart: those of a Deployment, as a rule.
type workload struct {
	pods    int // on spot nodes, existing and new
	nodes   int // spot nodes that run them
	planned map[cell]int
	running map[spotPool]int
}

// cell is a zone and the types of one stripe in it.
type cell struct {
	zone   string
	stripe int
}

// spotPool is an instance type in a zone.
type spotPool struct{ zone, instanceType string }

type podCount struct{ workload, count int }

type spreader struct {
	state     *exact.State
	m         *model.Model
	share     float64
	budget    float64 // USD an hour that may still be added to prices
	ids       map[*cluster.Shape]int
	workloads []workload
	ranks     map[string]map[string]int // by zone, by type: its position by price among the types seen so far
	stripes   map[string]int            // by zone: into how many cells it is divided
}

func newSpreader(state *exact.State, share float64) *spreader {
	return &spreader{state: state, m: state.Model, share: share, ids: map[*cluster.Shape]int{}, ranks: map[string]map[string]int{}, stripes: map[string]int{}}
}

// countPods counts the pods of a new node, by workload.
func (s *spreader) countPods(pods []cluster.PodKey, shapes map[cluster.PodKey]*cluster.Shape) []podCount {
	var out []podCount
	for _, key := range pods {
		shape := shapes[key]
		if shape == nil {
			continue
		}
		id, known := s.ids[shape]
		if !known {
			id = len(s.workloads)
			s.ids[shape] = id
			s.workloads = append(s.workloads, workload{planned: map[cell]int{}, running: map[spotPool]int{}})
		}
		at := slices.IndexFunc(out, func(c podCount) bool { return c.workload == id })
		if at < 0 {
			at = len(out)
			out = append(out, podCount{workload: id})
			s.workloads[id].nodes++
		}
		out[at].count++
		s.workloads[id].pods++
	}
	return out
}

// countExisting counts the pods that run on spot nodes already, or will by this plan.
func (s *spreader) countExisting(binds []model.Bind, shapes map[cluster.PodKey]*cluster.Shape, removed map[string]bool) {
	bound := map[string][]*cluster.Shape{}
	for _, b := range binds {
		bound[b.Node] = append(bound[b.Node], shapes[b.Pod])
	}
	for i := range s.m.View.Nodes {
		n := &s.m.View.Nodes[i]
		if n.Deleting || removed[n.Name] || capacityType(n) != karpv1.CapacityTypeSpot {
			continue
		}
		pool, placed := poolOf(n)
		var seen []int
		count := func(shape *cluster.Shape) {
			id, known := s.ids[shape]
			if !known {
				return
			}
			w := &s.workloads[id]
			w.pods++
			if !slices.Contains(seen, id) {
				seen = append(seen, id)
				w.nodes++
			}
			if placed {
				w.running[pool]++
			}
		}
		for j := range n.Pods {
			count(n.Pods[j].Shape)
		}
		for _, shape := range bound[n.Name] {
			count(shape)
		}
	}
}

// poolOf is the spot pool of a node. Of a claim that is not launched yet it is one of those that it may get.
func poolOf(n *cluster.Node) (spotPool, bool) {
	at := spotPool{n.Zone, n.InstanceType}
	if at.zone == "" {
		at.zone = only(n.Needs[corev1.LabelTopologyZone])
	}
	if types := n.Needs[corev1.LabelInstanceTypeStable]; at.instanceType == "" && !types.Not && len(types.Values) > 0 {
		at.instanceType = types.Values[0]
	}
	return at, at.zone != "" && at.instanceType != ""
}

func capacityType(n *cluster.Node) string {
	if n.CapacityType != "" {
		return n.CapacityType
	}
	if types := n.Needs[karpv1.LabelCapacityType]; !types.Not && slices.Contains(types.Values, karpv1.CapacityTypeSpot) {
		return karpv1.CapacityTypeSpot
	}
	return ""
}

func only(r reqs.Req) string {
	if r.Not || len(r.Values) != 1 {
		return ""
	}
	return r.Values[0]
}

// narrow restricts a node to the cell that suits its workloads best, and returns what that adds to its price.
func (s *spreader) narrow(n *model.NewNode, counts []podCount) float64 {
	options := s.options(n)
	if len(options) < 2 { // nothing to choose from: the cloud keeps its choice
		return 0
	}
	best := slices.MinFunc(options, func(a, b option) int {
		return cmp.Or(cmp.Compare(s.excess(a.cell, counts), s.excess(b.cell, counts)), cmp.Compare(a.rank, b.rank),
			cmp.Compare(a.zone, b.zone), cmp.Compare(a.stripe, b.stripe))
	})
	for _, c := range counts {
		s.workloads[c.workload].planned[best.cell] += c.count
	}
	added := best.node.Offer.Price - n.Offer.Price
	*n = best.node
	return added
}

// excess is how many pods of the workloads of a node would be on a cell beyond their share. One node of a workload is
// allowed on each.
func (s *spreader) excess(at cell, counts []podCount) float64 {
	total := 0.0
	for _, c := range counts {
		w := &s.workloads[c.workload]
		if w.nodes < LeastNodes {
			continue
		}
		if load := s.load(w, at); load > 0 {
			total += max(0, float64(load+c.count)-s.share*float64(w.pods)-rounding)
		}
	}
	return total
}

func (s *spreader) load(w *workload, at cell) int {
	total := w.planned[at]
	// any order: a sum
	for pool, count := range w.running {
		if rank, known := s.ranks[at.zone][pool.instanceType]; known && pool.zone == at.zone && rank%s.stripes[at.zone] == at.stripe {
			total += count
		}
	}
	return total
}

// option is a node narrowed to a cell.
type option struct {
	cell
	node model.NewNode
	rank float64 // price, interruption risk included
}

// priced is a type with its cheapest offering in a zone.
type priced struct {
	t       int
	at      int
	price   float64
	counted float64 // risk included
}

// options returns the cells that a node can be narrowed to for little more than it costs now.
func (s *spreader) options(n *model.NewNode) []option {
	m := s.m
	poolID := slices.IndexFunc(m.Pools, func(p model.Pool) bool { return p.Source.Name == n.Pool })
	if poolID < 0 {
		return nil
	}
	cat := m.Catalogues[m.Pools[poolID].Catalogue]
	if cat.HasSizes { // what a node holds differs between offerings of one type
		return nil
	}
	limit := n.Offer.Price + min(n.Offer.Price*model.SpreadNodeCostShare, max(s.budget, 0))
	columns, types := s.choicesOf(n, poolID, cat)
	var zones []string
	offers := map[string][]priced{}
	for _, zone := range slices.Sorted(maps.Keys(columns)) {
		list := offersIn(cat, types, columns[zone])
		if len(list) == 0 || list[0].price > limit+rounding || cat.Columns[list[0].at].Capacity != karpv1.CapacityTypeSpot {
			continue
		}
		zones, offers[zone] = append(zones, zone), list
	}
	var out []option
	for _, zone := range zones {
		stripes := s.divide(cat, zone, offers[zone], len(zones))
		for stripe := range stripes {
			list := s.inStripe(cat, zone, stripe, offers[zone])
			if len(list) == 0 || list[0].price > limit+rounding || cat.Columns[list[0].at].Capacity != karpv1.CapacityTypeSpot {
				continue
			}
			o := option{cell: cell{zone, stripe}, node: s.restrict(n, poolID, cat, types, zone, columns[zone], list), rank: math.Inf(1)}
			for _, p := range list {
				o.rank = min(o.rank, p.counted)
			}
			if s.state.MeetsMinValues(&o.node, &m.Pools[poolID]) {
				out = append(out, o)
			}
		}
	}
	return out
}

// choicesOf returns the columns that a node can be launched in, by zone, and its types.
func (s *spreader) choicesOf(n *model.NewNode, poolID int, cat *model.Catalogue) (map[string]bitset.Columns, []int) {
	columns := map[string]bitset.Columns{}
	allowed, _ := cat.ColumnsAllowedBy(n.Needs)
	allowed = allowed.Not(s.m.Pools[poolID].Reserved)
	for i := allowed.Next(0); i >= 0; i = allowed.Next(i + 1) {
		zone := columns[cat.Columns[i].Zone]
		zone.Add(i)
		columns[cat.Columns[i].Zone] = zone
	}
	listed := make(map[string]bool, len(n.Types))
	for _, name := range n.Types {
		listed[name] = true
	}
	var types []int
	for t := range cat.Types {
		if listed[cat.Types[t].InstanceType.Name] {
			types = append(types, t)
		}
	}
	return columns, types
}

// offersIn lists the types that can be launched in some columns, cheapest first.
func offersIn(cat *model.Catalogue, types []int, cols bitset.Columns) []priced {
	var list []priced
	for _, t := range types {
		if price, at := cat.Cheapest(t, cols); at >= 0 {
			list = append(list, priced{t, at, price, cat.CheapestWithRisk(t, cols)})
		}
	}
	slices.SortFunc(list, func(a, b priced) int { return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.t, b.t)) })
	return list
}

// divide says how many cells a zone has. The first node that could use it decides: enough for the bound, and none with
// too few types.
func (s *spreader) divide(cat *model.Catalogue, zone string, list []priced, zones int) int {
	if s.ranks[zone] == nil {
		cells := 2*int(math.Ceil(1/s.share-rounding)) - 1 // what a few nodes need of which two are too many for a cell
		s.ranks[zone] = map[string]int{}
		s.stripes[zone] = max(1, min((cells+zones-1)/zones, len(list)/leastTypes))
	}
	for _, p := range list {
		name := cat.Types[p.t].InstanceType.Name
		if _, known := s.ranks[zone][name]; !known {
			s.ranks[zone][name] = len(s.ranks[zone])
		}
	}
	return s.stripes[zone]
}

func (s *spreader) inStripe(cat *model.Catalogue, zone string, stripe int, list []priced) []priced {
	return slices.DeleteFunc(slices.Clone(list), func(p priced) bool {
		return s.ranks[zone][cat.Types[p.t].InstanceType.Name]%s.stripes[zone] != stripe
	})
}

// restrict returns a node narrowed to a zone and some of its types.
func (s *spreader) restrict(n *model.NewNode, poolID int, cat *model.Catalogue, types []int, zone string, cols bitset.Columns, list []priced) model.NewNode {
	out := *n
	out.Needs, out.Types, out.Overlaid = n.Needs.Clone(), make([]string, 0, len(list)), false
	out.CapacityOverlaid = false
	kept := make([]int, 0, len(list))
	var capacityTypes []string
	for _, p := range list {
		it := cat.Types[p.t].InstanceType
		out.Types, kept, out.Overlaid = append(out.Types, it.Name), append(kept, p.t), out.Overlaid || it.Overlaid
		out.CapacityOverlaid = out.CapacityOverlaid || it.CapacityOverlaid
		left := cat.Launchable[p.t].And(cols)
		for i := left.Next(0); i >= 0; i = left.Next(i + 1) {
			capacityTypes = append(capacityTypes, cat.Columns[i].Capacity)
		}
	}
	slices.Sort(capacityTypes)
	set(out.Needs, corev1.LabelTopologyZone, []string{zone})
	set(out.Needs, karpv1.LabelCapacityType, slices.Compact(capacityTypes))
	first := &cat.Columns[list[0].at]
	out.Offer = model.Offer{Type: out.Types[0], Zone: first.Zone, CapacityType: first.Capacity, Price: list[0].price}
	out.Requests = resources.Add(resources.Sub(n.Requests, s.leastOverhead(poolID, types)), s.leastOverhead(poolID, kept))
	return out
}

func set(needs reqs.Set, key string, values []string) {
	if r, err := reqs.New(corev1.NodeSelectorOpIn, values, 0); err == nil {
		needs[key] = r.WithMinValues(needs[key].MinValues)
	}
}

// leastOverhead is the least that DaemonSets request on any of some types (SC-49).
func (s *spreader) leastOverhead(poolID int, types []int) resources.Vec {
	lanes := s.m.View.Resources.Len()
	least := make([]int64, lanes)
	for i, t := range types {
		takes := s.m.Pools[poolID].Capacity.Overhead[t*s.m.Lanes : t*s.m.Lanes+lanes]
		for l, v := range takes {
			if i == 0 || v < least[l] {
				least[l] = v
			}
		}
	}
	return resources.Of(least...)
}
