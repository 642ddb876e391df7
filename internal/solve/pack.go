package solve

import (
	"cmp"
	"math"
	"slices"
)

// packer packs lots onto new nodes of one pool. It decides by price: a linear program over the totals
// says what a unit of each resource is worth, a pattern is one node filled by that measure, and the
// pattern that wastes least is taken as often as it can be, until nothing is left.
type packer struct {
	*job
	tune   tuning
	cells  cells
	left   []int // of each lot
	crowd  []int // pods left of each group
	main   []config
	tail   []config
	local  hostTally
	took   []int
	live   []liveCell
	rest   []int64
	prices []float64
	sales  []*columnPrices
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
	price float64 // of the cheapest type that holds it, risk included
	value float64
	times int
}

type take struct{ lot, count int }

// pack makes one attempt. What no node can hold stays in left.
func (j *job) pack(tune tuning) *packer {
	w := &packer{job: j, tune: tune, cells: j.cells.clone(), crowd: slices.Clone(j.crowd), local: newHostTally(len(j.m.groups))}
	w.left, w.took = make([]int, len(j.lots)), make([]int, len(j.lots))
	for i := range j.lots {
		w.left[i] = j.lots[i].count
	}
	w.main, w.tail = j.kinds(tune)
	w.run()
	return w
}

// run takes patterns until nothing is left.
func (w *packer) run() {
	rest := 0.0
	for i, n := range w.left {
		rest += w.value[i] * float64(n)
	}
	list, tail := w.main, false
	for sum(w.left) > 0 {
		if !tail && (len(list) == 0 || rest < 3*list[0].worth) {
			tail, list = true, enough(append(list, w.tail...), rest)
		}
		p := w.best(list)
		if p == nil && tail {
			return
		}
		if p == nil {
			tail, list = true, enough(append(list, w.tail...), rest)
			continue
		}
		rest -= w.apply(p)
	}
}

// enough drops the kinds that have room for everything that is left, but for the few smallest: they
// would all be filled alike.
func enough(list []config, rest float64) []config {
	const few = 4
	slices.SortStableFunc(list, func(a, b config) int { return cmp.Compare(b.worth, a.worth) })
	last := 0
	for last < len(list) && list[last].worth > 2*rest {
		last++
	}
	return list[max(0, last-few):]
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
		if k.pattern = w.fill(k); len(k.pattern.takes) == 0 {
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
			w.cells.dropEmptyLot(t.lot)
		}
	}
	q := *p
	q.times, q.takes, q.used, q.types = times, slices.Clone(p.takes), slices.Clone(p.used), p.types.clone()
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
