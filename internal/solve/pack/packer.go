package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// packer packs batches onto new nodes of one pool, by price. A linear program over the totals computes what a unit of
// each resource is worth. A pattern is one node filled by that measure. The pattern that wastes least is used as
// often as possible, until no pods are left.
type packer struct {
	*job
	tune       tuning
	buckets    buckets
	left       []int // pods left of each batch
	groupPods  []int // pods left of each group
	main       []nodeKind
	tail       []nodeKind
	hosts      hostTally
	taken      []int
	live       []liveBucket
	rest       []int64
	prices     []float64
	priceLists []*columnPrices
	patterns   []*pattern
}

// tuning is what differs between attempts at one packing problem.
type tuning struct {
	sizeWeight   float64 // how much size counts against shape when filling
	maxWorth     float64 // no node is worth more than this; 0: any
	dominantOnly bool    // fill nodes only as the type that the linear program spends most on
}

// nodeKind is a kind of node that could be launched: a type in some columns.
type nodeKind struct {
	t       int
	cols    bitset.Columns
	worth   float64 // value of all pods it can hold
	pattern *pattern
	gain    float64 // value for price when it was last filled
}

// pattern is a way to fill one node.
type pattern struct {
	portions   []portion
	used       []int64
	types      bitset.Set
	cols       bitset.Columns
	freeLabels int     // need for labels that the pool lets pods choose
	price      float64 // price of the cheapest type that holds it, risk included
	value      float64
	times      int
}

type portion struct{ batch, count int }

// pack makes one attempt. Pods that no node can hold stay in left.
func (j *job) pack(tune tuning) *packer {
	w := &packer{job: j, tune: tune, buckets: j.buckets.clone(), groupPods: slices.Clone(j.groupPods), hosts: newHostTally(len(j.m.Groups))}
	w.left, w.taken = make([]int, len(j.batches)), make([]int, len(j.batches))
	for i := range j.batches {
		w.left[i] = j.batches[i].Count
	}
	w.main, w.tail = j.listKinds(tune)
	w.packAll()
	return w
}

// packAll uses patterns until no pods are left.
func (w *packer) packAll() {
	rest := 0.0
	for i, n := range w.left {
		rest += w.value[i] * float64(n)
	}
	list, tail := w.main, false
	for model.SumCounts(w.left) > 0 {
		if !tail && (len(list) == 0 || rest < 3*list[0].worth) {
			tail, list = true, dropOversized(append(list, w.tail...), rest)
		}
		p := w.bestPattern(list)
		if p == nil && tail {
			return
		}
		if p == nil {
			tail, list = true, dropOversized(append(list, w.tail...), rest)
			continue
		}
		rest -= w.applyPattern(p)
	}
}

// dropOversized drops the kinds that hold all remaining pods, except the few smallest: they would all be filled
// alike.
func dropOversized(list []nodeKind, rest float64) []nodeKind {
	const few = 4
	slices.SortStableFunc(list, func(a, b nodeKind) int { return cmp.Compare(b.worth, a.worth) })
	last := 0
	for last < len(list) && list[last].worth > 2*rest {
		last++
	}
	return list[max(0, last-few):]
}

// bestPattern returns the pattern with the most value for its price. The gain of a kind of node when it was last
// filled is nearly always an upper bound of its gain now, because there are fewer pods to fill it with. So only the
// most promising kinds are filled again.
func (w *packer) bestPattern(list []nodeKind) *pattern {
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
		if k.pattern != nil && w.hasPodsFor(k.pattern) {
			return k.pattern
		}
		if k.pattern = w.fillNode(k); len(k.pattern.portions) == 0 {
			k.gain = -1
			continue
		}
		k.gain = k.pattern.value / (k.pattern.price + w.fee + 1e-9)
	}
}

// hasPodsFor reports whether there are still pods for a pattern.
func (w *packer) hasPodsFor(p *pattern) bool {
	for _, t := range p.portions {
		if w.left[t.batch] < t.count {
			return false
		}
	}
	return true
}

// applyPattern uses a pattern as often as there are pods for it.
func (w *packer) applyPattern(p *pattern) float64 {
	times := math.MaxInt
	for _, t := range p.portions {
		times = min(times, w.left[t.batch]/t.count)
	}
	for _, t := range p.portions {
		w.left[t.batch] -= times * t.count
		if g := w.hostGroup[t.batch]; g >= 0 {
			w.groupPods[g] -= times * t.count
		}
		if w.left[t.batch] == 0 {
			w.buckets.dropEmptyBatch(t.batch)
		}
	}
	q := *p
	q.times, q.portions, q.used, q.types = times, slices.Clone(p.portions), slices.Clone(p.used), p.types.Clone()
	w.patterns = append(w.patterns, &q)
	return float64(times) * p.value
}

// cost is the total of the patterns, fees included.
func (w *packer) cost() float64 {
	total := 0.0
	for _, p := range w.patterns {
		total += float64(p.times) * (p.price + w.fee)
	}
	return total
}
