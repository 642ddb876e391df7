package check_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lp"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// frontier is a relaxation of all plans for the pods of a problem in which a spot pool takes at most a share of the pods
// of a workload: nodes are of any type that the pool allows, run any mix of pods that fits, and are launched in fractions. No plan
// costs less.
type frontier struct {
	requests []*resources.Vec
	pods     []float64 // by workload
	bounded  []bool    // by workload: it has three spot nodes or more
	types    []frontierType
}

type frontierType struct {
	room  resources.Vec
	zones []frontierZone // cheapest first
}

type frontierZone struct {
	at    spotPool
	price float64
}

// newFrontier reads a problem and its plan without a bound, all of whose nodes are spot nodes.
func newFrontier(p solve.Problem, before *solve.Plan) *frontier {
	f, at := &frontier{}, map[*cluster.Shape]int{}
	for i := range p.Pods {
		shape := p.Pods[i].Shape
		w, known := at[shape]
		if !known {
			w = len(f.pods)
			at[shape] = w
			f.requests, f.pods = append(f.requests, &shape.Requests), append(f.pods, 0)
		}
		f.pods[w]++
	}
	f.bounded = onThreeNodes(p, before)
	pool := &p.View.Pools[0]
	for i := range pool.Types {
		it := &pool.Types[i]
		if _, conflict := it.Labels.Conflict(pool.Requirements); conflict {
			continue
		}
		t := frontierType{room: it.Allocatable()}
		for _, o := range it.Offerings {
			if o.Available && o.CapacityType == karpv1.CapacityTypeSpot {
				t.zones = append(t.zones, frontierZone{spotPool{it.Name, o.Zone}, o.Price})
			}
		}
		slices.SortFunc(t.zones, func(a, b frontierZone) int { return cmp.Compare(a.price, b.price) })
		if len(t.zones) > 0 {
			f.types = append(f.types, t)
		}
	}
	return f
}

// fullest is the node whose pods are worth most: how many of each workload, and their worth.
func (f *frontier) fullest(room *resources.Vec, worth []float64, from int) (best []float64, most float64) {
	fits := 0
	left := room.Clone()
	for ; fits < int(f.pods[from]) && resources.Fits(f.requests[from], &left); fits++ {
		resources.SubFrom(&left, f.requests[from])
	}
	if from == len(f.pods)-1 {
		best = make([]float64, len(f.pods))
		best[from] = float64(fits)
		return best, float64(fits) * worth[from]
	}
	for n := fits; n >= 0; n-- {
		if rest, value := f.fullest(&left, worth, from+1); best == nil || value+float64(n)*worth[from] > most {
			best, most = rest, value+float64(n)*worth[from]
			best[from] = float64(n)
		}
		resources.AddTo(&left, f.requests[from])
	}
	return best, most
}

type frontierColumn struct {
	at    spotPool
	price float64
	pods  []float64
}

// limited is a workload that a spot pool would have too much of.
type limited struct {
	workload int
	at       spotPool
}

// least is what the pods cost at least if a spot pool takes at most a share of each bounded workload.
func (f *frontier) least(share float64) float64 {
	var rows []limited
	var columns []frontierColumn
	for _, t := range f.types {
		for w := range f.pods {
			worth := make([]float64, len(f.pods))
			worth[w] = 1
			if pods, value := f.fullest(&t.room, worth, 0); value > 0 {
				for _, z := range t.zones {
					columns = append(columns, frontierColumn{z.at, z.price, pods})
				}
			}
		}
	}
	most := func(w int) float64 { return math.Floor(share*f.pods[w] + 1e-9) }
	for round := 0; ; round++ {
		m := len(f.pods) + len(rows)
		cost, entries, demand := make([]float64, len(columns)), make([]float64, 0, m*len(columns)), slices.Clone(f.pods)
		for _, r := range rows {
			demand = append(demand, f.pods[r.workload]-most(r.workload)) // of pods elsewhere
		}
		for i, c := range columns {
			cost[i] = c.price
			entries = append(entries, c.pods...)
			for _, r := range rows {
				if c.at == r.at {
					entries = append(entries, 0)
				} else {
					entries = append(entries, c.pods[r.workload])
				}
			}
		}
		s := lp.Cover(cost, entries, m, demand)
		load := map[limited]float64{}
		for _, x := range s.X {
			for w, n := range columns[x.Column].pods {
				if f.bounded[w] && n > 0 {
					load[limited{w, columns[x.Column].at}] += x.Amount * n
				}
			}
		}
		more := false
		for r, n := range load {
			if n > most(r.workload)+1e-6 && !slices.Contains(rows, r) {
				rows, more = append(rows, r), true
			}
		}
		if more {
			continue
		}
		// Duals price the nodes that are not listed yet.
		over := 1.0
		for _, t := range f.types {
			plain := false
			for _, z := range t.zones {
				worth, special := slices.Clone(s.Duals[:len(f.pods)]), false
				for i, r := range rows {
					if r.at == z.at {
						special = true
						continue
					}
					worth[r.workload] += s.Duals[len(f.pods)+i]
				}
				if !special && plain {
					continue // a cheaper zone is priced the same
				}
				plain = plain || !special
				pods, value := f.fullest(&t.room, worth, 0)
				if value > z.price*(1+1e-6) {
					over = max(over, value/z.price)
					columns = append(columns, frontierColumn{z.at, z.price, pods})
				}
			}
		}
		if over < 1.002 || round > 200 {
			return s.Value / over
		}
	}
}

// leastShare is the smallest share that a cost leaves possible, and at least the bound.
func (f *frontier) leastShare(cost float64) float64 {
	if f.least(spotShare) <= cost {
		return spotShare
	}
	low, high := spotShare, 1.0
	for high-low > 0.01 {
		mid := (low + high) / 2
		if f.least(mid) <= cost {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// exactShare is the smallest share of a single workload that a cost leaves possible with whole nodes.
func (f *frontier) exactShare(cost float64) float64 {
	n := int(f.pods[0])
	for most := 1; most <= n; most++ {
		least := make([]float64, n+1)
		for i := 1; i <= n; i++ {
			least[i] = math.Inf(1)
		}
		for _, t := range f.types {
			full, _ := f.fullest(&t.room, []float64{1}, 0)
			if full[0] == 0 {
				continue
			}
			for _, z := range t.zones {
				next := slices.Clone(least)
				for j := 1; j <= most; j++ {
					price := z.price * math.Ceil(float64(j)/full[0])
					for i := j; i <= n; i++ {
						next[i] = min(next[i], least[i-j]+price)
					}
				}
				least = next
			}
		}
		if least[n] <= cost+1e-9 {
			return float64(most) / float64(n)
		}
	}
	return 1
}

// IR-06: with the recorded prices of a region, in which some spot pools cost half as much as all others, no plan spreads
// its workloads so far for 3 % that a third is lost. Plans come near to what is possible. Of a single workload that is known
// exactly; of several, the linear program is below what whole nodes can do.
func TestIR_06_WhatThreePercentCanDo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		single bool
		seeds  uint64
		within float64 // plans exceed the least share by at most this, on average
	}{
		"one workload":      {single: true, seeds: 60, within: 0.06},
		"several workloads": {seeds: 15, within: 0.30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var plans, lostBefore, lost, least float64
			for seed := range tc.seeds {
				p := spotProblem(t, seed, false)
				before := solve.Solve(p, nil)
				f := newFrontier(p, &before)
				if (len(f.pods) == 1) != tc.single || !slices.Contains(f.bounded, true) {
					continue
				}
				possible := 0.0
				if tc.single {
					possible = f.exactShare(before.Cost * 1.03)
				} else {
					possible = f.leastShare(before.Cost * 1.03)
				}
				p.Policy.SpotShare, p.Policy.SpotCost = spotShare, spotCost
				after := solve.Solve(p, nil)
				plans++
				lostBefore += largestLoss(p, &before, cheapestOf, f.bounded)
				lost += largestLoss(p, &after, cheapestOf, f.bounded)
				least += max(possible, spotShare)
			}
			t.Logf("%v plans; lost at once: %.2f, %.2f without the bound; no plan loses less than %.2f", plans, lost/plans, lostBefore/plans, least/plans)
			if lost > least+tc.within*plans {
				t.Errorf("%.2f is lost at once; %.2f is possible", lost/plans, least/plans)
			}
			if tc.single && least < lostBefore/3 {
				t.Error("a third is possible")
			}
		})
	}
}
