package lp

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// market is what a Bound is about, reduced: options that may host the same classes form a group and
// lose those that another of the group beats, classes that may run in the same groups form a bundle.
// In an optimum the prices of a bundle's classes are equal: each may rise to the highest.
type market struct {
	width   int // resources, and one for the count of nodes
	apart   float64
	node    float64 // the least a node costs
	groups  []group
	bundles []*bundle
}

// fewOptions is how many options of a group are usually not dominated.
const fewOptions = 16

// group is options with the same classes.
type group struct {
	may   []uint64
	rates []float64 // of the options that are not dominated: room by resource and nodes, per cost
	top   []float64 // the highest of each
	free  []bool    // by resource: an option has it for nothing
}

// bundle is classes with the same groups.
type bundle struct {
	classes []int
	demand  []float64
	groups  []int
	unit    []float64 // by resource: the least a unit costs; zero if it is free or not needed
}

func newMarket(classes []Class, options []Option, resources int, apart float64) *market {
	m := &market{width: resources + 1, apart: max(apart, 0)}
	m.groupOptions(options, len(classes))
	best := 0.0
	for _, g := range m.groups {
		best = max(best, g.top[resources])
	}
	if m.apart > 0 && best > 0 && !math.IsInf(best, 1) {
		m.node = 1 / best
	}
	m.bundle(classes)
	return m
}

// groupOptions sorts the options into groups.
func (m *market) groupOptions(options []Option, classes int) {
	index := map[string]int{}
	may, key := make([]uint64, (classes+63)/64), make([]byte, 0, 64)
	rate, last := make([]float64, m.width), -1
	for i := range options {
		o := &options[i]
		if math.IsNaN(o.Cost) || math.IsInf(o.Cost, 1) {
			continue
		}
		clear(may)
		copy(may, o.May)
		if classes%64 > 0 {
			may[len(may)-1] &= 1<<(classes%64) - 1
		}
		// Options of a pool follow each other, so most have the classes of the one before.
		if last < 0 || !slices.Equal(may, m.groups[last].may) {
			key = key[:0]
			classed := uint64(0)
			for _, word := range may {
				key, classed = binary.LittleEndian.AppendUint64(key, word), classed|word
			}
			if classed == 0 {
				continue
			}
			known := false
			if last, known = index[string(key)]; !known {
				last = len(m.groups)
				index[string(key)] = last
				m.groups = append(m.groups, group{
					may: slices.Clone(may), rates: make([]float64, 0, fewOptions*m.width), top: make([]float64, m.width), free: make([]bool, m.width),
				})
			}
		}
		m.groups[last].offer(o, rate, m.apart > 0)
	}
}

// offer adds an option to the group; rate is scratch.
func (g *group) offer(o *Option, rate []float64, count bool) {
	node := len(rate) - 1
	per := 1 / max(o.Cost, 0)
	clear(rate)
	for r, room := range o.Room[:min(node, len(o.Room))] {
		switch {
		case !(room > 0):
		case math.IsInf(room*per, 1):
			g.free[r] = true
		default:
			rate[r] = room * per
		}
	}
	if count {
		rate[node] = per
	}
	for r, v := range rate {
		g.top[r] = max(g.top[r], v)
	}
	if math.IsInf(per, 1) {
		return // its rooms are free and no price depends on it
	}
	g.keepUndominated(rate)
}

// keepUndominated adds rates unless they are dominated, and drops those that they dominate.
func (g *group) keepUndominated(rate []float64) {
	width := len(rate)
	for at := 0; at < len(g.rates); at += width {
		if kept := g.rates[at : at+width]; dominates(kept, rate) {
			// What dominates once dominates often: have it at hand next time.
			for r := range kept {
				kept[r], g.rates[r] = g.rates[r], kept[r]
			}
			return
		}
	}
	n := 0
	for at := 0; at < len(g.rates); at += width {
		if kept := g.rates[at : at+width]; !dominates(rate, kept) {
			n += copy(g.rates[n:], kept)
		}
	}
	g.rates = append(g.rates[:n], rate...)
}

func dominates(a, b []float64) bool {
	for r, v := range a {
		if v < b[r] {
			return false
		}
	}
	return true
}

// bundle sorts the classes that can be placed into bundles.
func (m *market) bundle(classes []Class) {
	index := map[string]*bundle{}
	words := (len(m.groups) + 63) / 64
	in := make([]uint64, len(classes)*words)
	for g := range m.groups {
		for w, word := range m.groups[g].may {
			for ; word != 0; word &= word - 1 {
				in[(w*64+bits.TrailingZeros64(word))*words+g/64] |= 1 << (g % 64)
			}
		}
	}
	key := make([]byte, 0, words*8)
	for k := range classes {
		key = key[:0]
		for _, word := range in[k*words : (k+1)*words] {
			key = binary.LittleEndian.AppendUint64(key, word)
		}
		b, known := index[string(key)]
		if !known {
			b = m.newBundle(in[k*words : (k+1)*words])
			index[string(key)] = b
		}
		if !b.holds(classes[k].Demand) {
			continue
		}
		if len(b.classes) == 0 {
			m.bundles = append(m.bundles, b)
		}
		b.classes = append(b.classes, k)
		for r, d := range classes[k].Demand {
			if d > 0 {
				b.demand[r] += d
			}
		}
	}
}

// newBundle returns the bundle of classes that may run in the groups of the set.
func (m *market) newBundle(in []uint64) *bundle {
	b := &bundle{demand: make([]float64, m.width-1), unit: make([]float64, m.width-1)}
	for w, word := range in {
		for ; word != 0; word &= word - 1 {
			b.groups = append(b.groups, w*64+bits.TrailingZeros64(word))
		}
	}
	for r := range b.unit {
		top := 0.0
		for _, g := range b.groups {
			if m.groups[g].free[r] {
				top = math.Inf(1)
			}
			top = max(top, m.groups[g].top[r])
		}
		b.unit[r] = 1 / top // zero if free, infinite if no option has it
	}
	return b
}

// holds reports whether some option has each resource demanded.
func (b *bundle) holds(demand []float64) bool {
	for r, d := range demand {
		if d > 0 && math.IsInf(b.unit[r], 1) || math.IsInf(d, 1) {
			return false
		}
	}
	return true
}

// priced reports whether a price of the resource is to be found for the bundle.
func (b *bundle) priced(r int) bool {
	return b.demand[r] > 0 && b.unit[r] > 0
}

// rows is how many prices the bundle needs.
func (b *bundle) rows() int {
	n := 0
	for r := range b.demand {
		if b.priced(r) {
			n++
		}
	}
	return n
}

// least is what the bundle's resources cost at least, each launched alone.
func (b *bundle) least() float64 {
	sum := 0.0
	for r, d := range b.demand {
		if b.priced(r) {
			sum += d * b.unit[r]
		}
	}
	return sum
}

// union returns the bundle of all classes of b and others.
func (b *bundle) union(others []*bundle) *bundle {
	u := &bundle{classes: slices.Clone(b.classes), groups: slices.Clone(b.groups), demand: slices.Clone(b.demand), unit: slices.Clone(b.unit)}
	for _, o := range others {
		u.classes, u.groups = append(u.classes, o.classes...), append(u.groups, o.groups...)
		for r := range u.demand {
			u.demand[r] += o.demand[r]
			u.unit[r] = min(u.unit[r], o.unit[r])
		}
	}
	slices.Sort(u.groups)
	u.groups = slices.Compact(u.groups)
	return u
}

// parts returns one program for each set of bundles that is connected by common groups. A count of
// nodes connects everything.
func (m *market) parts() []*program {
	part := make([]int, len(m.bundles)) // towards the smallest bundle of the same part
	find := func(i int) int {
		for part[i] != i {
			part[i] = part[part[i]]
			i = part[i]
		}
		return i
	}
	owner := make([]int, len(m.groups))
	for g := range owner {
		owner[g] = -1
	}
	for i, b := range m.bundles {
		part[i] = i
		for _, g := range b.groups {
			if owner[g] < 0 {
				owner[g] = i
			}
			one, other := find(owner[g]), find(i)
			part[max(one, other)] = min(one, other)
		}
		if m.node > 0 {
			part[find(i)] = 0
		}
	}
	sets := make([][]*bundle, max(len(m.bundles), 1)) // nodes may be counted although nothing is needed
	for i, b := range m.bundles {
		sets[find(i)] = append(sets[find(i)], b)
	}
	var out []*program
	offers := make([]int, len(m.groups))
	for i, set := range sets {
		if i > 0 && len(set) == 0 {
			continue
		}
		if p := m.program(pool(set, mostRows), offers); len(p.unit) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// program returns the program of the bundles. In offers it notes where it put a group, plus one; no
// group is in two programs.
func (m *market) program(bundles []*bundle, offers []int) *program {
	p := &program{width: m.width, node: -1, most: make([]float64, m.width), payer: make([]int32, m.width)}
	open := func(g int) *offer {
		if offers[g] == 0 {
			p.groups = append(p.groups, offer{rates: m.groups[g].rates, rows: make([][]int32, m.width)})
			offers[g] = len(p.groups)
		}
		return &p.groups[offers[g]-1]
	}
	for _, b := range bundles {
		for r := range b.demand {
			if !b.priced(r) {
				continue
			}
			row := int32(len(p.unit))
			p.cells = append(p.cells, cell{bundle: b, resource: r})
			p.unit = append(p.unit, b.unit[r])
			p.goal = append(p.goal, b.demand[r]*b.unit[r])
			for _, g := range b.groups {
				o := open(g)
				o.rows[r] = append(o.rows[r], row)
			}
		}
	}
	if m.node > 0 {
		p.node = len(p.unit)
		p.unit = append(p.unit, m.node)
		p.goal = append(p.goal, m.apart*m.node)
		for g := range m.groups {
			open(g).rows[m.width-1] = []int32{int32(p.node)}
		}
	}
	p.prices = make([]float64, len(p.unit))
	total := 0.0
	for _, g := range p.goal {
		total += g
	}
	for row := range p.goal {
		p.goal[row] /= total
	}
	return p
}
