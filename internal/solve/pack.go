package solve

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/lp"
)

// packer packs lots onto new nodes of one pool. It decides by price: a linear program over the totals
// says what a unit of each resource is worth, a pattern is one node filled by that measure, and the
// pattern that wastes least is taken as often as it can be, until nothing is left.
type packer struct {
	m      *model
	pool   int
	cat    *catalogue
	room   []int64
	afford set // types that the limits of the pool allow
	fee    float64
	lots   []lot
	left   []int
	value  []float64 // of a pod of each lot
	fits   []*fit    // of each lot in the pool
	wants  []int     // of each lot: need for labels that the pool lets pods choose, 0 if none
	cells  []cell
	inCell []int    // of each lot
	kinds  []config // worth filling while there is plenty
	tail   []config // for the last few nodes, besides
	ways   []columns
	family []int // of each lot: group that allows its pods only so many per host, or -1
	crowd  []int // pods left of each group
	tune   tuning
	local  hostTally
	took   []int
	live   []int
	out    []*pattern
}

// tuning is what differs between attempts at one packing problem.
type tuning struct {
	bend float64 // how much size counts against shape when filling
	most float64 // no node is worth more than this; 0: any
	lead bool    // fill nodes only as the type that the linear program spends most on
}

// config is a kind of node that could be bought: a type in some columns.
type config struct {
	t       int
	cols    columns
	worth   float64 // of all it has room for
	pattern *pattern
	gain    float64 // value for price when it was last filled
}

// pattern is a way to fill one node.
type pattern struct {
	takes []take
	used  []int64
	types set
	cols  columns
	wants int     // need for labels that the pool lets pods choose
	price float64 // of the cheapest type that holds it
	value float64
	times int
}

type take struct{ lot, count int }

// pack packs lots whose home is a pool. What no node can hold stays in left. It only reads what it is
// given, so attempts at one problem may run at once.
func (s *state) pack(poolID int, lots []lot, fits []*fit, wants []int, tune tuning) *packer {
	m := s.m
	pl := &m.pools[poolID]
	w := &packer{
		m: m, pool: poolID, cat: m.catalogues[pl.catalogue], room: pl.rooms.room, afford: s.affordable(poolID),
		fee: m.problem.Policy.NodeFee, lots: lots, fits: fits, wants: wants, tune: tune,
	}
	w.left, w.took, w.value = make([]int, len(lots)), make([]int, len(lots)), make([]float64, len(lots))
	for i := range lots {
		w.left[i] = lots[i].count
	}
	w.local = newHostTally(len(m.groups))
	w.readFamilies()
	w.readCells()
	w.readWays()
	w.readKinds()
	w.run()
	return w
}

// readWays groups the columns of the pool: two that every lot may use, or may not use, alike are one
// way to buy a node.
func (w *packer) readWays() {
	var masks []columns
	for _, f := range w.fits {
		if !slices.Contains(masks, f.cols) {
			masks = append(masks, f.cols)
		}
	}
	byMask := map[string]int{}
	key := make([]byte, len(masks))
	for c := range w.cat.cols {
		if !w.m.pools[w.pool].cols.has(c) {
			continue
		}
		for i, cols := range masks {
			key[i] = byte(boolInt(cols.has(c)))
		}
		id, known := byMask[string(key)]
		if !known {
			id = len(w.ways)
			byMask[string(key)] = id
			w.ways = append(w.ways, columns{})
		}
		w.ways[id].add(c)
	}
}

// readKinds prices the lots of each need by a linear program over the choices it has, and collects
// the kinds of node that are worth filling.
func (w *packer) readKinds() {
	needs := map[int][]int{}
	var order []int
	for i := range w.lots {
		if needs[w.lots[i].need] == nil {
			order = append(order, w.lots[i].need)
		}
		needs[w.lots[i].need] = append(needs[w.lots[i].need], i)
	}
	seen := map[[2]int]bool{}
	for _, n := range order {
		w.priceNeed(needs[n], seen)
	}
	for _, list := range [][]config{w.kinds, w.tail} {
		slices.SortStableFunc(list, func(a, b config) int {
			return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(a.t, b.t), cmp.Compare(a.cols.next(0), b.cols.next(0)))
		})
	}
}

const (
	kindsPerNeed = 5   // that are filled while there is plenty
	tailWithin   = 1.2 // kinds up to this much dearer per unit may do for the last nodes
)

// priceNeed sets the value of some lots that have the same choices, and adds the kinds worth filling.
func (w *packer) priceNeed(ids []int, seen map[[2]int]bool) {
	lanes := w.lanesOf(ids)
	f := w.fits[ids[0]]
	types, cost := w.choices(f)
	rows := make([]float64, 0, len(types)*len(lanes))
	for _, t := range types {
		for _, l := range lanes {
			rows = append(rows, float64(max(0, w.room[t*w.m.lanes+l])))
		}
	}
	demand := make([]float64, len(lanes))
	for _, i := range ids {
		for r, l := range lanes {
			demand[r] += float64(w.lots[i].count) * float64(w.m.classes[w.lots[i].class].req[l])
		}
	}
	sol := lp.Cover(cost, rows, len(lanes), demand)
	if !sol.OK {
		return
	}
	for _, i := range ids {
		for r, l := range lanes {
			w.value[i] += sol.Duals[r] * float64(w.m.classes[w.lots[i].class].req[l])
		}
	}
	type choice struct {
		at    int
		worth float64
		ratio float64
	}
	list := make([]choice, len(types))
	for at := range types {
		worth := 0.0
		for r := range lanes {
			worth += sol.Duals[r] * rows[at*len(lanes)+r]
		}
		list[at] = choice{at, worth, cost[at] / max(worth, 1e-12)}
	}
	slices.SortFunc(list, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.ratio, b.ratio), cmp.Compare(b.worth, a.worth), cmp.Compare(a.at, b.at))
	})
	taken, bucket := 0, map[int]int{}
	for _, c := range list {
		if w.tune.most > 0 && c.worth > w.tune.most || c.worth <= 0 {
			continue
		}
		about := int(math.Log2(c.worth) * 1.5)
		main := taken < kindsPerNeed
		if w.tune.lead {
			main = c.at == dominant(sol.X, cost)
		}
		if !main && (c.ratio > tailWithin || bucket[about] >= 2) {
			continue
		}
		taken++
		bucket[about]++
		for way, cols := range w.ways {
			t := types[c.at]
			if seen[[2]int{way, t}] || cols.and(f.cols).and(w.cat.launch[t]).empty() {
				continue
			}
			seen[[2]int{way, t}] = true
			k := config{t: t, cols: cols, worth: c.worth, gain: math.Inf(1)}
			if main {
				w.kinds = append(w.kinds, k)
			} else {
				w.tail = append(w.tail, k)
			}
		}
	}
}

// dominant returns the column on which a solution spends most.
func dominant(x []lp.Entry, cost []float64) int {
	best, most := -1, 0.0
	for _, e := range x {
		if v := e.Amount * cost[e.Column]; v > most {
			best, most = e.Column, v
		}
	}
	return best
}

// lanesOf returns the lanes that some lots ask for.
func (w *packer) lanesOf(ids []int) []int {
	used := make([]bool, w.m.lanes)
	for _, i := range ids {
		for _, l := range w.m.classes[w.lots[i].class].asks {
			used[l] = true
		}
	}
	var lanes []int
	for l, u := range used {
		if u {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// choices returns the types that a lot may use and what a node of each costs at least, fee included.
func (w *packer) choices(f *fit) ([]int, []float64) {
	var types []int
	var cost []float64
	for t := f.types.next(0); t >= 0; t = f.types.next(t + 1) {
		if p, at := w.cat.cheapest(t, f.cols); at >= 0 && w.afford.has(t) {
			types, cost = append(types, t), append(cost, p+w.fee)
		}
	}
	return types, cost
}

// run takes patterns until nothing is left.
func (w *packer) run() {
	rest := 0.0
	for i, n := range w.left {
		rest += w.value[i] * float64(n)
	}
	list, tail := w.kinds, false
	for sum(w.left) > 0 {
		if !tail && (len(list) == 0 || rest < 3*list[0].worth) {
			tail, list = true, append(list, w.tail...)
		}
		p := w.best(list)
		if p == nil && tail {
			return
		}
		if p == nil {
			tail, list = true, append(list, w.tail...)
			continue
		}
		rest -= w.apply(p)
	}
}

// best returns the pattern that gets most value for its price. What a kind of node gained when it was
// last filled bounds what it gains now, nearly always, since there are fewer pods to fill it with: so
// only the most promising are filled again.
func (w *packer) best(list []config) *pattern {
	for {
		at := -1
		for i := range list {
			if k := &list[i]; k.gain >= 0 && (at < 0 || k.gain > list[at].gain*(1+1e-12)) {
				at = i
			}
		}
		if at < 0 {
			return nil
		}
		k := &list[at]
		if k.pattern != nil && w.possible(k.pattern) {
			return k.pattern
		}
		if k.pattern = w.fill(k); k.pattern == nil {
			k.gain = -1
			continue
		}
		k.gain = k.pattern.value / (k.pattern.price + w.fee + 1e-9)
	}
}

// possible reports whether there are still pods for a pattern.
func (w *packer) possible(p *pattern) bool {
	for _, t := range p.takes {
		if w.left[t.lot] < t.count {
			return false
		}
	}
	return true
}

// apply takes a pattern as often as there are pods for it.
func (w *packer) apply(p *pattern) float64 {
	times := math.MaxInt
	for _, t := range p.takes {
		times = min(times, w.left[t.lot]/t.count)
	}
	for _, t := range p.takes {
		w.left[t.lot] -= times * t.count
		if g := w.family[t.lot]; g >= 0 {
			w.crowd[g] -= times * t.count
		}
		if w.left[t.lot] == 0 {
			w.empty(t.lot)
		}
	}
	q := *p
	q.times = times
	w.out = append(w.out, &q)
	return float64(times) * p.value
}

// cost is what the patterns come to, fees included.
func (w *packer) cost() float64 {
	total := 0.0
	for _, p := range w.out {
		total += float64(p.times) * (p.price + w.fee)
	}
	return total
}
