package solve

import (
	"encoding/binary"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/lp"
)

// pivots bounds the work on the lower bound; programs of a hundred pools take about a thousand.
const pivots = 10000

// demandClass is the pods that may be on the same kinds of nodes.
type demandClass struct {
	needs  []int // alternatives
	tol    int
	wants  []int64 // of resources that not every node has
	demand []float64
	one    *class // the only class in it, or nil
	count  int
}

// bound returns what new nodes for the pods placed cost at least, whatever the plan: what they ask
// for in all, less what existing nodes they may use have left, at the best prices there are (packing.md).
// Spread, affinity and zones are left out, which makes it lower, never wrong.
func (m *model) bound(left []int) float64 {
	classes := m.demandClasses(left)
	if len(classes) == 0 {
		return 0
	}
	var lanes []int // that anything asks for
	for l := range m.view.Resources.Len() {
		if slices.ContainsFunc(classes, func(c *demandClass) bool { return c.demand[l] > 0 }) {
			lanes = append(lanes, l)
		}
	}
	options := m.options(classes, lanes)
	list := make([]lp.Class, len(classes))
	for i, c := range classes {
		for _, l := range lanes {
			list[i].Demand = append(list[i].Demand, c.demand[l])
		}
	}
	hosts := 0.0
	if len(m.nodes) == 0 {
		hosts = float64(m.leastHosts(left))
	}
	value, _ := lp.Bound(list, options, hosts, pivots)
	if len(classes) == 1 && classes[0].one != nil && hosts == 0 {
		value = max(value, m.boundAlike(classes[0], options, lanes))
	}
	return value
}

// boundAlike is exact for pods of one size.
func (m *model) boundAlike(c *demandClass, options []lp.Option, lanes []int) float64 {
	bins := make([]lp.Bin, len(options))
	for i, o := range options {
		n := c.count
		for r, l := range lanes {
			n = min(n, int(o.Room[r]/float64(c.one.req[l])))
		}
		bins[i] = lp.Bin{Pods: n, Cost: o.Cost}
	}
	cost, counts := lp.OneSize(bins, c.count)
	if counts == nil {
		return 0
	}
	return cost
}

func (m *model) demandClasses(left []int) []*demandClass {
	at := map[string]*demandClass{}
	var list []*demandClass
	var key []byte
	var needs []int
	for k := range m.classes {
		c := &m.classes[k]
		n := len(c.pods) - left[k]
		if n == 0 {
			continue
		}
		key, needs := key[:0], needs[:0]
		for _, r := range c.shape.Required {
			if id := m.intern(r); id >= 0 {
				needs = append(needs, id)
				key = binary.AppendVarint(key, int64(id))
			}
		}
		tol := m.tolerate(c.shape.Tolerations, true)
		key = binary.AppendVarint(append(key, 0xff), int64(tol))
		for l := 4; l < m.view.Resources.Len(); l++ {
			key = binary.AppendVarint(key, c.req[l])
		}
		d := at[string(key)]
		if d == nil {
			d = &demandClass{needs: slices.Clone(needs), tol: tol, demand: make([]float64, m.lanes), wants: make([]int64, m.lanes), one: c}
			copy(d.wants[4:m.view.Resources.Len()], c.req[4:])
			at[string(key)] = d
			list = append(list, d)
		} else {
			d.one = nil
		}
		d.count += n
		for l, v := range c.req[:m.view.Resources.Len()] { // claims may be shared: attachments are left out
			d.demand[l] += float64(n) * float64(v)
		}
	}
	if len(list) == 1 && list[0].one != nil {
		m.subtractExistingCapacity(list[0])
		return list
	}
	for _, d := range list {
		for i := range m.nodes {
			if n := &m.nodes[i]; m.couldUse(d, n) {
				for l, v := range n.free {
					d.demand[l] -= float64(max(0, v))
				}
			}
		}
		for l := range d.demand {
			d.demand[l] = max(0, d.demand[l])
		}
	}
	return list
}

// subtractExistingCapacity takes off what existing nodes could take of pods of one size: so many whole pods.
func (m *model) subtractExistingCapacity(d *demandClass) {
	for i := range m.nodes {
		if n := &m.nodes[i]; m.couldUse(d, n) {
			fit := d.count
			for l, v := range d.one.req[:m.view.Resources.Len()] {
				if v > 0 {
					fit = min(fit, int(max(0, n.free[l])/v))
				}
			}
			d.count -= fit
		}
	}
	for l, v := range d.one.req[:m.view.Resources.Len()] {
		d.demand[l] = float64(d.count) * float64(v)
	}
}

// couldUse reports whether an existing node could take any pod of a class: labels and taints allow it.
func (m *model) couldUse(d *demandClass, n *node) bool {
	if n.full || !m.tolerated(d.tol, n.taints) {
		return false
	}
	return len(d.needs) == 0 || slices.ContainsFunc(d.needs, func(id int) bool { return m.onNode(id, n.sign) })
}

// options are the kinds of nodes there are: a type of a pool at its best price for each capacity type.
func (m *model) options(classes []*demandClass, lanes []int) []lp.Option {
	words := (len(classes) + 63) / 64
	total := 0
	for i := range m.pools {
		total += m.pools[i].types.count() * len(m.catalogues[m.pools[i].catalogue].byCapacity())
	}
	out := make([]lp.Option, 0, total)
	rooms, may := make([]float64, total*len(lanes)), make([]uint64, total*words)
	for i := range m.pools {
		pl := &m.pools[i]
		cat := m.catalogues[pl.catalogue]
		users := m.users(classes, i)
		for t := pl.types.next(0); t >= 0 && len(users) > 0; t = pl.types.next(t + 1) {
			for _, cols := range cat.byCapacity() {
				price, col := cat.cheapest(t, cols.and(pl.cols))
				if col < 0 {
					continue
				}
				o := lp.Option{Cost: price, Room: rooms[:len(lanes):len(lanes)], May: may[:words:words]}
				rooms, may = rooms[len(lanes):], may[words:]
				for r, l := range lanes {
					o.Room[r] = float64(max(0, pl.rooms.room[t*m.lanes+l]))
				}
				for _, u := range users {
					if u.fit.types.has(t) && !u.fit.cols.and(cols).empty() && within(classes[u.class].wants, pl.rooms.room[t*m.lanes:(t+1)*m.lanes]) {
						o.May[u.class>>6] |= 1 << (u.class & 63)
					}
				}
				out = append(out, o)
			}
		}
	}
	return out
}

// user is a class that may have nodes of a pool, and which.
type user struct {
	class int
	fit   *fit
}

func (m *model) users(classes []*demandClass, poolID int) []user {
	var out []user
	for c, d := range classes {
		if !m.tolerated(d.tol, m.pools[poolID].taints) {
			continue
		}
		for _, id := range d.needs {
			if f := m.fits(id, poolID); f.ok {
				out = append(out, user{c, f})
			}
		}
	}
	return out
}

// byCapacity groups the columns by capacity type.
func (c *catalogue) byCapacity() []columns {
	if c.kinds != nil {
		return c.kinds
	}
	var names []string
	var out []columns
	for i := range c.cols {
		at := slices.Index(names, c.cols[i].capacity)
		if at < 0 {
			at = len(names)
			names, out = append(names, c.cols[i].capacity), append(out, columns{})
		}
		out[at].add(i)
	}
	c.kinds = out
	return out
}

// leastHosts is how many nodes the pods need that must all be apart.
func (m *model) leastHosts(left []int) int {
	count, most := make([]int, len(m.groups)), 0
	for k := range m.classes {
		c := &m.classes[k]
		if len(c.variants) == 0 || len(c.pods) == left[k] {
			continue
		}
		p := m.profiles[c.variants[0].profile]
		for _, r := range p.apart {
			if m.groups[r.group].host && r.self && r.required {
				count[r.group] += len(c.pods) - left[k]
				most = max(most, count[r.group])
			}
		}
	}
	return most
}
