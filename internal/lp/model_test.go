package lp

import (
	"math"
	"math/rand/v2"
)

// textbook solves the dual of Bound's program as it is written, without groups, bundles or implied
// columns, by a full tableau and Bland's rule:
//
//	max Σ demand[k,r] p[k,r] + apart z
//	    p[k,r] ≤ q[j,r]                    for each k that may run on j
//	    Σ_r room[j,r] q[j,r] + z ≤ cost[j]
//
// Zero is feasible, so no first phase is needed.
func textbook(classes []Class, options []Option, apart float64) float64 {
	width := len(classes[0].Demand)
	k0, q0 := 0, len(classes)*width
	z := q0 + len(options)*width
	objective := make([]float64, z+1)
	objective[z] = apart
	var rows [][]float64
	var right []float64
	for k, c := range classes {
		copy(objective[k0+k*width:], c.Demand)
	}
	for j, o := range options {
		if o.May[0] == 0 {
			continue
		}
		whole := make([]float64, z+1)
		whole[z] = 1
		copy(whole[q0+j*width:], o.Room)
		rows, right = append(rows, whole), append(right, o.Cost)
		for k := range classes {
			if o.May[0]>>k&1 == 0 {
				continue
			}
			for r := range width {
				row := make([]float64, z+1)
				row[k0+k*width+r], row[q0+j*width+r] = 1, -1
				rows, right = append(rows, row), append(right, 0)
			}
		}
	}
	return tableau(objective, rows, right)
}

// tableau maximises objective·x with rows·x ≤ right, x ≥ 0, right ≥ 0.
func tableau(objective []float64, rows [][]float64, right []float64) float64 {
	n, m := len(objective), len(rows)
	basic := make([]int, m)
	for i := range rows {
		slack := make([]float64, m+1)
		slack[i], slack[m] = 1, right[i]
		rows[i] = append(rows[i], slack...)
		basic[i] = n + i
	}
	top := make([]float64, n+m+1)
	for j, c := range objective {
		top[j] = -c
	}
	last := n + m
	for {
		enters := -1
		for j, c := range top[:last] {
			if c < -1e-9 {
				enters = j
				break
			}
		}
		if enters < 0 {
			return top[last]
		}
		leaves, least := -1, math.Inf(1)
		for i, row := range rows {
			if row[enters] <= 1e-9 {
				continue
			}
			if ratio := row[last] / row[enters]; ratio < least || ratio == least && basic[i] < basic[leaves] {
				leaves, least = i, ratio
			}
		}
		if leaves < 0 {
			return math.Inf(1)
		}
		pivotal := rows[leaves]
		scale := 1 / pivotal[enters]
		for j := range pivotal {
			pivotal[j] *= scale
		}
		for i, row := range rows {
			if i != leaves {
				subtract(row, pivotal, row[enters])
			}
		}
		subtract(top, pivotal, top[enters])
		basic[leaves] = enters
	}
}

func subtract(row, pivotal []float64, times float64) {
	if times == 0 {
		return
	}
	for j, v := range pivotal {
		row[j] -= times * v
	}
}

// tenants makes classes without demand, and pools of options of which each class may use one or, one
// class in four, any of the first half. The options of the first pool have everything.
func tenants(rnd *rand.Rand, classes, pools, types int) ([]Class, []Option) {
	cost, columns, _ := catalogue(rnd.Uint64(), types, 3)
	may := make([][]uint64, pools)
	for p := range may {
		may[p] = make([]uint64, (classes+63)/64)
	}
	out := make([]Class, classes)
	for k := range classes {
		out[k].Demand = make([]float64, 3)
		for p := range pools {
			if k%4 == 0 && p <= pools/2 || k%pools == p {
				may[p][k/64] |= 1 << (k % 64)
			}
		}
	}
	var options []Option
	for p := range pools {
		discount := 0.5 + 0.5*rnd.Float64()
		for j := range types {
			if p == 0 || rnd.IntN(3) > 0 || j == 0 {
				options = append(options, Option{Cost: cost[j] * discount, Room: columns[j*3 : (j+1)*3], May: may[p]})
			}
		}
	}
	return out, options
}

// pack draws pods, adds them to the demand of the classes and puts each on the first node with room,
// or on a new one, as cheap as can be, when none has. Pods of one kind take a node each. It returns
// how many those are and what the nodes cost.
func pack(rnd *rand.Rand, classes []Class, options []Option, pods int) (apart, cost float64) {
	type node struct {
		option *Option
		room   []float64
		solo   bool
	}
	var nodes []*node
	may := func(o *Option, k int) bool { return o.May[k/64]>>(k%64)&1 == 1 }
	fits := func(need, room []float64) bool {
		return need[0] <= room[0] && need[1] <= room[1] && need[2] <= room[2]
	}
	place := func(k int, need []float64, solo bool) bool {
		for _, n := range nodes {
			if may(n.option, k) && fits(need, n.room) && !(solo && n.solo) {
				for r, v := range need {
					n.room[r] -= v
				}
				n.solo = n.solo || solo
				return true
			}
		}
		var best *Option
		for j := range options {
			if o := &options[j]; may(o, k) && fits(need, o.Room) && (best == nil || o.Cost < best.Cost) {
				best = o
			}
		}
		if best == nil {
			return false
		}
		cost += best.Cost
		n := &node{option: best, solo: solo}
		for r, v := range need {
			n.room = append(n.room, best.Room[r]-v)
		}
		nodes = append(nodes, n)
		return true
	}
	for range pods {
		k, solo := rnd.IntN(len(classes)), rnd.IntN(10) == 0
		// The smallest type of the catalogue has 0.92, 1e3 and 1e6.
		need := []float64{0.9 * rnd.Float64(), 1e3 * rnd.Float64(), 1e6 * rnd.Float64()}
		if !place(k, need, solo) {
			continue
		}
		if solo {
			apart++
		}
		for r, v := range need {
			classes[k].Demand[r] += v
		}
	}
	return apart, cost
}
