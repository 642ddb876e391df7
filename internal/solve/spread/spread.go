package spread

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

const (
	// LeastNodes is how many spot nodes a workload has, at least, before they are spread.
	LeastNodes = 2
	// leastTypes is how many types a cell keeps for a node, so that the cloud still has a choice.
	leastTypes = 3
	rounding   = 1e-9
)

// Nodes narrows new spot nodes to cells and returns what that adds to their prices, USD an hour. The nodes are changed in
// place. binds are the pods that go to existing nodes, and removed the nodes that are about to be removed.
func Nodes(state *exact.State, nodes []*model.NewNode, binds []model.Bind, removed map[string]bool) (added float64) {
	if s := newSpreader(state, nodes, binds, removed); s != nil {
		return s.narrowAll(nodes)
	}
	return 0
}

// narrowAll narrows the nodes one after another.
func (s *spreader) narrowAll(nodes []*model.NewNode) (added float64) {
	s.budget = s.most
	for i, n := range nodes {
		if s.spreads(s.counts[i]) {
			cost := s.narrow(n, s.counts[i])
			added, s.budget = added+cost, s.budget-cost
		}
	}
	return added
}

// spreads reports whether a node is to be spread: it runs a workload with enough spot nodes.
func (s *spreader) spreads(counts []podCount) bool {
	return slices.ContainsFunc(counts, func(c podCount) bool { return s.bounds(c.workload) })
}

func (s *spreader) bounds(workload int) bool { return s.workloads[workload].nodes >= LeastNodes }

func isSpot(n *model.NewNode) bool {
	return n.Offer.CapacityType == karpv1.CapacityTypeSpot && n.Offer.Reservation == "" && !n.Relaxed && len(n.Drivers) == 0
}

// workload is the pods that are equal for scheduling: usually those of a Deployment.
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
	share     float64                           // that a cell may take of a workload
	cells     int                               // how many the bound needs
	most      float64                           // USD an hour that may be added to prices
	budget    float64                           // of that, what may still be added
	shapes    map[cluster.PodKey]*cluster.Shape // of the pods to be placed
	ids       map[*cluster.Shape]int
	workloads []workload
	counts    [][]podCount         // by new node; nil: it is not a spot node
	known     map[kindKey][]option // what equal nodes can be narrowed to
	buffer    []int64
	taken     []int                     // of each workload of a group
	loosened  []int                     // nodes whose pods the last attempt with a share put on other nodes
	ranks     map[string]map[string]int // by zone, by type: its position by price among the types seen so far
	stripes   map[string]int            // by zone: into how many cells it is divided
}

// newSpreader reads what there is to spread, or returns nil if that is nothing.
func newSpreader(state *exact.State, nodes []*model.NewNode, binds []model.Bind, removed map[string]bool) *spreader {
	m := state.Model
	share := m.Problem.Policy.SpotShare
	if share <= 0 || share >= 1 || !slices.ContainsFunc(nodes, isSpot) {
		return nil
	}
	s := &spreader{
		state: state, m: m, share: share, shapes: make(map[cluster.PodKey]*cluster.Shape, len(m.Pods)), ids: map[*cluster.Shape]int{},
		cells:  2*int(math.Ceil(1/share-rounding)) - 1, // what a few nodes need of which two are too many for a cell
		counts: make([][]podCount, len(nodes)), known: map[kindKey][]option{}, ranks: map[string]map[string]int{}, stripes: map[string]int{},
	}
	for i := range m.Pods {
		s.shapes[m.Pods[i].Key] = m.Pods[i].Shape
	}
	for i, n := range nodes {
		if isSpot(n) {
			s.counts[i] = s.countPods(n.Pods)
		}
	}
	s.countExisting(binds, removed)
	for i, n := range nodes {
		if s.spreads(s.counts[i]) {
			s.most += n.Offer.Price * m.Problem.Policy.SpotCost
		}
	}
	return s
}

// countPods counts the pods of a new node, by workload.
func (s *spreader) countPods(pods []cluster.PodKey) []podCount {
	var out []podCount
	for _, key := range pods {
		shape := s.shapes[key]
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
func (s *spreader) countExisting(binds []model.Bind, removed map[string]bool) {
	bound := map[string][]*cluster.Shape{}
	for _, b := range binds {
		bound[b.Node] = append(bound[b.Node], s.shapes[b.Pod])
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
	limit := n.Offer.Price + max(s.budget, 0) + rounding
	var best *option
	choices, least := 0, 0.0
	options := s.options(n)
	for i := range options {
		o := &options[i]
		if o.node.Offer.Price > limit {
			continue
		}
		choices++
		if excess := s.excess(o.cell, counts); best == nil || excess < least || excess == least && o.compare(best) < 0 {
			best, least = o, excess
		}
	}
	if choices < 2 { // nothing to choose from: the cloud keeps its choice
		return 0
	}
	return s.put(n, counts, best)
}

// put restricts a node to a cell, and returns what that adds to its price.
func (s *spreader) put(n *model.NewNode, counts []podCount, o *option) float64 {
	for _, c := range counts {
		s.workloads[c.workload].planned[o.cell] += c.count
	}
	before := *n
	*n = o.node
	n.Pods, n.Requests = before.Pods, resources.Add(before.Requests, o.overhead)
	return n.Offer.Price - before.Offer.Price
}

// excess is how many pods of the workloads of a node would be on a cell beyond their share. One node of a workload is
// allowed on each.
func (s *spreader) excess(at cell, counts []podCount) float64 {
	total := 0.0
	for _, c := range counts {
		w := &s.workloads[c.workload]
		if !s.bounds(c.workload) {
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

// option is what a node is that is narrowed to a cell.
type option struct {
	cell
	node     model.NewNode // without pods and requests
	overhead resources.Vec // what DaemonSets request more than on any of its types
	rank     float64       // price, interruption risk included
}

func (o *option) compare(other *option) int {
	return cmp.Or(cmp.Compare(o.rank, other.rank), cmp.Compare(o.zone, other.zone), cmp.Compare(o.stripe, other.stripe))
}

// kindKey is the same for nodes with the same options: those that are launched alike share the list of types.
type kindKey struct {
	pool  string
	types *string
	count int
	offer model.Offer
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
	if len(n.Types) == 0 {
		return nil
	}
	key := kindKey{n.Pool, &n.Types[0], len(n.Types), n.Offer}
	out, known := s.known[key]
	if !known {
		out = s.newOptions(n)
		s.known[key] = out
	}
	return out
}

func (s *spreader) newOptions(n *model.NewNode) []option {
	poolID := s.poolOf(n)
	if poolID < 0 {
		return nil
	}
	cat := s.m.Catalogues[s.m.Pools[poolID].Catalogue]
	if cat.HasSizes { // what a node holds differs between offerings of one type
		return nil
	}
	limit := n.Offer.Price*(1+s.m.Problem.Policy.SpreadNodeCost()) + rounding
	columns, types := s.choicesOf(n, poolID, cat)
	var zones []string
	offers := map[string][]priced{}
	for _, zone := range slices.Sorted(maps.Keys(columns)) {
		list := offersIn(cat, types, columns[zone])
		if len(list) == 0 || list[0].price > limit || cat.Columns[list[0].at].Capacity != karpv1.CapacityTypeSpot {
			continue
		}
		zones, offers[zone] = append(zones, zone), list
	}
	var out []option
	for _, zone := range zones {
		s.divide(cat, zone, offers[zone], len(zones))
		for stripe := range s.stripes[zone] {
			list := s.inStripe(cat, zone, stripe, offers[zone])
			if len(list) == 0 || list[0].price > limit || cat.Columns[list[0].at].Capacity != karpv1.CapacityTypeSpot {
				continue
			}
			o := s.restrict(n, poolID, types, cell{zone, stripe}, columns[zone], list)
			if s.state.MeetsMinValues(&o.node, &s.m.Pools[poolID]) {
				out = append(out, o)
			}
		}
	}
	return out
}

func (s *spreader) poolOf(n *model.NewNode) int {
	return slices.IndexFunc(s.m.Pools, func(p model.Pool) bool { return p.Source.Name == n.Pool })
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
	return columns, cat.Named(n.Types)
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

// divide divides a zone into cells. The first node that could use it decides into how many: enough for the bound, and none
// with too few types.
func (s *spreader) divide(cat *model.Catalogue, zone string, list []priced, zones int) {
	if s.ranks[zone] == nil {
		s.ranks[zone] = map[string]int{}
		s.stripes[zone] = max(1, min((s.cells+zones-1)/zones, len(list)/leastTypes))
	}
	for _, p := range list {
		name := cat.Types[p.t].InstanceType.Name
		if _, known := s.ranks[zone][name]; !known {
			s.ranks[zone][name] = len(s.ranks[zone])
		}
	}
}

func (s *spreader) inStripe(cat *model.Catalogue, zone string, stripe int, list []priced) []priced {
	return slices.DeleteFunc(slices.Clone(list), func(p priced) bool {
		return s.ranks[zone][cat.Types[p.t].InstanceType.Name]%s.stripes[zone] != stripe
	})
}

// restrict returns a node narrowed to a cell: a zone and some of its types.
func (s *spreader) restrict(n *model.NewNode, poolID int, types []int, at cell, cols bitset.Columns, list []priced) option {
	cat := s.m.Catalogues[s.m.Pools[poolID].Catalogue]
	o := option{cell: at, node: *n, rank: math.Inf(1)}
	out := &o.node
	out.Needs, out.Types, out.Overlaid = n.Needs.Clone(), make([]string, 0, len(list)), false
	out.CapacityOverlaid = false
	kept := make([]int, 0, len(list))
	var capacityTypes []string
	for _, p := range list {
		it := cat.Types[p.t].InstanceType
		out.Types, kept, out.Overlaid = append(out.Types, it.Name), append(kept, p.t), out.Overlaid || it.Overlaid
		out.CapacityOverlaid = out.CapacityOverlaid || it.CapacityOverlaid
		o.rank = min(o.rank, p.counted)
		left := cat.Launchable[p.t].And(cols)
		for i := left.Next(0); i >= 0; i = left.Next(i + 1) {
			capacityTypes = append(capacityTypes, cat.Columns[i].Capacity)
		}
	}
	slices.Sort(capacityTypes)
	set(out.Needs, corev1.LabelTopologyZone, []string{at.zone})
	set(out.Needs, karpv1.LabelCapacityType, slices.Compact(capacityTypes))
	out.Spread = []reason.Reason{{
		Code: reason.SpotSpread, Rule: "IR-05", Have: fmt.Sprintf("%d of %d instance types in %s", len(list), len(types), at.zone), Want: percent(s.m.Problem.Policy.SpotShare),
	}}
	first := &cat.Columns[list[0].at]
	out.Offer = model.Offer{Type: out.Types[0], Zone: first.Zone, CapacityType: first.Capacity, Price: list[0].price}
	o.overhead = resources.Sub(s.leastOverhead(poolID, kept), s.leastOverhead(poolID, types))
	return o
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
