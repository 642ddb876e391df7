package solve

import (
	"cmp"
	"math"
	"slices"
)

// cell is a handful of lots of nearly one size. Many sizes are looked at through few cells.
type cell struct {
	low         []int64 // the least any of them asks for
	cpu, memory float64 // mean
	sizes       []size  // largest first
}

// size is the lots of exactly one size.
type size struct {
	req  []int64
	asks []int
	lots []int
}

// finest is how many sizes are each looked at; more are put into cells.
const finest = 192

// readCells sorts the lots by size.
func (w *packer) readCells() {
	order := make([]int, len(w.lots))
	for i := range order {
		order[i] = i
	}
	req := func(i int) []int64 { return w.m.classes[w.lots[i].class].req }
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(-slices.Compare(req(a), req(b)), cmp.Compare(a, b)) })
	var sizes []size
	for _, i := range order {
		if n := len(sizes); n > 0 && slices.Equal(sizes[n-1].req, req(i)) {
			sizes[n-1].lots = append(sizes[n-1].lots, i)
			continue
		}
		sizes = append(sizes, size{req: req(i), asks: w.m.classes[w.lots[i].class].asks, lots: []int{i}})
	}
	at := map[string]int{}
	w.inCell = make([]int, len(w.lots))
	for n, z := range sizes {
		key := w.cellKey(z, n, len(sizes) > finest)
		id, known := at[key]
		if !known {
			id = len(w.cells)
			at[key] = id
			w.cells = append(w.cells, cell{low: slices.Clone(z.req)})
		}
		c := &w.cells[id]
		c.sizes = append(c.sizes, z)
		for _, i := range z.lots {
			w.inCell[i] = id
		}
		for l, v := range z.req {
			c.low[l] = min(c.low[l], v)
		}
	}
	for i := range w.cells {
		c := &w.cells[i]
		for _, z := range c.sizes {
			c.cpu += float64(z.req[0]) / float64(len(c.sizes))
			c.memory += float64(z.req[1]) / float64(len(c.sizes))
		}
	}
}

// empty forgets a lot of which nothing is left.
func (w *packer) empty(lot int) {
	c := &w.cells[w.inCell[lot]]
	for i := range c.sizes {
		z := &c.sizes[i]
		if at := slices.Index(z.lots, lot); at >= 0 {
			if z.lots = slices.Delete(z.lots, at, at+1); len(z.lots) == 0 {
				c.sizes = slices.Delete(c.sizes, i, i+1)
			}
			return
		}
	}
}

// cellKey puts sizes within a fifth of each other into one cell, apart from resources other than cpu
// and memory, which must be equal.
func (w *packer) cellKey(z size, n int, coarse bool) string {
	step := func(v int64) int64 {
		if v <= 0 {
			return -1
		}
		return int64(math.Log(float64(v)) / math.Log(1.2))
	}
	key := make([]byte, 0, 32)
	put := func(v int64) {
		for range 8 {
			key = append(key, byte(v))
			v >>= 8
		}
	}
	if !coarse {
		put(int64(n))
		return string(key)
	}
	put(step(z.req[0]))
	put(step(z.req[1]))
	for _, v := range z.req[2:] {
		put(v)
	}
	return string(key)
}

// readFamilies notes which lots compete for hosts: at most so many of them fit one.
func (w *packer) readFamilies() {
	w.family, w.crowd = make([]int, len(w.lots)), make([]int, len(w.m.groups))
	for i := range w.lots {
		w.family[i] = -1
		p := w.m.profiles[w.lots[i].profile]
		for _, r := range p.spread {
			if w.m.groups[r.group].host && r.self {
				w.family[i] = r.group
			}
		}
		for _, r := range p.apart {
			if w.m.groups[r.group].host && r.self {
				w.family[i] = r.group
			}
		}
		if g := w.family[i]; g >= 0 {
			w.crowd[g] += w.lots[i].count
		}
	}
}

// fill fills a node of one kind: always with the pod that uses most of what the node has most of,
// and whose shape is most like what is left. It returns nil if nothing fits.
func (w *packer) fill(k *config) *pattern {
	lanes := w.m.lanes
	room := w.room[k.t*lanes : (k.t+1)*lanes]
	rest := slices.Clone(room)
	p := &pattern{used: make([]int64, lanes), cols: k.cols.and(w.cat.launch[k.t]), types: w.m.pools[w.pool].types.clone()}
	w.local.reset()
	w.live = w.live[:0]
	for i := range w.cells {
		if len(w.cells[i].sizes) > 0 && within(w.cells[i].low, rest) {
			w.live = append(w.live, i)
		}
	}
	for {
		at := w.pick(room, rest)
		if at < 0 {
			break
		}
		if !w.takeFrom(&w.cells[w.live[at]], k, p, rest) {
			w.live[at] = w.live[len(w.live)-1]
			w.live = w.live[:len(w.live)-1]
		}
	}
	for _, t := range p.takes {
		w.took[t.lot] = 0
		p.value += w.value[t.lot] * float64(t.count)
	}
	if len(p.takes) == 0 {
		return nil
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

// pick returns the position in live of the best cell, dropping those that no longer fit.
func (w *packer) pick(room, rest []int64) int {
	perCPU, perMemory := 1/float64(max(1, room[0])), 1/float64(max(1, room[1]))
	cpu, memory := float64(rest[0])*perCPU, float64(rest[1])*perMemory
	best, score := -1, math.Inf(-1)
	for i := 0; i < len(w.live); {
		c := &w.cells[w.live[i]]
		if c.low[0] > rest[0] || c.low[1] > rest[1] || !within(c.low[2:], rest[2:]) {
			w.live[i] = w.live[len(w.live)-1]
			w.live = w.live[:len(w.live)-1]
			continue
		}
		a, b := c.cpu*perCPU, c.memory*perMemory
		v := w.tune.bend*(a*cpu+b*memory) - math.Abs(a*memory-b*cpu)
		if v > score || v == score && w.live[i] < w.live[best] {
			best, score = i, v
		}
		i++
	}
	return best
}

// takeFrom puts pods of a cell on the node. It reports false if none of them can go there.
func (w *packer) takeFrom(c *cell, k *config, p *pattern, rest []int64) bool {
	for i := range c.sizes {
		z := &c.sizes[i]
		if !within(z.req, rest) {
			continue
		}
		lot, n := w.lotOf(z, k, p)
		if n == 0 {
			continue
		}
		fit := n
		for _, l := range z.asks {
			fit = int(min(int64(fit), rest[l]/z.req[l]))
		}
		n = min(n, max(1, fit/6)) // not all at once: the shape of what is left changes
		if len(w.live) == 1 && len(c.sizes) == 1 && len(z.lots) == 1 {
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
	for _, i := range z.lots {
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

// reprice finds the types that hold a pattern, and the cheapest of them.
func (w *packer) reprice(p *pattern) {
	lanes := w.m.lanes
	p.price = math.Inf(1)
	for t := p.types.next(0); t >= 0; t = p.types.next(t + 1) {
		room := w.room[t*lanes : (t+1)*lanes]
		if !within(p.used, room) {
			p.types.drop(t)
			continue
		}
		price, at := w.cat.cheapest(t, p.cols)
		if at < 0 {
			p.types.drop(t)
			continue
		}
		p.price = min(p.price, price)
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
