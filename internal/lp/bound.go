package lp

import (
	"cmp"
	"slices"
)

// Class is the pods that may run in the same places, as one demand.
type Class struct {
	Demand []float64 // in all, by resource
}

// Option is a kind of node that can be launched, any number of times.
type Option struct {
	Cost float64
	Room []float64 // by resource
	May  []uint64  // bit k: pods of class k may run there
}

const (
	// margin is taken off the bound and off its prices, so that rounding, in here and where a caller
	// adds up costs, never lifts the bound above a true cost.
	margin = 1e-9
	// mostRows limits the memory of one program to 32 MiB; see pool.
	mostRows = 2000
)

// Bound returns a lower bound on what nodes for the classes cost, and what a unit of each resource is
// worth to each class. The bound is the optimum of
//
//	min Σ cost[j] x[j]
//	    Σ_j u[k,r,j] ≥ demand[k,r]           for each class and resource
//	    Σ_k u[k,r,j] ≤ room[j,r] x[j]        for each option and resource; only k that may run on j
//	    Σ x[j] ≥ apart
//
// less a billionth, if a budget of that many pivots suffices, and a smaller valid bound otherwise.
// It allows nodes and pods to be cut, even a pod's memory from its cpu, so no packing is cheaper. A
// few pivots per class and resource usually suffice.
//
// The prices prove the bound: for each option the sum over the resources of its room times the
// highest price among its classes, plus the price of a node, is at most its cost. Demands times
// prices, plus apart times the price of a node, add up to the bound; that price is the difference.
//
// A class that needs what none of its options has is left out and its prices are zero: its pods stay
// pending whatever is launched. Numbers below zero, and rooms that are not numbers, count as zero; an
// option whose cost is not a finite number is not offered.
func Bound(classes []Class, options []Option, apart float64, budget int) (value float64, prices [][]float64) {
	width := 0
	for _, c := range classes {
		width = max(width, len(c.Demand))
	}
	return newMarket(classes, options, width, apart).solve(len(classes), budget)
}

// solve returns the bound and the prices of so many classes. The parts share the budget by size; what
// one leaves is for the next.
func (m *market) solve(classes, budget int) (value float64, prices [][]float64) {
	resources := m.width - 1
	flat := make([]float64, classes*resources)
	prices = make([][]float64, classes)
	for k := range prices {
		prices[k] = flat[k*resources : (k+1)*resources : (k+1)*resources]
	}
	parts, rows := m.parts(), 0
	for _, p := range parts {
		rows += len(p.unit)
	}
	for _, p := range parts {
		b := newBasis(p.goal, p.width)
		budget -= b.solve(p, int(float64(budget)*float64(len(p.unit))/float64(rows)))
		rows -= len(p.unit)
		for row, w := range b.best {
			price := w * p.unit[row] * (1 - margin)
			if row == p.node {
				value += m.apart * price
				continue
			}
			at := p.cells[row]
			value += at.bundle.demand[at.resource] * price
			for _, k := range at.bundle.classes {
				prices[k][at.resource] = price
			}
		}
	}
	return value, prices
}

// cell is what a row of a program stands for.
type cell struct {
	bundle   *bundle
	resource int
}

// program is the resource program of some bundles and the groups of options for them, seen as a
// covering program: a column is an option that gives all its room for each resource to one bundle.
// There is a row for each bundle and resource. There are very many columns, but which is best at
// given prices is plain: for each resource the bundle that pays most.
type program struct {
	width  int
	groups []offer
	cells  []cell
	unit   []float64 // of a row: the least a unit can cost
	goal   []float64 // of a row: what the demand costs at least, scaled
	node   int       // the row that counts nodes, or -1

	prices []float64 // scratch: of a row, by unit
	most   []float64 // scratch: of a resource, the highest price
	payer  []int32   // scratch: of a resource, the row with that price
}

// offer is a group of options with the rows of those who may use them.
type offer struct {
	rates []float64
	rows  [][]int32 // by resource
}

func (p *program) price(w []float64, best *column) float64 {
	for row, u := range p.unit {
		p.prices[row] = w[row] * u
	}
	worst, group, at := 0.0, -1, 0
	for g := range p.groups {
		o := &p.groups[g]
		p.findTopPrices(o)
		for k := 0; k < len(o.rates); k += p.width {
			sum := 0.0
			for r, rate := range o.rates[k : k+p.width] {
				sum += rate * p.most[r]
			}
			if sum > worst {
				worst, group, at = sum, g, k
			}
		}
	}
	best.reset(0)
	if group < 0 {
		return worst
	}
	o := &p.groups[group]
	p.findTopPrices(o)
	for r, rate := range o.rates[at : at+p.width] {
		if row := p.payer[r]; rate > 0 && row >= 0 && w[row] > -slack {
			best.add(int(row), rate*p.unit[row])
		}
	}
	return worst
}

// findTopPrices finds for each resource who pays most in the group.
func (p *program) findTopPrices(o *offer) {
	for r, rows := range o.rows {
		most, payer := 0.0, int32(-1)
		for i, row := range rows {
			if price := p.prices[row]; i == 0 || price > most {
				most, payer = price, row
			}
		}
		p.most[r], p.payer[r] = max(most, 0), payer
	}
}

// pool merges the smallest bundles of a set that would make too large a program into one that may run
// where any of them may. That allows more than is true, so the bound stays a bound.
func pool(bundles []*bundle, limit int) []*bundle {
	rows := 0
	for _, b := range bundles {
		rows += b.rows()
	}
	if rows <= limit {
		return bundles
	}
	order := slices.Clone(bundles)
	slices.SortStableFunc(order, func(a, b *bundle) int { return cmp.Compare(b.least(), a.least()) })
	rows = 0
	for i, b := range order {
		if rows += b.rows(); rows+len(b.demand) > limit {
			rest := order[i].union(order[i+1:])
			return append(order[:i:i], rest)
		}
	}
	return order
}
