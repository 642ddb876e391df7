package lp

import (
	"cmp"
	"math"
	"slices"
)

// Solution is an optimum of a covering program and its proof: Duals are non-negative, no column costs
// less than its entries times Duals, and demand times Duals is Value, so nothing cheaper exists.
type Solution struct {
	Value float64
	X     []Entry   // amounts that are not zero, by column
	Duals []float64 // what one more unit of each demand would cost
	OK    bool      // false: a demanded row has no column that provides it
}

// Entry is how much of a column a solution uses.
type Entry struct {
	Column int
	Amount float64
}

// Cover finds the cheapest x ≥ 0 whose columns add up to the demand in every row:
//
//	min Σ cost[j] x[j]  such that  Σ columns[j*m+r] x[j] ≥ demand[r]  for each r < m
//
// Entries and demands that are not positive count as zero, costs below zero as zero, and a column
// whose cost is not a finite number is not used. The time is a few passes over the columns per row;
// X meets the demand and Value the optimum to within a billionth.
func Cover(cost, columns []float64, m int, demand []float64) Solution {
	c := newCovering(cost, columns, m, demand)
	if c == nil {
		return Solution{}
	}
	out := Solution{Duals: make([]float64, m), OK: true}
	for r, j := range c.free {
		if j >= 0 && demand[r] > 0 {
			out.X = append(out.X, Entry{Column: j, Amount: demand[r] / columns[j*m+r]})
		}
	}
	if len(c.rows) > 0 {
		c.solve(&out)
	}
	out.X = merged(out.X)
	for r, d := range demand[:m] {
		if d > 0 {
			out.Value += d * out.Duals[r]
		}
	}
	return out
}

// covering is a covering program as a pricer. Rows of the program are those with a price to find.
type covering struct {
	m       int
	columns []float64
	perCost []float64 // one over the cost of a column; zero if it is not offered or free
	demand  []float64
	rows    []int     // rows of the program
	unit    []float64 // of a row: the least a unit can cost
	first   []int     // of a row: the column with that cost
	free    []int     // of a row: a column that provides it for nothing, or -1
	prices  []float64 // scratch: of a row, by unit
}

// newCovering returns nil when a demanded row has no column.
func newCovering(cost, columns []float64, m int, demand []float64) *covering {
	c := &covering{
		m: m, columns: columns, demand: demand, perCost: make([]float64, len(cost)), rows: make([]int, 0, m),
		unit: make([]float64, m), first: make([]int, m), free: make([]int, m), prices: make([]float64, m),
	}
	for r := range m {
		c.first[r], c.free[r] = -1, -1
	}
	for j, price := range cost {
		entries, per := columns[j*m:(j+1)*m], 1/price
		switch {
		case math.IsNaN(price) || math.IsInf(price, 1):
		case price <= 0 || math.IsInf(per, 1):
			for r, a := range entries {
				if a > 0 && c.free[r] < 0 {
					c.free[r] = j
				}
			}
		default:
			c.perCost[j] = per
			for r, a := range entries {
				if a*per > c.unit[r] {
					c.unit[r], c.first[r] = a*per, j
				}
			}
		}
	}
	for r, d := range demand[:m] {
		switch {
		case !(d > 0) || c.free[r] >= 0:
		case c.first[r] < 0 || math.IsInf(d, 1):
			return nil
		default:
			c.unit[r] = 1 / c.unit[r]
			c.rows = append(c.rows, r)
		}
	}
	return c
}

// solve adds the duals and the amounts of the program to the solution.
func (c *covering) solve(out *Solution) {
	goal, total := make([]float64, len(c.rows)), 0.0
	for i, r := range c.rows {
		goal[i] = c.demand[r] * c.unit[r]
		total += goal[i]
	}
	for i := range goal {
		goal[i] /= total
	}
	b := newBasis(goal, len(goal))
	b.solve(c, math.MaxInt)
	for i, r := range c.rows {
		out.Duals[r] = b.best[i] * c.unit[r]
	}
	for i, amount := range b.amounts() {
		column := b.basic[i]
		if amount == 0 || column.id == surplus {
			continue
		}
		j := column.id
		if j == single {
			j = c.first[c.rows[column.rows[0]]]
		}
		out.X = append(out.X, Entry{Column: j, Amount: amount * total * c.perCost[j]})
	}
}

func (c *covering) price(w []float64, best *column) float64 {
	for i, r := range c.rows {
		c.prices[r] = max(w[i], 0) * c.unit[r]
	}
	worst, at := 0.0, -1
	for j, per := range c.perCost {
		sum := 0.0
		for r, a := range c.columns[j*c.m : (j+1)*c.m] {
			if a > 0 {
				sum += a * c.prices[r]
			}
		}
		if sum*per > worst {
			worst, at = sum*per, j
		}
	}
	best.reset(at)
	if at >= 0 {
		for i, r := range c.rows {
			if a := c.columns[at*c.m+r]; a > 0 && w[i] > -slack {
				best.add(i, a*c.perCost[at]*c.unit[r])
			}
		}
	}
	return worst
}

// merged sorts entries by column and adds up those of the same column.
func merged(entries []Entry) []Entry {
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Column, b.Column) })
	kept := entries[:0]
	for _, e := range entries {
		if n := len(kept); n > 0 && kept[n-1].Column == e.Column {
			kept[n-1].Amount += e.Amount
			continue
		}
		kept = append(kept, e)
	}
	return kept
}
