package lp

import "math"

// How the simplex method treats rounding. All numbers it sees are scaled into [0, 1].
const (
	slack  = 1e-11 // a column may beat its cost by this much in an optimum
	pivotE = 1e-9  // smallest coefficient to divide by
	ratioE = 1e-13 // what ratios may differ by and still tie
	nudge  = 1e-10 // relative change of a right-hand side that keeps ratios from tying
	renew  = 96    // pivots after which the inverse is computed afresh

	progress = 1e-13 // relative fall of the cost that counts
	patience = 8     // pivots per row without it
)

// Identities of basic columns that no pricer made.
const (
	single  = -1 // one in its row, cost one
	surplus = -2 // minus one in its row, cost zero
)

// column is a sparse column of the program and an identity the pricer understands.
type column struct {
	id     int
	rows   []int32
	values []float64
}

func (c *column) reset(id int) {
	c.id, c.rows, c.values = id, c.rows[:0], c.values[:0]
}

func (c *column) add(row int, value float64) {
	c.rows, c.values = append(c.rows, int32(row)), append(c.values, value)
}

// cost is one but for surplus columns: the scaling divides every column by its cost.
func (c *column) cost() float64 {
	if c.id == surplus {
		return 0
	}
	return 1
}

// A pricer knows the columns of a program. It fills in the column with the largest product with w,
// without the rows where w is negative (a column that covers less is a column too), and returns that
// product. It decides by w alone.
type pricer interface {
	price(w []float64, best *column) float64
}

// basis is the state of a revised simplex method on the program
//
//	min Σ x  such that  Σ g x ≥ right,  x ≥ 0
//
// with g in [0, 1]. Rows are scaled so that the best column for a row has a one there. That column
// reduced to this one row is a column too, a worse one, so the unit matrix is a feasible first basis
// and no first phase is needed; such columns are called single.
//
// The inverse of the basis is kept explicitly: there are few rows, a column has few entries, and in
// programs of many classes most of the inverse stays zero, which the updates make use of.
type basis struct {
	m       int
	goal    []float64 // right-hand side
	right   []float64 // goal, nudged
	inverse []float64 // m by m, row by row
	x       []float64 // amount of each basic column
	w       []float64 // dual of each row
	basic   []column
	stale   int // pivots since the inverse was computed afresh

	alpha   []float64 // scratch: the entering column in terms of the basis
	nonzero []int32   // scratch: where a row of the inverse is not zero
	enters  column    // scratch
	scratch []column  // scratch of refresh
	taken   []bool    // scratch of refresh

	best  []float64 // feasible dual of the largest bound so far
	bound float64   // goal times best
}

// newBasis starts with the single columns. No column may have more entries than width.
func newBasis(goal []float64, width int) *basis {
	m := len(goal)
	numbers := make([]float64, 5*m+m*m)
	cut := func(n int) []float64 {
		part := numbers[:n:n]
		numbers = numbers[n:]
		return part
	}
	b := &basis{
		m: m, goal: goal, right: cut(m), x: cut(m), w: cut(m), alpha: cut(m), best: cut(m), inverse: cut(m * m),
		nonzero: make([]int32, 0, m), basic: make([]column, m), scratch: make([]column, m), taken: make([]bool, m),
	}
	rows, values := make([]int32, (m+1)*width), make([]float64, (m+1)*width)
	room := func(i int) column {
		return column{rows: rows[i*width : i*width : (i+1)*width], values: values[i*width : i*width : (i+1)*width]}
	}
	b.enters = room(m)
	for i, g := range goal {
		// Multiples of the golden ratio modulo one never repeat and are spread evenly. A dual that is
		// optimal for the nudged program is within the nudge of optimal for the given one.
		b.right[i] = g * (1 + nudge*math.Mod(float64(i+1)*math.Phi, 1))
		b.basic[i] = room(i)
		b.basic[i].reset(single)
		b.basic[i].add(i, 1)
	}
	b.identity()
	for i := range b.w {
		b.w[i] = 1
	}
	copy(b.x, b.right)
	return b
}

func (b *basis) identity() {
	clear(b.inverse)
	for i := range b.m {
		b.inverse[i*b.m+i] = 1
	}
	b.stale = 0
}

// solve pivots until best is optimal or the budget of pivots is spent, and returns how many it used.
// Dividing any dual by its largest product with a column makes it feasible (Farley), so there is a
// bound at every step, whatever rounding did to the inverse. Where rounding hides the optimum the
// cost stops falling and so does the search.
func (b *basis) solve(columns pricer, budget int) int {
	least, since := math.Inf(1), 0
	for used := 0; ; used++ {
		lowest, at := 0.0, 0
		for i, w := range b.w {
			if w < lowest {
				lowest, at = w, i
			}
		}
		worst := columns.price(b.w, &b.enters)
		b.record(worst)
		if cost := b.cost(); cost < least*(1-progress) {
			least, since = cost, used
		}
		if max(worst-1, -lowest) <= slack {
			if b.stale < renew/2 {
				return used
			}
			b.refresh()
			continue
		}
		if used >= budget || used-since > patience*(b.m+patience) {
			return used
		}
		if -lowest > worst-1 {
			b.enters.reset(surplus)
			b.enters.add(at, -1)
		}
		if !b.enter() {
			if b.stale == 0 {
				return used
			}
			b.refresh()
		}
	}
}

// cost is what the basic columns cost.
func (b *basis) cost() float64 {
	sum := 0.0
	for i := range b.basic {
		if b.basic[i].id != surplus {
			sum += b.x[i]
		}
	}
	return sum
}

// record keeps the dual without its negative part if, made feasible, it bounds the optimum better than any before.
func (b *basis) record(worst float64) {
	if worst <= 0 {
		return
	}
	sum := 0.0
	for i, w := range b.w {
		sum += b.goal[i] * max(w, 0)
	}
	if sum/worst <= b.bound {
		return
	}
	b.bound = sum / worst
	for i, w := range b.w {
		b.best[i] = max(w, 0) / worst
	}
}

// enter brings the entering column into the basis; false means that rounding left no pivot.
func (b *basis) enter() bool {
	b.transform(&b.enters)
	// Harris: the pass that allows a little infeasibility finds the step, the second takes the
	// largest pivot within it. The infeasibility is below what the nudge adds.
	limit := math.Inf(1)
	for i, a := range b.alpha {
		if a > pivotE {
			limit = min(limit, (b.x[i]+ratioE)/a)
		}
	}
	row := -1
	for i, a := range b.alpha {
		if a > pivotE && b.x[i] <= limit*a && (row < 0 || a > b.alpha[row]) {
			row = i
		}
	}
	if row < 0 {
		return false
	}
	step := b.x[row] / b.alpha[row]
	for i, a := range b.alpha {
		if a != 0 {
			b.x[i] = max(0, b.x[i]-step*a)
		}
	}
	b.x[row] = step
	gain := -b.enters.cost()
	for k, r := range b.enters.rows {
		gain += b.enters.values[k] * b.w[r]
	}
	b.pivot(row)
	pivotal := b.inverse[row*b.m : (row+1)*b.m]
	for _, k := range b.nonzero {
		b.w[k] -= gain * pivotal[k]
	}
	b.enters, b.basic[row] = b.basic[row], b.enters
	b.stale++
	if b.stale >= renew+b.m {
		b.refresh()
	}
	return true
}

// transform sets alpha to the inverse times the column.
func (b *basis) transform(c *column) {
	if len(c.rows) == 1 {
		r, v := int(c.rows[0]), c.values[0]
		for i := range b.alpha {
			b.alpha[i] = b.inverse[i*b.m+r] * v
		}
		return
	}
	for i := range b.alpha {
		row, sum := b.inverse[i*b.m:(i+1)*b.m], 0.0
		for k, r := range c.rows {
			sum += row[r] * c.values[k]
		}
		b.alpha[i] = sum
	}
}

// pivot replaces the basic column of the row by the one that alpha describes.
func (b *basis) pivot(row int) {
	pivotal, scale := b.inverse[row*b.m:(row+1)*b.m], 1/b.alpha[row]
	b.nonzero = b.nonzero[:0]
	for k, v := range pivotal {
		if v != 0 {
			pivotal[k] = v * scale
			b.nonzero = append(b.nonzero, int32(k))
		}
	}
	for i, a := range b.alpha {
		if a == 0 || i == row {
			continue
		}
		other := b.inverse[i*b.m : (i+1)*b.m]
		for _, k := range b.nonzero {
			other[k] -= a * pivotal[k]
		}
	}
}

// refresh computes inverse, amounts and duals from the basic columns, which removes the rounding that
// pivots accumulate. It starts from the unit matrix again and brings the columns in one by one, each
// at the free row where it is largest. A column that finds no row depends on the others and gives way
// to the single column of a row that stays free.
func (b *basis) refresh() {
	copy(b.scratch, b.basic)
	b.identity()
	clear(b.taken)
	for _, short := range []bool{true, false} { // short columns first: they fill in nothing
		for i := range b.scratch {
			if c := &b.scratch[i]; c.rows != nil && short == (len(c.rows) == 1) && b.place(c) {
				c.rows = nil
			}
		}
	}
	next := 0
	for row, taken := range b.taken {
		if taken {
			continue
		}
		for b.scratch[next].rows == nil {
			next++
		}
		b.basic[row] = b.scratch[next]
		b.basic[row].reset(single)
		b.basic[row].add(row, 1)
		next++
	}
	clear(b.w)
	for i := range b.m {
		row, cost, sum := b.inverse[i*b.m:(i+1)*b.m], b.basic[i].cost(), 0.0
		for k, v := range row {
			sum += v * b.right[k]
			b.w[k] += cost * v
		}
		b.x[i] = max(0, sum)
	}
}

// place makes the column basic in a row that is not taken, if one is left where it is not zero.
func (b *basis) place(c *column) bool {
	b.transform(c)
	row := -1
	for k, a := range b.alpha {
		if !b.taken[k] && math.Abs(a) > pivotE && (row < 0 || math.Abs(a) > math.Abs(b.alpha[row])) {
			row = k
		}
	}
	if row < 0 {
		return false
	}
	b.taken[row] = true
	b.pivot(row)
	b.basic[row] = *c
	return true
}

// amounts sets x to the solution for the right-hand side as it was given.
func (b *basis) amounts() []float64 {
	for i := range b.m {
		sum := 0.0
		for k, v := range b.inverse[i*b.m : (i+1)*b.m] {
			sum += v * b.goal[k]
		}
		b.x[i] = max(0, sum)
	}
	return b.x
}
