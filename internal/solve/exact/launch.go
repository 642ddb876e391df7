package exact

import (
	"cmp"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// launchTerms is how a planned node is launched: what is written on its NodeClaim. Planned nodes with the same open
// choices share one.
type launchTerms struct {
	types    []string
	needs    reqs.Set
	offer    model.Offer
	overlaid bool
	resized  bool    // a NodeOverlay changed the capacity of a type
	relaxed  bool    // minValues is lower than the pool's (SC-43)
	over     []int64 // the least that DaemonSets request
	short    bool    // cutting the list broke minValues (SC-44)
}

// ComparisonCost is the cost of the planned nodes when plans are compared: prices, risks and fees.
func (s *State) ComparisonCost() float64 {
	total := 0.0
	for _, b := range s.Bins {
		cat, cols := s.Model.Catalogues[s.Model.Pools[b.Pool].Catalogue], s.LaunchColumns(b)
		least := math.Inf(1)
		for t := b.Types.Next(0); t >= 0; t = b.Types.Next(t + 1) {
			least = min(least, cat.CheapestWithRisk(t, cols))
		}
		if !math.IsInf(least, 1) {
			total += least
		}
		total += s.Model.Problem.Policy.NodeFee
	}
	return total
}

// Leftover is what a plan does not contain: unschedulable pods.
type Leftover struct {
	Cut  []CutNode
	Rest [][]int32 // by class: indices into Model.Pods
}

// CutNode is a planned node that cannot be launched, and its pods.
type CutNode struct {
	Bin  *Bin
	Pods []cluster.PodKey
}

// WritePlan converts the state into a plan. Unschedulable pods are returned as leftover.
func (s *State) WritePlan() (model.Plan, Leftover) {
	m := s.Model
	plan := model.Plan{Version: m.View.Version, Partial: s.Stopped}
	pods := make([][]cluster.PodKey, len(s.Bins))
	given, rest := s.assignPods()
	over := Leftover{Rest: rest}
	for i, at := range s.Placed {
		for _, p := range given[i] {
			if n := int(at.Place); n < len(m.Nodes) {
				plan.Bind = append(plan.Bind, model.Bind{Pod: m.Pods[p].Key, Node: m.Nodes[n].Source.Name})
			} else {
				pods[n-len(m.Nodes)] = append(pods[n-len(m.Nodes)], m.Pods[p].Key)
			}
		}
	}
	known := map[string]*launchTerms{}
	for i, b := range s.Bins {
		if len(pods[i]) == 0 {
			continue
		}
		l := s.launchOf(b, known)
		slices.SortFunc(pods[i], cluster.PodKey.Compare)
		if l.short {
			over.Cut = append(over.Cut, CutNode{b, pods[i]})
			continue
		}
		lanes := slices.Clone(b.Used[:m.View.Resources.Len()])
		for n := range lanes {
			lanes[n] += l.over[n]
		}
		plan.Create = append(plan.Create, model.NewNode{
			Pool: m.Pools[b.Pool].Source.Name, Needs: l.needs, Types: l.types, Requests: resources.Of(lanes...),
			Pods: pods[i], Offer: l.offer, Relaxed: l.relaxed, Overlaid: l.overlaid, CapacityOverlaid: l.resized,
			Drivers: s.driversOf(b, i, l.types),
		})
		plan.Cost += l.offer.Price
	}
	slices.SortFunc(plan.Bind, func(a, b model.Bind) int { return cmp.Or(a.Pod.Compare(b.Pod), cmp.Compare(a.Node, b.Node)) })
	return plan, over
}

// launchOf computes how a planned node is launched.
func (s *State) launchOf(b *Bin, known map[string]*launchTerms) *launchTerms {
	m := s.Model
	cols := s.LaunchColumns(b)
	key := launchKey(b, cols)
	if l, found := known[key]; found {
		return l
	}
	pl := &m.Pools[b.Pool]
	cat := m.Catalogues[pl.Catalogue]
	l := &launchTerms{over: make([]int64, m.Lanes), types: make([]string, 0, min(model.MaxTypes, b.Types.Count()))}
	known[key] = l
	kept, count, first := bitset.NewSet(len(cat.Types)), 0, -1
	for _, byPrice := range cat.TypesByPrice(cols) {
		t := int(byPrice)
		if !b.Types.Has(t) {
			continue
		}
		if count++; first < 0 {
			first = t
		}
		name := cat.Types[t].InstanceType.Name
		if cat.HasSizes && slices.Contains(l.types, name) { // its offerings differ in size
			kept.Add(t)
			continue
		}
		if len(l.types) == model.MaxTypes {
			continue
		}
		kept.Add(t)
		l.types = append(l.types, name)
		l.overlaid = l.overlaid || cat.Types[t].InstanceType.Overlaid
		l.resized = l.resized || cat.Types[t].InstanceType.CapacityOverlaid
		for n, v := range pl.Capacity.Overhead[t*m.Lanes : (t+1)*m.Lanes] {
			if len(l.types) == 1 || v < l.over[n] {
				l.over[n] = v
			}
		}
	}
	if first >= 0 {
		p, at := cat.Cheapest(first, cols)
		l.offer = model.Offer{Type: l.types[0], Zone: cat.Columns[at].Zone, CapacityType: cat.Columns[at].Capacity, Reservation: cat.Columns[at].Reservation, Price: p}
	}
	l.needs = needsOf(m, b, cols, kept)
	f := Trial{Row: b.Row, Types: kept, Columns: cols, Reservations: b.Reservations}
	minimum := b.Minimums // possibly lowered
	if l.relaxed = b.relaxed; b.relaxed && s.meetsMinimums(pl.Minimums, pl, &f) {
		minimum, l.relaxed = pl.Minimums, false // the reservation that limited it was dropped
	}
	for _, least := range minimum {
		key := m.Table.KeyName(least.Key)
		l.needs[key] = l.needs[key].WithMinValues(least.Values)
	}
	l.short = count == 0 || count > model.MaxTypes && !s.meetsMinimums(minimum, pl, &f)
	return l
}

func launchKey(b *Bin, cols bitset.Columns) string {
	var w strings.Builder
	put := func(v uint64) {
		for range 8 {
			w.WriteByte(byte(v))
			v >>= 8
		}
	}
	put(uint64(b.Pool))
	put(cols[0])
	put(cols[1])
	for _, v := range b.Types {
		put(v)
	}
	for _, id := range b.Needs {
		put(uint64(id))
	}
	for _, least := range b.Minimums {
		put(uint64(least.Values))
	}
	return w.String()
}

// needsOf writes the requirements of a planned node: those of its pool and pods, with the capacity
// types that can be launched (SC-47).
func needsOf(m *model.Model, b *Bin, cols bitset.Columns, types bitset.Set) reqs.Set {
	needs := b.Row.Set()
	cat := m.Catalogues[m.Pools[b.Pool].Catalogue]
	var open bitset.Columns
	for t := types.Next(0); t >= 0; t = types.Next(t + 1) {
		open = open.Or(cat.Launchable[t].And(cols))
	}
	values := map[string][]string{}
	for i := open.Next(0); i >= 0; i = open.Next(i + 1) {
		for _, l := range cat.Columns[i].Labels {
			if l.Key == karpv1.LabelCapacityType || len(b.Reservations) > 0 { // exactly the reservations that it takes a slot of
				values[l.Key] = append(values[l.Key], l.Value)
			}
		}
	}
	// any order: keys are independent
	for key, list := range values {
		slices.Sort(list)
		r, err := reqs.New(corev1.NodeSelectorOpIn, slices.Compact(list), 0)
		if err == nil {
			needs[key] = r.WithMinValues(needs[key].MinValues)
		}
	}
	return needs
}

// LeastPrice is the lowest price of a planned node in some of its columns.
func (s *State) LeastPrice(b *Bin, cols bitset.Columns) float64 {
	cat := s.Model.Catalogues[s.Model.Pools[b.Pool].Catalogue]
	for _, t := range cat.TypesByPrice(cols) {
		if b.Types.Has(int(t)) {
			price, _ := cat.Cheapest(int(t), cols)
			return price
		}
	}
	return math.Inf(1)
}

// MeetsMinValues reports whether the types of a new node have as many values as its minValues require.
func (s *State) MeetsMinValues(c *model.NewNode, pl *model.Pool) bool {
	if !requiresValues(c.Needs) {
		return true
	}
	m := s.Model
	cat := m.Catalogues[pl.Catalogue]
	cols, held := OfferingsOf(c, cat)
	f := Trial{Row: m.RowOf(c.Needs), Types: bitset.NewSet(len(cat.Types)), Columns: cols, Reservations: held}
	if c.Offer.Reservation == "" {
		f.Reservations = nil
	}
	for _, t := range cat.Named(c.Types) {
		f.Types.Add(t)
	}
	for key, r := range c.Needs {
		k, known := m.Table.Key(key)
		if known && r.MinValues > 0 && s.CountDistinct(pl, &f, k) < r.MinValues {
			return false
		}
	}
	return true
}

// requiresValues reports whether any requirement has minValues, as few have.
func requiresValues(needs reqs.Set) bool {
	// any order: whether there is one
	for _, r := range needs {
		if r.MinValues > 0 {
			return true
		}
	}
	return false
}

// OfferingsOf returns the offerings with which a new node can be launched as the capacity type it was priced as.
func OfferingsOf(c *model.NewNode, cat *model.Catalogue) (cols bitset.Columns, held []int) {
	cols, held = cat.ColumnsAllowedBy(c.Needs)
	for i := range cat.Columns {
		if cat.Columns[i].Capacity != c.Offer.CapacityType {
			cols = cols.Without(i)
		}
	}
	return cols, held
}
