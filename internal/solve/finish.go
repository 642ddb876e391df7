package solve

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
)

// launch is how a planned node will be bought: what is written on its NodeClaim. Planned nodes that
// leave the same open share one.
type launch struct {
	types    []string
	needs    reqs.Set
	offer    Offer
	overlaid bool
	relaxed  bool    // minValues is lower than the pool's (SC-43)
	over     []int64 // the least that DaemonSets take
	short    bool    // cutting the list broke minValues (SC-44)
}

// comparisonCost is what the planned nodes count for when plans are compared: prices, risks and fees.
func (s *state) comparisonCost() float64 {
	total := 0.0
	for _, b := range s.bins {
		cat, cols := s.m.catalogues[s.m.pools[b.pool].catalogue], s.launchColumns(b)
		least := math.Inf(1)
		for t := b.types.next(0); t >= 0; t = b.types.next(t + 1) {
			least = min(least, cat.lightest(t, cols))
		}
		if !math.IsInf(least, 1) {
			total += least
		}
		total += s.m.problem.Policy.NodeFee
	}
	return total
}

// launchColumns are the columns a planned node is written with: those of its reservations if it holds
// any (SC-47).
func (s *state) launchColumns(b *bin) columns {
	return s.heldColumns(&s.m.pools[b.pool], b.cols, b.held)
}

func (s *state) heldColumns(pl *pool, cols columns, held []int) columns {
	if len(held) == 0 {
		return cols.not(pl.reserved)
	}
	var out columns
	cat := s.m.catalogues[pl.catalogue]
	for i := range cat.cols {
		if cat.cols[i].reserved >= 0 && slices.Contains(held, cat.cols[i].reserved) {
			out.add(i)
		}
	}
	return out.and(cols)
}

// leftover is what a plan does not contain: pods without a place.
type leftover struct {
	cut  []cutNode
	rest [][]int32 // of each class, into model.pods
}

// cutNode is a planned node that cannot be launched after all, and its pods.
type cutNode struct {
	bin  *bin
	pods []cluster.PodKey
}

// plan writes the state down, but for the pods that have no place: these are left over.
func (s *state) plan() (Plan, leftover) {
	m := s.m
	plan := Plan{Version: m.view.Version, Partial: s.stopped}
	pods := make([][]cluster.PodKey, len(s.bins))
	given, rest := s.assignPods()
	over := leftover{rest: rest}
	for i, at := range s.placed {
		for _, p := range given[i] {
			if n := int(at.place); n < len(m.nodes) {
				plan.Bind = append(plan.Bind, Bind{m.pods[p].Key, m.nodes[n].src.Name})
			} else {
				pods[n-len(m.nodes)] = append(pods[n-len(m.nodes)], m.pods[p].Key)
			}
		}
	}
	known := map[string]*launch{}
	for i, b := range s.bins {
		if len(pods[i]) == 0 {
			continue
		}
		l := s.launchOf(b, known)
		slices.SortFunc(pods[i], cluster.PodKey.Compare)
		if l.short {
			over.cut = append(over.cut, cutNode{b, pods[i]})
			continue
		}
		lanes := slices.Clone(b.used[:m.view.Resources.Len()])
		for n := range lanes {
			lanes[n] += l.over[n]
		}
		plan.Create = append(plan.Create, NewNode{
			Pool: m.pools[b.pool].src.Name, Needs: l.needs, Types: l.types, Requests: resources.Of(lanes...),
			Pods: pods[i], Offer: l.offer, Relaxed: l.relaxed, Overlaid: l.overlaid,
		})
		plan.Cost += l.offer.Price
	}
	slices.SortFunc(plan.Bind, func(a, b Bind) int { return cmp.Or(a.Pod.Compare(b.Pod), cmp.Compare(a.Node, b.Node)) })
	return plan, over
}

// launchOf works out how a planned node is bought.
func (s *state) launchOf(b *bin, known map[string]*launch) *launch {
	m := s.m
	cols := s.launchColumns(b)
	key := launchKey(b, cols)
	if l, found := known[key]; found {
		return l
	}
	pl := &m.pools[b.pool]
	cat := m.catalogues[pl.catalogue]
	l := &launch{over: make([]int64, m.lanes), types: make([]string, 0, min(MaxTypes, b.types.count()))}
	known[key] = l
	kept, count, first := newSet(len(cat.types)), 0, -1
	for _, sold := range cat.order(cols) {
		t := int(sold)
		if !b.types.has(t) {
			continue
		}
		if count++; first < 0 {
			first = t
		}
		name := cat.types[t].it.Name
		if cat.twice && slices.Contains(l.types, name) { // its offerings differ in size
			kept.add(t)
			continue
		}
		if len(l.types) == MaxTypes {
			continue
		}
		kept.add(t)
		l.types = append(l.types, name)
		l.overlaid = l.overlaid || cat.types[t].it.Overlaid
		for n, v := range pl.rooms.over[t*m.lanes : (t+1)*m.lanes] {
			if len(l.types) == 1 || v < l.over[n] {
				l.over[n] = v
			}
		}
	}
	if first >= 0 {
		p, at := cat.cheapest(first, cols)
		l.offer = Offer{Type: l.types[0], Zone: cat.cols[at].zone, CapacityType: cat.cols[at].capacity, Reservation: cat.cols[at].reservation, Price: p}
	}
	l.needs = m.needsOf(b, cols, kept)
	f := frame{row: b.row, types: kept, cols: cols, held: b.held}
	minimum := b.minimum // as lowered, if it was
	if l.relaxed = b.relaxed; b.relaxed && s.minimums(pl.minimums, pl, &f) {
		minimum, l.relaxed = pl.minimums, false // it gave up the reservation that left it so few
	}
	for _, least := range minimum {
		key := m.table.KeyName(least.key)
		l.needs[key] = l.needs[key].WithMinValues(least.values)
	}
	l.short = count == 0 || count > MaxTypes && !s.minimums(minimum, pl, &f)
	return l
}

func launchKey(b *bin, cols columns) string {
	var w strings.Builder
	put := func(v uint64) {
		for range 8 {
			w.WriteByte(byte(v))
			v >>= 8
		}
	}
	put(uint64(b.pool))
	put(cols[0])
	put(cols[1])
	for _, v := range b.types {
		put(v)
	}
	for _, id := range b.needs {
		put(uint64(id))
	}
	for _, least := range b.minimum {
		put(uint64(least.values))
	}
	return w.String()
}

// excludes reports whether requirements that list the labels of some columns rule a label out.
func (c *catalogue) excludes(cols columns, l label) bool {
	listed := false
	for i := cols.next(0); i >= 0; i = cols.next(i + 1) {
		for _, o := range c.cols[i].labels {
			if o == l {
				return false
			}
			listed = listed || o.key == l.key
		}
	}
	return listed
}

// within returns the columns that requirements allow, and the reservations among them.
func (c *catalogue) within(needs reqs.Set) (cols columns, held []int) {
	for i := range c.cols {
		if slices.ContainsFunc(c.cols[i].labels, func(l label) bool { return !needs.Allows(l.key, l.value) }) {
			continue
		}
		cols.add(i)
		if id := c.cols[i].reserved; id >= 0 {
			held = append(held, id)
		}
	}
	return cols, held
}

// needsOf writes the requirements of a planned node: those of its pool and pods, with the capacity
// types that can be launched (SC-47).
func (m *model) needsOf(b *bin, cols columns, types set) reqs.Set {
	needs := b.row.Set()
	cat := m.catalogues[m.pools[b.pool].catalogue]
	var open columns
	for t := types.next(0); t >= 0; t = types.next(t + 1) {
		open = open.or(cat.launch[t].and(cols))
	}
	values := map[string][]string{}
	for i := open.next(0); i >= 0; i = open.next(i + 1) {
		for _, l := range cat.cols[i].labels {
			if l.key == karpv1.LabelCapacityType || len(b.held) > 0 { // of reservations exactly those it holds
				values[l.key] = append(values[l.key], l.value)
			}
		}
	}
	// any order: each key is looked at by itself
	for key, list := range values {
		slices.Sort(list)
		r, err := reqs.New(corev1.NodeSelectorOpIn, slices.Compact(list), 0)
		if err == nil {
			needs[key] = r.WithMinValues(needs[key].MinValues)
		}
	}
	return needs
}
