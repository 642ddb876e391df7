package bound

import (
	"encoding/binary"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/lp"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// maxPivots bounds the work on the lower bound; programs of a hundred pools take about a thousand.
const maxPivots = 10000

// demandClass is the pods that may be on the same kinds of nodes.
type demandClass struct {
	needs  []int // alternatives
	tol    int
	scarce []int64 // of resources that not every node has
	demand []float64
	only   *model.Class // the only class in it, or nil
	count  int
}

// Of returns what new nodes for the pods placed cost at least, whatever the plan: what they
// request in total, less what existing nodes they may use have left, at the best prices there are (packing.md).
// Spread, affinity and zones are left out, which makes it lower, never wrong.
func Of(m *model.Model, left []int) float64 {
	classes := demandClasses(m, left)
	if len(classes) == 0 {
		return 0
	}
	var lanes []int // that anything requests
	for l := range m.View.Resources.Len() {
		if slices.ContainsFunc(classes, func(c *demandClass) bool { return c.demand[l] > 0 }) {
			lanes = append(lanes, l)
		}
	}
	options := options(m, classes, lanes)
	list := make([]lp.Class, len(classes))
	for i, c := range classes {
		for _, l := range lanes {
			list[i].Demand = append(list[i].Demand, c.demand[l])
		}
	}
	hosts := 0.0
	if len(m.Nodes) == 0 {
		hosts = float64(leastHosts(m, left))
	}
	value, _ := lp.Bound(list, options, hosts, maxPivots)
	if len(classes) == 1 && classes[0].only != nil && hosts == 0 {
		value = max(value, boundOneSize(classes[0], options, lanes))
	}
	return value
}

// boundOneSize is exact for pods of one size.
func boundOneSize(c *demandClass, options []lp.Option, lanes []int) float64 {
	bins := make([]lp.Bin, len(options))
	for i, o := range options {
		n := c.count
		for r, l := range lanes {
			n = min(n, int(o.Room[r]/float64(c.only.Requests[l])))
		}
		bins[i] = lp.Bin{Pods: n, Cost: o.Cost}
	}
	cost, counts := lp.OneSize(bins, c.count)
	if counts == nil {
		return 0
	}
	return cost
}

func demandClasses(m *model.Model, left []int) []*demandClass {
	at := map[string]*demandClass{}
	var list []*demandClass
	var key []byte
	var needs []int
	for k := range m.Classes {
		c := &m.Classes[k]
		n := len(c.Pods) - left[k]
		if n == 0 {
			continue
		}
		key, needs := key[:0], needs[:0]
		for _, r := range c.Shape.Required {
			if id := m.InternNeed(r); id >= 0 {
				needs = append(needs, id)
				key = binary.AppendVarint(key, int64(id))
			}
		}
		tol := m.InternTolerations(c.Shape.Tolerations, true)
		key = binary.AppendVarint(append(key, 0xff), int64(tol))
		for l := 4; l < m.View.Resources.Len(); l++ {
			key = binary.AppendVarint(key, c.Requests[l])
		}
		d := at[string(key)]
		if d == nil {
			d = &demandClass{needs: slices.Clone(needs), tol: tol, demand: make([]float64, m.Lanes), scarce: make([]int64, m.Lanes), only: c}
			copy(d.scarce[4:m.View.Resources.Len()], c.Requests[4:])
			at[string(key)] = d
			list = append(list, d)
		} else {
			d.only = nil
		}
		d.count += n
		for l, v := range c.Requests[:m.View.Resources.Len()] { // claims may be shared: attachments are left out
			d.demand[l] += float64(n) * float64(v)
		}
	}
	if len(list) == 1 && list[0].only != nil {
		subtractExistingCapacity(m, list[0])
		return list
	}
	for _, d := range list {
		for i := range m.Nodes {
			if n := &m.Nodes[i]; couldUse(m, d, n) {
				for l, v := range n.Free {
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
func subtractExistingCapacity(m *model.Model, d *demandClass) {
	for i := range m.Nodes {
		if n := &m.Nodes[i]; couldUse(m, d, n) {
			fit := d.count
			for l, v := range d.only.Requests[:m.View.Resources.Len()] {
				if v > 0 {
					fit = min(fit, int(max(0, n.Free[l])/v))
				}
			}
			d.count -= fit
		}
	}
	for l, v := range d.only.Requests[:m.View.Resources.Len()] {
		d.demand[l] = float64(d.count) * float64(v)
	}
}

// couldUse reports whether an existing node could take any pod of a class: labels and taints allow it.
func couldUse(m *model.Model, d *demandClass, n *model.Node) bool {
	if n.Full || !m.Tolerated(d.tol, n.Taints) {
		return false
	}
	return len(d.needs) == 0 || slices.ContainsFunc(d.needs, func(id int) bool { return m.NodeMeets(id, n.Signature) })
}

// options are the kinds of nodes there are: a type of a pool at its best price for each capacity type.
func options(m *model.Model, classes []*demandClass, lanes []int) []lp.Option {
	words := (len(classes) + 63) / 64
	total := 0
	for i := range m.Pools {
		total += m.Pools[i].Types.Count() * len(m.Catalogues[m.Pools[i].Catalogue].ColumnsByCapacityType())
	}
	out := make([]lp.Option, 0, total)
	rooms, may := make([]float64, total*len(lanes)), make([]uint64, total*words)
	for i := range m.Pools {
		pl := &m.Pools[i]
		cat := m.Catalogues[pl.Catalogue]
		users := users(m, classes, i)
		for t := pl.Types.Next(0); t >= 0 && len(users) > 0; t = pl.Types.Next(t + 1) {
			for _, cols := range cat.ColumnsByCapacityType() {
				price, col := cat.Cheapest(t, cols.And(pl.Columns))
				if col < 0 {
					continue
				}
				o := lp.Option{Cost: price, Room: rooms[:len(lanes):len(lanes)], May: may[:words:words]}
				rooms, may = rooms[len(lanes):], may[words:]
				for r, l := range lanes {
					o.Room[r] = float64(max(0, pl.Capacity.Allocatable[t*m.Lanes+l]))
				}
				for _, u := range users {
					if u.fit.Types.Has(t) && !u.fit.Columns.And(cols).Empty() && model.FitsWithin(classes[u.class].scarce, pl.Capacity.Allocatable[t*m.Lanes:(t+1)*m.Lanes]) {
						o.May[u.class>>6] |= 1 << (u.class & 63)
					}
				}
				out = append(out, o)
			}
		}
	}
	return out
}

// userClass is a class that may have nodes of a pool, and which.
type userClass struct {
	class int
	fit   *model.PoolFit
}

func users(m *model.Model, classes []*demandClass, poolID int) []userClass {
	var out []userClass
	for c, d := range classes {
		if !m.Tolerated(d.tol, m.Pools[poolID].Taints) {
			continue
		}
		for _, id := range d.needs {
			if f := m.FitPool(id, poolID); f.OK {
				out = append(out, userClass{c, f})
			}
		}
	}
	return out
}

// leastHosts is how many nodes the pods need that must all be apart.
func leastHosts(m *model.Model, left []int) int {
	count, most := make([]int, len(m.Groups)), 0
	for k := range m.Classes {
		c := &m.Classes[k]
		if len(c.Variants) == 0 || len(c.Pods) == left[k] {
			continue
		}
		p := m.Profiles[c.Variants[0].Profile]
		for _, r := range p.AntiAffinity {
			if m.Groups[r.Group].PerHost && r.Self && r.Required {
				count[r.Group] += len(c.Pods) - left[k]
				most = max(most, count[r.Group])
			}
		}
	}
	return most
}
