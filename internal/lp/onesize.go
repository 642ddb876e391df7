package lp

import (
	"cmp"
	"math"
	"slices"
)

// Bin is a kind of node: how many of the equal pods it holds and what it costs.
type Bin struct {
	Pods int
	Cost float64
}

// OneSize returns the cheapest bins that hold n equal pods, and how many of each kind in the order
// given. It is exact. Bins that hold nothing or whose cost is not a finite number are not used, costs
// below zero count as zero. When nothing holds a pod the cost is infinite and counts is nil.
func OneSize(per []Bin, n int) (cost float64, counts []int) {
	counts = make([]int, len(per))
	if n <= 0 {
		return 0, counts
	}
	bins := useful(per, n)
	if len(bins) == 0 {
		return math.Inf(1), nil
	}
	best := bins[0]
	for _, b := range bins { // of equally efficient ones the largest
		if b.cost*float64(best.pods) <= best.cost*float64(b.pods) {
			best = b
		}
	}
	bins = affordable(bins, best, n)
	ahead := certain(bins, best, n)
	counts[best.from] += ahead
	for _, b := range cheapest(bins, n-ahead*best.pods) {
		counts[b.from]++
	}
	for i, count := range counts {
		if count > 0 { // zero times an infinite cost is not a number
			cost += float64(count) * max(per[i].Cost, 0)
		}
	}
	return cost, counts
}

// kind is a bin and its place in the argument.
type kind struct {
	pods int
	cost float64
	from int
}

// waste is what the bin costs beyond its pods at the price per pod of the best bin.
func (b kind) waste(best kind) float64 {
	return max(0, b.cost-best.cost*float64(b.pods)/float64(best.pods))
}

// useful returns the bins, smallest first, without those that a larger one undercuts or that several
// smaller ones replace for no more.
func useful(per []Bin, n int) []kind {
	var bins []kind
	for i, b := range per {
		if b.Pods > 0 && !math.IsNaN(b.Cost) && !math.IsInf(b.Cost, 1) {
			bins = append(bins, kind{pods: min(b.Pods, n), cost: max(b.Cost, 0), from: i})
		}
	}
	slices.SortFunc(bins, func(a, b kind) int {
		return cmp.Or(cmp.Compare(b.pods, a.pods), cmp.Compare(a.cost, b.cost), cmp.Compare(a.from, b.from))
	})
	least, kept := math.Inf(1), bins[:0]
	for _, b := range bins {
		if b.cost < least {
			least, kept = b.cost, append(kept, b)
		}
	}
	slices.Reverse(kept)
	bins, kept = kept, kept[:0]
	for _, b := range bins {
		replaced := slices.ContainsFunc(kept, func(s kind) bool {
			return float64((b.pods+s.pods-1)/s.pods)*s.cost <= b.cost
		})
		if !replaced {
			kept = append(kept, b)
		}
	}
	return kept
}

// probes is how many of the least wasteful bins the first estimate uses.
const probes = 12

// affordable drops bins that waste more than any optimum can. With r the price per pod of the best
// bin, bins that hold p ≥ n pods cost r·p plus their waste, so in an optimum the waste adds up to at
// most the cost of some known solution less r·n.
func affordable(bins []kind, best kind, n int) []kind {
	if len(bins) <= probes {
		return bins
	}
	order := slices.Clone(bins)
	slices.SortFunc(order, func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.waste(best)/float64(a.pods), b.waste(best)/float64(b.pods)), cmp.Compare(b.pods, a.pods))
	})
	order = order[:probes]
	// The smallest bin fills the last gap at little cost.
	if !slices.Contains(order, bins[0]) {
		order = append(order, bins[0])
	}
	slices.SortFunc(order, func(a, b kind) int { return cmp.Compare(a.pods, b.pods) })
	allowed := allowance(order, best, n)
	kept := bins[:0]
	for _, b := range bins {
		if b.waste(best) <= allowed {
			kept = append(kept, b)
		}
	}
	return kept
}

// allowance is how much waste an optimum for n pods can have, from a solution with the given bins,
// and a little more for rounding.
func allowance(bins []kind, best kind, n int) float64 {
	ahead := certain(bins, best, n)
	known := float64(ahead) * best.cost
	for _, b := range cheapest(bins, n-ahead*best.pods) {
		known += b.cost
	}
	return known - best.cost*float64(n)/float64(best.pods) + 1e-9*known
}

// certain returns how many of the best bin some optimum for n pods surely has; the rest of that
// optimum is one for the pods that remain. Both limits are on the pods in other bins.
//
// Among as many other bins as the best one has pods, some hold together a multiple of its pods (of
// that many prefix sums two are equal modulo its pods, or one is zero), and copies of the best bin
// hold the same for no more. So fewer suffice, none larger than the largest.
//
// The waste is at most the cost of one best bin, since best bins alone hold n pods for r·n and less
// than one bin more. So other bins hold at most that cost times the most pods per waste.
func certain(bins []kind, best kind, n int) int {
	others, perWaste := 0, 0.0
	for _, b := range bins {
		if b.from == best.from {
			continue
		}
		others = max(others, b.pods)
		perWaste = max(perWaste, float64(b.pods)/b.waste(best)) // infinite without waste
	}
	limit := float64(best.pods-1) * float64(others)
	if byWaste := best.cost * perWaste * (1 + 1e-9); byWaste < limit {
		limit = math.Ceil(byWaste)
	}
	if limit >= float64(n) {
		return 0
	}
	return (n - int(limit)) / best.pods
}

// cheapest returns the bins of an optimum for n pods, by dynamic programming over the pods.
func cheapest(bins []kind, n int) []kind {
	if n <= 0 {
		return nil
	}
	largest := bins[len(bins)-1].pods
	// A bin may hold more than what is left: that costs as much as an exact fit, so the costs of no
	// pods and fewer come first.
	costs := make([]float64, largest+n+1)
	choice := make([]int32, n+1)
	for m := 1; m <= n; m++ {
		least, which := math.Inf(1), 0
		for i, b := range slices.Backward(bins) { // the largest of those that cost the same
			if c := costs[largest+m-b.pods] + b.cost; c < least {
				least, which = c, i
			}
		}
		costs[largest+m], choice[m] = least, int32(which)
	}
	var out []kind
	for m := n; m > 0; m -= out[len(out)-1].pods {
		out = append(out, bins[choice[m]])
	}
	return out
}
