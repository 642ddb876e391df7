package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// liveBucket is a bucket while a node is filled. It has the values that the inner loop reads next to each other.
type liveBucket struct {
	cpu, memory       float64 // as shares of the node
	lowCPU, lowMemory int64
	at                int
}

// fillNode fills a node of one kind. It always takes the pod that uses most of the node's most plentiful resource,
// and whose shape is most like that of the free capacity.
func (w *packer) fillNode(k *nodeKind) *pattern {
	lanes := w.m.Lanes
	allocatable := w.allocatable[k.t*lanes : (k.t+1)*lanes]
	w.rest = append(w.rest[:0], allocatable...)
	rest, p := w.rest, k.pattern
	if p == nil { // most patterns are never used: reuse the allocation of the last one
		p = &pattern{used: make([]int64, lanes), types: bitset.NewSet(len(w.catalogue.Types))}
	}
	clear(p.used)
	copy(p.types, w.m.Pools[w.pool].Types)
	p.portions, p.cols, p.freeLabels, p.value = p.portions[:0], k.cols.And(w.catalogue.Launchable[k.t]), 0, 0
	w.hosts.reset()
	w.collectLive(allocatable, rest)
	for {
		at := w.pickBucket(allocatable, rest)
		if at < 0 {
			break
		}
		if !w.takeFrom(&w.buckets.list[w.live[at].at], k, p, rest) {
			w.dropLive(at)
		}
	}
	for _, t := range p.portions {
		w.taken[t.batch] = 0
		p.value += w.value[t.batch] * float64(t.count)
	}
	w.reprice(p)
	return p
}

// collectLive collects the buckets that fit a node that is about to be filled.
func (w *packer) collectLive(allocatable, rest []int64) {
	perCPU, perMemory := 1/float64(max(1, allocatable[resources.CPU])), 1/float64(max(1, allocatable[resources.Memory]))
	w.live = w.live[:0]
	for i := range w.buckets.list {
		if c := &w.buckets.list[i]; c.from < c.to && model.FitsWithin(c.low, rest) {
			w.live = append(w.live, liveBucket{c.cpu * perCPU, c.memory * perMemory, c.low[resources.CPU], c.low[resources.Memory], i})
		}
	}
}

// dropLive drops a bucket for this node.
func (w *packer) dropLive(at int) {
	w.live[at] = w.live[len(w.live)-1]
	w.live = w.live[:len(w.live)-1]
}

// pickBucket returns the position in live of the best bucket, dropping those that no longer fit. With many sizes,
// this is the hot loop.
func (w *packer) pickBucket(allocatable, rest []int64) int {
	if rest[resources.Pods] <= 0 {
		return -1
	}
	cpu := float64(rest[resources.CPU]) / float64(max(1, allocatable[resources.CPU]))
	memory := float64(rest[resources.Memory]) / float64(max(1, allocatable[resources.Memory]))
	left, leftMemory, bend := rest[resources.CPU], rest[resources.Memory], w.tune.sizeWeight
	best, score := -1, math.Inf(-1)
	for i := 0; i < len(w.live); {
		c := &w.live[i]
		if c.lowCPU > left || c.lowMemory > leftMemory {
			w.dropLive(i)
			continue
		}
		v := bend*(c.cpu*cpu+c.memory*memory) - math.Abs(c.cpu*memory-c.memory*cpu)
		if v >= score && (v > score || c.at < w.live[best].at) {
			if x := &w.buckets.list[c.at]; x.more && !model.FitsWithin(x.low, rest) {
				w.dropLive(i)
				continue
			}
			best, score = i, v
		}
		i++
	}
	return best
}

// takeFrom puts pods of a bucket on the node. It reports false if none of them fits there.
func (w *packer) takeFrom(c *bucket, k *nodeKind, p *pattern, rest []int64) bool {
	for i := c.from; i < c.to; i++ {
		z := &w.buckets.sizes[i]
		if !model.FitsWithin(z.req, rest) {
			continue
		}
		batch, n := w.batchOf(z, k, p)
		if n == 0 {
			continue
		}
		fit := n
		for _, l := range w.m.Classes[w.batches[batch].Class].Lanes {
			fit = int(min(int64(fit), rest[l]/z.req[l]))
		}
		n = min(n, max(1, fit/6)) // not all at once: the shape of what is left changes
		if len(w.live) == 1 && c.to-c.from == 1 && z.to-z.from == 1 {
			n = fit
		}
		w.addPods(p, batch, n, rest)
		return true
	}
	return false
}

// batchOf returns which batch of a size to take, and how many at most. Of the batches limited per host, the most
// numerous comes first, because it needs many hosts.
func (w *packer) batchOf(z *size, k *nodeKind, p *pattern) (int, int) {
	best, most, rank := -1, 0, -1
	for _, batch := range w.buckets.batches[z.from:z.to] {
		i := int(batch)
		n := w.left[i] - w.taken[i]
		if n <= 0 {
			continue
		}
		f := w.fits[i]
		if !f.Types.Has(k.t) || f.Columns.And(p.cols).Empty() || w.freeLabels[i] != 0 && p.freeLabels != 0 && w.freeLabels[i] != p.freeLabels {
			continue
		}
		r := 0
		if g := w.hostGroup[i]; g >= 0 {
			r = w.groupPods[g]
		}
		if r <= rank {
			continue
		}
		if prof := w.m.Profiles[w.batches[i].Profile]; prof.HasHostRules {
			if n = w.hosts.allows(w.m, prof, n); n <= 0 {
				continue
			}
		}
		best, most, rank = i, n, r
	}
	return best, most
}

// addPods puts pods of a batch on the node.
func (w *packer) addPods(p *pattern, batch, n int, rest []int64) {
	l := &w.batches[batch]
	c := &w.m.Classes[l.Class]
	for _, lane := range c.Lanes {
		rest[lane] -= int64(n) * c.Requests[lane]
		p.used[lane] += int64(n) * c.Requests[lane]
	}
	p.cols = p.cols.And(w.fits[batch].Columns)
	if w.freeLabels[batch] != 0 {
		p.freeLabels = w.freeLabels[batch]
	}
	if prof := w.m.Profiles[l.Profile]; prof.HasHostRules || len(prof.Groups) > 0 {
		w.hosts.add(w.m, prof, n)
	}
	if w.taken[batch] == 0 {
		p.portions = append(p.portions, portion{batch, 0})
		p.types.And(w.fits[batch].Types)
	}
	w.taken[batch] += n
	for i := range p.portions {
		if p.portions[i].batch == batch {
			p.portions[i].count += n
		}
	}
}

// columnPrices is the price of every type in some columns, cheapest first.
type columnPrices struct {
	cols  bitset.Columns
	types []int32
	price []float64
}

// pricesIn returns the prices in some columns. Patterns use few different sets of columns.
func (w *packer) pricesIn(cols bitset.Columns) *columnPrices {
	for _, s := range w.priceLists {
		if s.cols == cols {
			return s
		}
	}
	n := w.affordable.Count()
	s := &columnPrices{cols: cols, types: make([]int32, 0, n), price: make([]float64, 0, n)}
	if w.prices == nil {
		w.prices = make([]float64, len(w.catalogue.Types))
	}
	all := w.prices
	for t := w.affordable.Next(0); t >= 0; t = w.affordable.Next(t + 1) {
		if p := w.catalogue.CheapestWithRisk(t, cols); !math.IsInf(p, 1) {
			all[t] = p
			s.types = append(s.types, int32(t))
		}
	}
	slices.SortFunc(s.types, func(a, b int32) int { return cmp.Or(cmp.Compare(all[a], all[b]), cmp.Compare(a, b)) })
	for _, t := range s.types {
		s.price = append(s.price, all[t])
	}
	w.priceLists = append(w.priceLists, s)
	return s
}

// reprice finds the cheapest type that holds a pattern.
func (w *packer) reprice(p *pattern) {
	lanes := w.m.Lanes
	p.price = math.Inf(1)
	s := w.pricesIn(p.cols)
	for i := range s.types {
		t := int(s.types[i])
		if p.types.Has(t) && model.FitsWithin(p.used, w.allocatable[t*lanes:(t+1)*lanes]) {
			p.price = s.price[i]
			return
		}
	}
}

// narrowToHolders narrows a pattern to the types that hold it.
func (w *packer) narrowToHolders(p *pattern) {
	lanes := w.m.Lanes
	for t := p.types.Next(0); t >= 0; t = p.types.Next(t + 1) {
		if !model.FitsWithin(p.used, w.allocatable[t*lanes:(t+1)*lanes]) || w.catalogue.Available[t].And(p.cols).Empty() {
			p.types.Remove(t)
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
func (h *hostTally) allows(m *model.Model, p *model.Profile, want int) int {
	for i := range p.Spread {
		r := &p.Spread[i]
		if !m.Groups[r.Group].PerHost {
			continue
		}
		if r.Self {
			want = min(want, int(r.Skew-h.sel[r.Group]))
		} else if h.sel[r.Group] > r.Skew {
			return 0
		}
	}
	for i := range p.AntiAffinity {
		r := &p.AntiAffinity[i]
		if !m.Groups[r.Group].PerHost {
			continue
		}
		if h.sel[r.Group] > 0 {
			return 0
		}
		if r.Self {
			want = min(want, 1)
		}
	}
	for _, id := range p.Avoids {
		if h.own[id] > 0 {
			return 0
		}
	}
	return want
}

func (h *hostTally) add(m *model.Model, p *model.Profile, n int) {
	for _, id := range p.Groups {
		if m.Groups[id].PerHost {
			h.touch(id)
			h.sel[id] += int32(n)
		}
	}
	for i := range p.AntiAffinity {
		if r := &p.AntiAffinity[i]; r.Required && m.Groups[r.Group].PerHost {
			h.touch(r.Group)
			h.own[r.Group] += int32(n)
		}
	}
}

func (h *hostTally) touch(id int) {
	if h.sel[id] == 0 && h.own[id] == 0 {
		h.touched = append(h.touched, id)
	}
}

// Filler fills existing nodes, by the same measure as packer fills new ones.
type Filler struct{ packer }

// NewFiller returns a filler for batches that any node may take.
func NewFiller(m *model.Model, batches []Batch) *Filler {
	w := &Filler{packer{job: &job{m: m, batches: batches}, tune: tuning{sizeWeight: 0.3}, buckets: newBuckets(m, batches), left: make([]int, len(batches))}}
	for i := range batches {
		w.left[i] = batches[i].Count
	}
	return w
}

// Fill fills a node of some size with the pods that fit rest, its free capacity. put puts one pod of a batch on the
// node, which changes rest, or reports that the node cannot take it.
func (w *Filler) Fill(allocatable, rest []int64, put func(*Batch) bool) {
	w.collectLive(allocatable, rest)
	for {
		at := w.pickBucket(allocatable, rest)
		if at < 0 {
			return
		}
		if !w.takeOne(&w.buckets.list[w.live[at].at], rest, put) {
			w.dropLive(at)
		}
	}
}

// takeOne puts one pod of a bucket on the node, if the node can take any of them.
func (w *Filler) takeOne(c *bucket, rest []int64, put func(*Batch) bool) bool {
	for i := c.from; i < c.to; i++ {
		z := &w.buckets.sizes[i]
		if !model.FitsWithin(z.req, rest) {
			continue
		}
		for _, l := range w.buckets.batches[z.from:z.to] {
			if w.left[l] == 0 || !put(&w.batches[l]) {
				continue
			}
			if w.left[l]--; w.left[l] == 0 {
				w.buckets.dropEmptyBatch(int(l))
			}
			return true
		}
	}
	return false
}
