package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/lp"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/exact"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// job is the batches to be packed onto new nodes of one pool, and what can be computed from them alone. Attempts
// share it and only read it.
type job struct {
	m            *model.Model
	pool         int
	catalogue    *model.Catalogue
	allocatable  []int64
	affordable   bitset.Set // types that the limits of the pool allow
	fee          float64
	batches      []Batch
	fits         []*model.PoolFit // by batch: how it fits the pool
	freeLabels   []int            // by batch: need for labels that the pool lets pods choose, 0 if none
	value        []float64        // by batch: value of one of its pods
	columnGroups []bitset.Columns // sets of columns that every batch may use alike
	choices      []typeChoice     // kinds of node, by need, least overpriced first
	hostGroup    []int            // by batch: group that allows its pods only so many per host, or -1
	groupPods    []int            // pods of each group
	buckets      buckets
}

// typeChoice is an instance type that batches of one need could use.
type typeChoice struct {
	need     int // position among the needs of the job
	t        int
	cols     bitset.Columns // columns that the need allows
	worth    float64        // value of all pods it can hold
	ratio    float64        // price over worth: how overpriced it is
	dominant bool           // the linear program spends most on it
}

func newJob(s *exact.State, poolID int, batches []Batch) *job {
	m := s.Model
	pl := &m.Pools[poolID]
	j := &job{
		m: m, pool: poolID, catalogue: m.Catalogues[pl.Catalogue], allocatable: pl.Capacity.Allocatable, affordable: s.Affordable(poolID),
		fee: m.Problem.Policy.NodeFee, batches: batches, fits: make([]*model.PoolFit, len(batches)), freeLabels: make([]int, len(batches)),
		value: make([]float64, len(batches)),
	}
	for i := range batches {
		j.fits[i], j.freeLabels[i] = m.FitPool(batches[i].need, poolID), m.NeedOfFreeLabels(batches[i].need, poolID)
	}
	return j
}

// prepare computes what the attempts have in common.
func (j *job) prepare() {
	j.readHostGroups()
	j.groupColumns()
	j.priceBatches()
	j.buckets = newBuckets(j.m, j.batches)
}

// readHostGroups records which batches compete for hosts: a host takes only so many of their pods.
func (j *job) readHostGroups() {
	j.hostGroup, j.groupPods = make([]int, len(j.batches)), make([]int, len(j.m.Groups))
	for i := range j.batches {
		j.hostGroup[i] = -1
		p := j.m.Profiles[j.batches[i].Profile]
		for _, r := range p.Spread {
			if j.m.Groups[r.Group].PerHost && r.Self {
				j.hostGroup[i] = r.Group
			}
		}
		for _, r := range p.AntiAffinity {
			if j.m.Groups[r.Group].PerHost && r.Self {
				j.hostGroup[i] = r.Group
			}
		}
		if g := j.hostGroup[i]; g >= 0 {
			j.groupPods[g] += j.batches[i].Count
		}
	}
}

// groupColumns groups the columns of the pool. Two columns are in one group if every batch may use both or neither.
func (j *job) groupColumns() {
	var masks []bitset.Columns
	for _, f := range j.fits {
		if !slices.Contains(masks, f.Columns) {
			masks = append(masks, f.Columns)
		}
	}
	byMask := map[string]int{}
	key := make([]byte, len(masks))
	for c := range j.catalogue.Columns {
		if !j.m.Pools[j.pool].Columns.Has(c) {
			continue
		}
		for i, cols := range masks {
			key[i] = byte(bitset.Bit(cols.Has(c)))
		}
		id, known := byMask[string(key)]
		if !known {
			id = len(j.columnGroups)
			byMask[string(key)] = id
			j.columnGroups = append(j.columnGroups, bitset.Columns{})
		}
		j.columnGroups[id].Add(c)
	}
}

// priceBatches prices the batches of each need by a linear program over the choices it has.
func (j *job) priceBatches() {
	at := map[int]int{}
	var groups [][]int
	for i := range j.batches {
		g, known := at[j.batches[i].need]
		if !known {
			g = len(groups)
			at[j.batches[i].need] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	for g, ids := range groups {
		j.priceNeed(g, ids)
	}
}

// priceNeed sets the value of some batches that have the same choices, and lists the choices.
func (j *job) priceNeed(need int, ids []int) {
	lanes := j.lanesOf(ids)
	f := j.fits[ids[0]]
	types, cost := j.affordableTypes(f)
	rows := make([]float64, 0, len(types)*len(lanes))
	for _, t := range types {
		for _, l := range lanes {
			rows = append(rows, float64(max(0, j.allocatable[t*j.m.Lanes+l])))
		}
	}
	demand := make([]float64, len(lanes))
	for _, i := range ids {
		for r, l := range lanes {
			demand[r] += float64(j.batches[i].Count) * float64(j.m.Classes[j.batches[i].Class].Requests[l])
		}
	}
	sol := lp.Cover(cost, rows, len(lanes), demand)
	if !sol.OK {
		return
	}
	for _, i := range ids {
		for r, l := range lanes {
			j.value[i] += sol.Duals[r] * float64(j.m.Classes[j.batches[i].Class].Requests[l])
		}
	}
	lead, first := largestSpend(sol.X, cost), len(j.choices)
	for at, t := range types {
		worth := 0.0
		for r := range lanes {
			worth += sol.Duals[r] * rows[at*len(lanes)+r]
		}
		if worth > 0 {
			j.choices = append(j.choices, typeChoice{need, t, f.Columns, worth, cost[at] / worth, at == lead})
		}
	}
	slices.SortFunc(j.choices[first:], func(a, b typeChoice) int {
		return cmp.Or(cmp.Compare(a.ratio, b.ratio), cmp.Compare(b.worth, a.worth), cmp.Compare(a.t, b.t))
	})
}

// largestSpend returns the column on which a solution spends most.
func largestSpend(x []lp.Entry, cost []float64) int {
	best, most := -1, 0.0
	for _, e := range x {
		if v := e.Amount * cost[e.Column]; v > most {
			best, most = e.Column, v
		}
	}
	return best
}

// lanesOf returns the lanes that some batches have requests in.
func (j *job) lanesOf(ids []int) []int {
	used := make([]bool, j.m.Lanes)
	for _, i := range ids {
		for _, l := range j.m.Classes[j.batches[i].Class].Lanes {
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

// affordableTypes returns the types that a batch may use, with the least price of a node of each, fee included.
func (j *job) affordableTypes(f *model.PoolFit) ([]int, []float64) {
	n := f.Types.Count()
	types, cost := make([]int, 0, n), make([]float64, 0, n)
	for t := f.Types.Next(0); t >= 0; t = f.Types.Next(t + 1) {
		if p := j.catalogue.CheapestWithRisk(t, f.Columns); !math.IsInf(p, 1) && j.affordable.Has(t) {
			types, cost = append(types, t), append(cost, p+j.fee)
		}
	}
	return types, cost
}

// fairWorth returns the most that a node may be worth if the pods are spread over as many nodes as those that must be
// apart need, or 0 if none must. Without this limit the first nodes take the pods that the last ones need to be well
// filled.
func (j *job) fairWorth() float64 {
	hosts, total := 0, 0.0
	for _, n := range j.groupPods {
		hosts = max(hosts, n)
	}
	if hosts < 2 {
		return 0
	}
	for i, l := range j.batches {
		total += j.value[i] * float64(l.Count)
	}
	const slack = 1.25 // not all nodes are filled alike
	return slack * total / float64(hosts)
}

// packAlike packs pods of a single size exactly, or returns nil.
func (j *job) packAlike() *packer {
	m := j.m
	if len(j.batches) != 1 || m.Profiles[j.batches[0].Profile].HasHostRules {
		return nil
	}
	c, f := &m.Classes[j.batches[0].Class], j.fits[0]
	w := &packer{job: j, left: []int{j.batches[0].Count}}
	types, cost := j.affordableTypes(f)
	bins := make([]lp.Bin, len(types))
	for i, t := range types {
		bins[i] = lp.Bin{Pods: model.CountFitting(c, j.allocatable[t*m.Lanes:(t+1)*m.Lanes], j.batches[0].Count), Cost: cost[i]}
	}
	_, counts := lp.OneSize(bins, j.batches[0].Count)
	for i, times := range counts {
		for times > 0 && w.left[0] > 0 {
			n := min(bins[i].Pods, w.left[0])
			p := &pattern{portions: []portion{{0, n}}, used: make([]int64, m.Lanes), cols: f.Columns, types: f.Types.Clone(), times: min(times, w.left[0]/n)}
			for _, l := range c.Lanes {
				p.used[l] = int64(n) * c.Requests[l]
			}
			w.reprice(p)
			w.left[0] -= n * p.times
			times -= p.times
			w.patterns = append(w.patterns, p)
		}
	}
	return w
}

// listKinds returns the kinds of node that an attempt fills: main while many pods are left, and tail in addition for
// the last few nodes.
func (j *job) listKinds(tune tuning) (kinds, tail []nodeKind) {
	seen := map[[2]int]bool{}
	for first := 0; first < len(j.choices); {
		need, taken, bucket := j.choices[first].need, 0, map[int]int{}
		for ; first < len(j.choices) && j.choices[first].need == need; first++ {
			c := &j.choices[first]
			if tune.maxWorth > 0 && c.worth > tune.maxWorth {
				continue
			}
			about := int(math.Floor(math.Log2(c.worth) * 1.5))
			main := taken < kindsPerNeed
			if tune.dominantOnly {
				main = c.dominant
			}
			if !main && (c.ratio > tailWithin || bucket[about] >= 2) {
				continue
			}
			taken++
			bucket[about]++
			for way, cols := range j.columnGroups {
				if seen[[2]int{way, c.t}] || cols.And(c.cols).And(j.catalogue.Launchable[c.t]).Empty() {
					continue
				}
				seen[[2]int{way, c.t}] = true
				k := nodeKind{t: c.t, cols: cols, worth: c.worth, gain: math.Inf(1)}
				if main {
					kinds = append(kinds, k)
				} else {
					tail = append(tail, k)
				}
			}
		}
	}
	for _, list := range [][]nodeKind{kinds, tail} {
		slices.SortStableFunc(list, func(a, b nodeKind) int {
			return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(a.t, b.t), cmp.Compare(a.cols.Next(0), b.cols.Next(0)))
		})
	}
	return kinds, tail
}

const (
	kindsPerNeed = 5   // kinds of node that are filled while many pods are left
	tailWithin   = 1.2 // kinds up to this much more expensive per unit are allowed for the last nodes
)
