package solve

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/resources"
)

// liveCell is a cell while a node is filled, with what is looked at again and again in one place.
type liveCell struct {
	cpu, memory       float64 // as shares of the node
	lowCPU, lowMemory int64
	at                int
}

// fill fills a node of one kind: always with the pod that uses most of what the node has most of,
// and whose shape is most like what is left.
func (w *packer) fill(k *config) *pattern {
	lanes := w.m.lanes
	room := w.room[k.t*lanes : (k.t+1)*lanes]
	w.rest = append(w.rest[:0], room...)
	rest, p := w.rest, k.pattern
	if p == nil { // most patterns are never used: the memory of the last one will do
		p = &pattern{used: make([]int64, lanes), types: newSet(len(w.cat.types))}
	}
	clear(p.used)
	copy(p.types, w.m.pools[w.pool].types)
	p.takes, p.cols, p.wants, p.value = p.takes[:0], k.cols.and(w.cat.launch[k.t]), 0, 0
	w.local.reset()
	w.collectFittingCells(room, rest)
	for {
		at := w.pick(room, rest)
		if at < 0 {
			break
		}
		if !w.takeFrom(&w.cells.list[w.live[at].at], k, p, rest) {
			w.dropCell(at)
		}
	}
	for _, t := range p.takes {
		w.took[t.lot] = 0
		p.value += w.value[t.lot] * float64(t.count)
	}
	w.reprice(p)
	return p
}

func within(ask, room []int64) bool {
	for l, v := range ask {
		if v > room[l] {
			return false
		}
	}
	return true
}

// collectFittingCells collects the cells that fit a node that is about to be filled.
func (w *packer) collectFittingCells(room, rest []int64) {
	perCPU, perMemory := 1/float64(max(1, room[resources.CPU])), 1/float64(max(1, room[resources.Memory]))
	w.live = w.live[:0]
	for i := range w.cells.list {
		if c := &w.cells.list[i]; c.from < c.to && within(c.low, rest) {
			w.live = append(w.live, liveCell{c.cpu * perCPU, c.memory * perMemory, c.low[resources.CPU], c.low[resources.Memory], i})
		}
	}
}

// dropCell drops a cell for this node.
func (w *packer) dropCell(at int) {
	w.live[at] = w.live[len(w.live)-1]
	w.live = w.live[:len(w.live)-1]
}

// pick returns the position in live of the best cell, dropping those that no longer fit. This is
// where the time goes when there are many sizes.
func (w *packer) pick(room, rest []int64) int {
	if rest[resources.Pods] <= 0 {
		return -1
	}
	cpu := float64(rest[resources.CPU]) / float64(max(1, room[resources.CPU]))
	memory := float64(rest[resources.Memory]) / float64(max(1, room[resources.Memory]))
	left, leftMemory, bend := rest[resources.CPU], rest[resources.Memory], w.tune.bend
	best, score := -1, math.Inf(-1)
	for i := 0; i < len(w.live); {
		c := &w.live[i]
		if c.lowCPU > left || c.lowMemory > leftMemory {
			w.dropCell(i)
			continue
		}
		v := bend*(c.cpu*cpu+c.memory*memory) - math.Abs(c.cpu*memory-c.memory*cpu)
		if v >= score && (v > score || c.at < w.live[best].at) {
			if x := &w.cells.list[c.at]; x.more && !within(x.low, rest) {
				w.dropCell(i)
				continue
			}
			best, score = i, v
		}
		i++
	}
	return best
}

// takeFrom puts pods of a cell on the node. It reports false if none of them can go there.
func (w *packer) takeFrom(c *cell, k *config, p *pattern, rest []int64) bool {
	for i := c.from; i < c.to; i++ {
		z := &w.cells.sizes[i]
		if !within(z.req, rest) {
			continue
		}
		lot, n := w.lotOf(z, k, p)
		if n == 0 {
			continue
		}
		fit := n
		for _, l := range w.m.classes[w.lots[lot].class].asks {
			fit = int(min(int64(fit), rest[l]/z.req[l]))
		}
		n = min(n, max(1, fit/6)) // not all at once: the shape of what is left changes
		if len(w.live) == 1 && c.to-c.from == 1 && z.to-z.from == 1 {
			n = fit
		}
		w.put(p, lot, n, rest)
		return true
	}
	return false
}

// lotOf returns which lot of a size to take, and how many at most: of those that crowd hosts the most
// numerous first, since they need many hosts.
func (w *packer) lotOf(z *size, k *config, p *pattern) (int, int) {
	best, most, rank := -1, 0, -1
	for _, lot := range w.cells.lots[z.from:z.to] {
		i := int(lot)
		n := w.left[i] - w.took[i]
		if n <= 0 {
			continue
		}
		f := w.fits[i]
		if !f.types.has(k.t) || f.cols.and(p.cols).empty() || w.wants[i] != 0 && p.wants != 0 && w.wants[i] != p.wants {
			continue
		}
		r := 0
		if g := w.family[i]; g >= 0 {
			r = w.crowd[g]
		}
		if r <= rank {
			continue
		}
		if prof := w.m.profiles[w.lots[i].profile]; prof.hosted {
			if n = w.local.allows(w.m, prof, n); n <= 0 {
				continue
			}
		}
		best, most, rank = i, n, r
	}
	return best, most
}

// put puts pods of a lot on the node.
func (w *packer) put(p *pattern, lot, n int, rest []int64) {
	l := &w.lots[lot]
	c := &w.m.classes[l.class]
	for _, lane := range c.asks {
		rest[lane] -= int64(n) * c.req[lane]
		p.used[lane] += int64(n) * c.req[lane]
	}
	p.cols = p.cols.and(w.fits[lot].cols)
	if w.wants[lot] != 0 {
		p.wants = w.wants[lot]
	}
	if prof := w.m.profiles[l.profile]; prof.hosted || len(prof.counts) > 0 {
		w.local.add(w.m, prof, n)
	}
	if w.took[lot] == 0 {
		p.takes = append(p.takes, take{lot, 0})
		p.types.and(w.fits[lot].types)
	}
	w.took[lot] += n
	for i := range p.takes {
		if p.takes[i].lot == lot {
			p.takes[i].count += n
		}
	}
}

// columnPrices is what every type counts if it is bought in some columns, cheapest first.
type columnPrices struct {
	cols  columns
	types []int32
	price []float64
}

// pricesIn returns the sale in some columns. Patterns use few different ones.
func (w *packer) pricesIn(cols columns) *columnPrices {
	for _, s := range w.sales {
		if s.cols == cols {
			return s
		}
	}
	n := w.afford.count()
	s := &columnPrices{cols: cols, types: make([]int32, 0, n), price: make([]float64, 0, n)}
	if w.prices == nil {
		w.prices = make([]float64, len(w.cat.types))
	}
	all := w.prices
	for t := w.afford.next(0); t >= 0; t = w.afford.next(t + 1) {
		if p := w.cat.lightest(t, cols); !math.IsInf(p, 1) {
			all[t] = p
			s.types = append(s.types, int32(t))
		}
	}
	slices.SortFunc(s.types, func(a, b int32) int { return cmp.Or(cmp.Compare(all[a], all[b]), cmp.Compare(a, b)) })
	for _, t := range s.types {
		s.price = append(s.price, all[t])
	}
	w.sales = append(w.sales, s)
	return s
}

// reprice finds the cheapest type that holds a pattern.
func (w *packer) reprice(p *pattern) {
	lanes := w.m.lanes
	p.price = math.Inf(1)
	s := w.pricesIn(p.cols)
	for i := range s.types {
		t := int(s.types[i])
		if p.types.has(t) && within(p.used, w.room[t*lanes:(t+1)*lanes]) {
			p.price = s.price[i]
			return
		}
	}
}

// holders narrows a pattern to the types that hold it.
func (w *packer) holders(p *pattern) {
	lanes := w.m.lanes
	for t := p.types.next(0); t >= 0; t = p.types.next(t + 1) {
		if !within(p.used, w.room[t*lanes:(t+1)*lanes]) || w.cat.avail[t].and(p.cols).empty() {
			p.types.drop(t)
		}
	}
}

// hostTally counts, for the rules over hosts, the pods of one node that is being filled.
type hostTally struct {
	sel, own []int32
	touched  []int
}

func newHostTally(groups int) hostTally {
	return hostTally{sel: make([]int32, groups), own: make([]int32, groups)}
}

func (h *hostTally) reset() {
	for _, g := range h.touched {
		h.sel[g], h.own[g] = 0, 0
	}
	h.touched = h.touched[:0]
}

// allows returns how many pods of a profile the node may take now, at most want.
func (h *hostTally) allows(m *model, p *profile, want int) int {
	for i := range p.spread {
		r := &p.spread[i]
		if !m.groups[r.group].host {
			continue
		}
		if r.self {
			want = min(want, int(r.skew-h.sel[r.group]))
		} else if h.sel[r.group] > r.skew {
			return 0
		}
	}
	for i := range p.apart {
		r := &p.apart[i]
		if !m.groups[r.group].host {
			continue
		}
		if h.sel[r.group] > 0 {
			return 0
		}
		if r.self {
			want = min(want, 1)
		}
	}
	for _, id := range p.kept {
		if h.own[id] > 0 {
			return 0
		}
	}
	return want
}

func (h *hostTally) add(m *model, p *profile, n int) {
	for _, id := range p.counts {
		if m.groups[id].host {
			h.touch(id)
			h.sel[id] += int32(n)
		}
	}
	for i := range p.apart {
		if r := &p.apart[i]; r.required && m.groups[r.group].host {
			h.touch(r.group)
			h.own[r.group] += int32(n)
		}
	}
}

func (h *hostTally) touch(id int) {
	if h.sel[id] == 0 && h.own[id] == 0 {
		h.touched = append(h.touched, id)
	}
}

// filler fills nodes that exist, by the same measure as packer fills new ones.
type filler struct{ packer }

// newFiller returns a filler for lots that may go to any node.
func newFiller(m *model, lots []lot) *filler {
	w := &filler{packer{job: &job{m: m, lots: lots}, tune: tuning{bend: 0.3}, cells: newCells(m, lots), left: make([]int, len(lots))}}
	for i := range lots {
		w.left[i] = lots[i].count
	}
	return w
}

// fillNode fills a node of some size with the pods that fit rest, what is left of it. put puts one pod of a lot on the
// node, which changes rest, or reports that the node cannot take it.
func (w *filler) fillNode(room, rest []int64, put func(*lot) bool) {
	w.collectFittingCells(room, rest)
	for {
		at := w.pick(room, rest)
		if at < 0 {
			return
		}
		if !w.takeOne(&w.cells.list[w.live[at].at], rest, put) {
			w.dropCell(at)
		}
	}
}

// takeOne puts one pod of a cell on the node, if the node can take any of them.
func (w *filler) takeOne(c *cell, rest []int64, put func(*lot) bool) bool {
	for i := c.from; i < c.to; i++ {
		z := &w.cells.sizes[i]
		if !within(z.req, rest) {
			continue
		}
		for _, l := range w.cells.lots[z.from:z.to] {
			if w.left[l] == 0 || !put(&w.lots[l]) {
				continue
			}
			if w.left[l]--; w.left[l] == 0 {
				w.cells.dropEmptyLot(int(l))
			}
			return true
		}
	}
	return false
}
