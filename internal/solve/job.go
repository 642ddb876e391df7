package solve

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/lp"
)

// job is the lots to be packed onto new nodes of one pool, and what follows from them alone. Attempts
// share it and only read it.
type job struct {
	m      *model
	pool   int
	cat    *catalogue
	room   []int64
	afford set // types that the limits of the pool allow
	fee    float64
	lots   []lot
	fits   []*fit    // of each lot in the pool
	wants  []int     // of each lot: need for labels that the pool lets pods choose, 0 if none
	value  []float64 // of a pod of each lot
	ways   []columns // of buying a node
	market []choice  // kinds of node, by need, least overpriced first
	family []int     // of each lot: group that allows its pods only so many per host, or -1
	crowd  []int     // pods of each group
	cells  cells
}

// choice is a type that lots of one need could have.
type choice struct {
	need  int // position among the needs of the job
	t     int
	cols  columns // that the need allows
	worth float64 // of all it has room for
	ratio float64 // price over worth: how overpriced it is
	lead  bool    // the linear program spends most on it
}

func (s *state) newJob(poolID int, lots []lot) *job {
	m := s.m
	pl := &m.pools[poolID]
	j := &job{
		m: m, pool: poolID, cat: m.catalogues[pl.catalogue], room: pl.rooms.room, afford: s.affordable(poolID),
		fee: m.problem.Policy.NodeFee, lots: lots, fits: make([]*fit, len(lots)), wants: make([]int, len(lots)),
		value: make([]float64, len(lots)),
	}
	for i := range lots {
		j.fits[i], j.wants[i] = m.fits(lots[i].need, poolID), m.wants(lots[i].need, poolID)
	}
	return j
}

// study works out what the attempts have in common.
func (j *job) study() {
	j.readFamilies()
	j.readWays()
	j.readMarket()
	j.cells = newCells(j.m, j.lots)
}

// readFamilies notes which lots compete for hosts: at most so many of them fit one.
func (j *job) readFamilies() {
	j.family, j.crowd = make([]int, len(j.lots)), make([]int, len(j.m.groups))
	for i := range j.lots {
		j.family[i] = -1
		p := j.m.profiles[j.lots[i].profile]
		for _, r := range p.spread {
			if j.m.groups[r.group].host && r.self {
				j.family[i] = r.group
			}
		}
		for _, r := range p.apart {
			if j.m.groups[r.group].host && r.self {
				j.family[i] = r.group
			}
		}
		if g := j.family[i]; g >= 0 {
			j.crowd[g] += j.lots[i].count
		}
	}
}

// readWays groups the columns of the pool: two that every lot may use, or may not use, alike are one
// way to buy a node.
func (j *job) readWays() {
	var masks []columns
	for _, f := range j.fits {
		if !slices.Contains(masks, f.cols) {
			masks = append(masks, f.cols)
		}
	}
	byMask := map[string]int{}
	key := make([]byte, len(masks))
	for c := range j.cat.cols {
		if !j.m.pools[j.pool].cols.has(c) {
			continue
		}
		for i, cols := range masks {
			key[i] = byte(boolInt(cols.has(c)))
		}
		id, known := byMask[string(key)]
		if !known {
			id = len(j.ways)
			byMask[string(key)] = id
			j.ways = append(j.ways, columns{})
		}
		j.ways[id].add(c)
	}
}

// readMarket prices the lots of each need by a linear program over the choices it has.
func (j *job) readMarket() {
	at := map[int]int{}
	var groups [][]int
	for i := range j.lots {
		g, known := at[j.lots[i].need]
		if !known {
			g = len(groups)
			at[j.lots[i].need] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	for g, ids := range groups {
		j.priceNeed(g, ids)
	}
}

// priceNeed sets the value of some lots that have the same choices, and lists the choices.
func (j *job) priceNeed(need int, ids []int) {
	lanes := j.lanesOf(ids)
	f := j.fits[ids[0]]
	types, cost := j.choices(f)
	rows := make([]float64, 0, len(types)*len(lanes))
	for _, t := range types {
		for _, l := range lanes {
			rows = append(rows, float64(max(0, j.room[t*j.m.lanes+l])))
		}
	}
	demand := make([]float64, len(lanes))
	for _, i := range ids {
		for r, l := range lanes {
			demand[r] += float64(j.lots[i].count) * float64(j.m.classes[j.lots[i].class].req[l])
		}
	}
	sol := lp.Cover(cost, rows, len(lanes), demand)
	if !sol.OK {
		return
	}
	for _, i := range ids {
		for r, l := range lanes {
			j.value[i] += sol.Duals[r] * float64(j.m.classes[j.lots[i].class].req[l])
		}
	}
	lead, first := dominant(sol.X, cost), len(j.market)
	for at, t := range types {
		worth := 0.0
		for r := range lanes {
			worth += sol.Duals[r] * rows[at*len(lanes)+r]
		}
		if worth > 0 {
			j.market = append(j.market, choice{need, t, f.cols, worth, cost[at] / worth, at == lead})
		}
	}
	slices.SortFunc(j.market[first:], func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.ratio, b.ratio), cmp.Compare(b.worth, a.worth), cmp.Compare(a.t, b.t))
	})
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
func (j *job) lanesOf(ids []int) []int {
	used := make([]bool, j.m.lanes)
	for _, i := range ids {
		for _, l := range j.m.classes[j.lots[i].class].asks {
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
func (j *job) choices(f *fit) ([]int, []float64) {
	n := f.types.count()
	types, cost := make([]int, 0, n), make([]float64, 0, n)
	for t := f.types.next(0); t >= 0; t = f.types.next(t + 1) {
		if p := j.cat.lightest(t, f.cols); !math.IsInf(p, 1) && j.afford.has(t) {
			types, cost = append(types, t), append(cost, p+j.fee)
		}
	}
	return types, cost
}

// fair returns what a node may be worth if the pods are to be spread over as many nodes as those that
// must be apart need, or 0 if none must. Without it the first nodes take what the last ones need to
// be well filled.
func (j *job) fair() float64 {
	hosts, total := 0, 0.0
	for _, n := range j.crowd {
		hosts = max(hosts, n)
	}
	if hosts < 2 {
		return 0
	}
	for i, l := range j.lots {
		total += j.value[i] * float64(l.count)
	}
	const slack = 1.25 // not all nodes are filled alike
	return slack * total / float64(hosts)
}

// packAlike packs pods of a single size exactly, or returns nil.
func (j *job) packAlike() *packer {
	m := j.m
	if len(j.lots) != 1 || m.profiles[j.lots[0].profile].hosted {
		return nil
	}
	c, f := &m.classes[j.lots[0].class], j.fits[0]
	w := &packer{job: j, left: []int{j.lots[0].count}}
	types, cost := j.choices(f)
	bins := make([]lp.Bin, len(types))
	for i, t := range types {
		bins[i] = lp.Bin{Pods: few(c, j.room[t*m.lanes:(t+1)*m.lanes], j.lots[0].count), Cost: cost[i]}
	}
	_, counts := lp.OneSize(bins, j.lots[0].count)
	for i, times := range counts {
		for times > 0 && w.left[0] > 0 {
			n := min(bins[i].Pods, w.left[0])
			p := &pattern{takes: []take{{0, n}}, used: make([]int64, m.lanes), cols: f.cols, types: f.types.clone(), times: min(times, w.left[0]/n)}
			for _, l := range c.asks {
				p.used[l] = int64(n) * c.req[l]
			}
			w.reprice(p)
			w.left[0] -= n * p.times
			times -= p.times
			w.out = append(w.out, p)
		}
	}
	return w
}

// kinds returns the kinds of node that an attempt fills: main while there is plenty, and tail besides
// for the last few nodes.
func (j *job) kinds(tune tuning) (kinds, tail []config) {
	seen := map[[2]int]bool{}
	for first := 0; first < len(j.market); {
		need, taken, bucket := j.market[first].need, 0, map[int]int{}
		for ; first < len(j.market) && j.market[first].need == need; first++ {
			c := &j.market[first]
			if tune.most > 0 && c.worth > tune.most {
				continue
			}
			about := int(math.Floor(math.Log2(c.worth) * 1.5))
			main := taken < kindsPerNeed
			if tune.lead {
				main = c.lead
			}
			if !main && (c.ratio > tailWithin || bucket[about] >= 2) {
				continue
			}
			taken++
			bucket[about]++
			for way, cols := range j.ways {
				if seen[[2]int{way, c.t}] || cols.and(c.cols).and(j.cat.launch[c.t]).empty() {
					continue
				}
				seen[[2]int{way, c.t}] = true
				k := config{t: c.t, cols: cols, worth: c.worth, gain: math.Inf(1)}
				if main {
					kinds = append(kinds, k)
				} else {
					tail = append(tail, k)
				}
			}
		}
	}
	for _, list := range [][]config{kinds, tail} {
		slices.SortStableFunc(list, func(a, b config) int {
			return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(a.t, b.t), cmp.Compare(a.cols.next(0), b.cols.next(0)))
		})
	}
	return kinds, tail
}

const (
	kindsPerNeed = 5   // that are filled while there is plenty
	tailWithin   = 1.2 // kinds up to this much dearer per unit may do for the last nodes
)
