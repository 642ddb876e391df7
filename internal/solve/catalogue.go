package solve

import (
	"cmp"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// unlimited is more of a resource than anyone asks for, and far from overflowing when added to.
const unlimited = math.MaxInt64 / 4

// catalogue is one list of instance types, as pools share them.
type catalogue struct {
	types  []item
	cols   []column
	price  []float64 // types × columns; +Inf where nothing can be launched
	weigh  []float64 // price and risk, the same way: what plans are compared by
	offer  []columns // by type: offerings, available or not
	avail  []columns // by type: available offerings
	out    []columns // by type: those that launches found no capacity for lately
	launch []columns // by type: those that can be launched now (V15-44)
	room   []int64   // types × lanes: allocatable, attachments included
	cap    []int64   // types × lanes: capacity, for limits
	keys   []keyIndex
	kinds  []columns           // by capacity type, once asked for
	orders map[columns][]int32 // types by price in some columns, as asked for
	twice  bool                // some name is there more than once: its offerings differ in size
	lanes  int
}

// item is an instance type, or the part of one whose offerings have a size of their own.
type item struct {
	it   *catalog.InstanceType
	size *catalog.Size
}

// column is one distinct (zone, capacity type, reservation) of offerings.
type column struct {
	labels      []label
	zone        string
	capacity    string
	reservation string
	reserved    int // position among the model's reservations, or -1
}

type label struct{ key, value string }

// keyIndex tells, for a key of the table, which types have which of its values.
type keyIndex struct {
	key     reqs.KeyID
	typed   bool  // some type says something about it
	free    set   // types that say nothing: anything goes
	absent  set   // types that do not have the label
	with    []set // by value
	columns bool  // some column has it
	colNone columns
	colWith []columns // by value
}

func sameTypes(a, b []catalog.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// offeringLabels are the labels that a node gets from the way it was bought, by key.
func offeringLabels(o *catalog.Offering) []label {
	list := append(make([]label, 0, 2+len(o.Labels)), label{karpv1.LabelCapacityType, o.CapacityType}, label{corev1.LabelTopologyZone, o.Zone})
	if len(o.Labels) == 0 {
		return list
	}
	for key, value := range o.Labels {
		list = append(list, label{key, value})
	}
	slices.SortFunc(list, func(a, b label) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value)) })
	return list
}

// reserve is a capacity reservation.
type reserve struct {
	id   string
	left int // the smallest count seen for the id (SC-45)
}

func (m *model) readCatalogues() {
	for i := range m.view.Pools {
		m.catalogueOf(i)
	}
	left := map[string]int{}
	for _, c := range m.catalogues {
		for _, t := range c.types {
			for i := range t.it.Offerings {
				o := &t.it.Offerings[i]
				if o.Reservation == "" || !o.Available {
					continue
				}
				if n, seen := left[o.Reservation]; !seen || o.Remaining < n {
					left[o.Reservation] = max(0, o.Remaining)
				}
			}
		}
	}
	for id, n := range left {
		m.reserves = append(m.reserves, reserve{id, n})
	}
	slices.SortFunc(m.reserves, func(a, b reserve) int { return cmp.Compare(a.id, b.id) })
	for _, c := range m.catalogues {
		for i := range c.cols {
			at, found := slices.BinarySearchFunc(m.reserves, c.cols[i].reservation, func(r reserve, id string) int { return cmp.Compare(r.id, id) })
			if found {
				c.cols[i].reserved = at
			}
		}
	}
}

// catalogueOf returns the catalogue of a pool of the view, building it if no earlier pool shares it.
func (m *model) catalogueOf(poolIndex int) int {
	types := m.view.Pools[poolIndex].Types
	for i, c := range m.catalogues {
		if sameSource(c, types) {
			return i
		}
	}
	m.catalogues = append(m.catalogues, m.newCatalogue(types))
	return len(m.catalogues) - 1
}

func sameSource(c *catalogue, types []catalog.InstanceType) bool {
	if len(types) == 0 || len(c.types) == 0 {
		return len(types) == len(c.types)
	}
	first := c.types[0].it
	for i := range types { // sorted: the first item is one of these
		if &types[i] == first {
			return true
		}
	}
	return false
}

func (m *model) newCatalogue(types []catalog.InstanceType) *catalogue {
	c := &catalogue{lanes: m.lanes}
	for i := range types {
		c.types = append(c.types, item{it: &types[i]})
		for o := range types[i].Offerings {
			if size := types[i].Offerings[o].Size; size != nil {
				c.types = append(c.types, item{it: &types[i], size: size})
			}
		}
	}
	// The order of the input must not show in the plan.
	slices.SortStableFunc(c.types, func(a, b item) int { return cmp.Compare(a.it.Name, b.it.Name) })
	for i := 1; i < len(c.types); i++ {
		c.twice = c.twice || c.types[i].it.Name == c.types[i-1].it.Name
	}
	keys := c.columnKeys()
	c.readColumns(keys)
	n := len(c.types)
	c.price = slices.Repeat([]float64{math.Inf(1)}, n*len(c.cols))
	c.weigh = slices.Clone(c.price)
	c.offer, c.avail, c.out, c.launch = make([]columns, n), make([]columns, n), make([]columns, n), make([]columns, n)
	c.room, c.cap = make([]int64, n*m.lanes), make([]int64, n*m.lanes)
	at := c.columnIDs()
	for t := range c.types {
		m.readType(c, t, at, keys[t])
	}
	for k := range m.table.Len() {
		c.keys = append(c.keys, c.indexKey(reqs.KeyID(k), m.table))
	}
	return c
}

func (m *model) readType(c *catalogue, t int, at map[string]int, keys []string) {
	it, size := c.types[t].it, c.types[t].size
	capacity, room := it.Capacity, it.Allocatable()
	if size != nil {
		capacity, room = size.Capacity, size.Allocatable()
	}
	base := m.view.Resources.Len()
	for l := range base {
		c.room[t*m.lanes+l], c.cap[t*m.lanes+l] = room.At(l), capacity.At(l)
	}
	for d, driver := range m.drivers {
		c.room[t*m.lanes+base+d] = unlimited
		if limit, declared := it.VolumeLimits[driver]; declared {
			c.room[t*m.lanes+base+d] = int64(limit)
		}
	}
	for i := range it.Offerings {
		o := &it.Offerings[i]
		if o.Size != size {
			continue
		}
		col, known := at[keys[i]]
		if !known {
			continue
		}
		c.offer[t].add(col)
		if o.Out {
			c.out[t].add(col)
		}
		if !o.Available {
			continue
		}
		c.avail[t].add(col)
		if o.Launchable() {
			c.launch[t].add(col)
			price := o.Price
			if math.IsNaN(price) || price < 0 {
				price = 0
			}
			c.price[t*len(c.cols)+col] = min(c.price[t*len(c.cols)+col], price)
			if risk := o.Risk; risk > 0 && !math.IsInf(risk, 1) {
				price += risk
			}
			c.weigh[t*len(c.cols)+col] = min(c.weigh[t*len(c.cols)+col], price)
		}
	}
}

// columnKeys are the columns of the offerings of each type, as text.
func (c *catalogue) columnKeys() [][]string {
	keys := make([][]string, len(c.types))
	for t := range c.types {
		offerings := c.types[t].it.Offerings
		keys[t] = make([]string, len(offerings))
		for i := range offerings {
			keys[t][i] = columnKey(offeringLabels(&offerings[i]), offerings[i].Reservation)
		}
	}
	return keys
}

func columnKey(labels []label, reservation string) string {
	size := len(reservation) + 1
	for _, l := range labels {
		size += len(l.key) + len(l.value) + 2
	}
	var b strings.Builder
	b.Grow(size)
	for _, l := range labels {
		appendKey(&b, l.key, l.value)
	}
	appendKey(&b, reservation)
	return b.String()
}

// readColumns collects the columns: those without a reservation first, so that a flood of
// reservations never hides ordinary capacity.
func (c *catalogue) readColumns(keys [][]string) {
	seen := map[string]bool{}
	for t := range c.types {
		for i, key := range keys[t] {
			if seen[key] {
				continue
			}
			seen[key] = true
			o := &c.types[t].it.Offerings[i]
			c.cols = append(c.cols, column{labels: offeringLabels(o), zone: o.Zone, capacity: o.CapacityType, reservation: o.Reservation, reserved: -1})
		}
	}
	slices.SortFunc(c.cols, func(a, b column) int {
		return cmp.Or(cmp.Compare(a.reservation, b.reservation), cmp.Compare(a.capacity, b.capacity), cmp.Compare(a.zone, b.zone),
			slices.CompareFunc(a.labels, b.labels, func(x, y label) int {
				return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.value, y.value))
			}))
	})
	if len(c.cols) > maxColumns {
		c.cols = c.cols[:maxColumns]
	}
}

func (c *catalogue) columnIDs() map[string]int {
	at := make(map[string]int, len(c.cols))
	for i := range c.cols {
		at[columnKey(c.cols[i].labels, c.cols[i].reservation)] = i
	}
	return at
}

func (c *catalogue) indexKey(k reqs.KeyID, table *reqs.Table) keyIndex {
	x := keyIndex{key: k}
	name, values := table.KeyName(k), table.ValueCount(k)
	for i := range c.cols {
		at := slices.IndexFunc(c.cols[i].labels, func(l label) bool { return l.key == name })
		if at < 0 {
			x.colNone.add(i)
			continue
		}
		if !x.columns {
			x.columns, x.colWith = true, make([]columns, values)
		}
		if v, known := table.Value(k, c.cols[i].labels[at].value); known {
			x.colWith[v].add(i)
		}
	}
	if x.columns {
		return x
	}
	for t := range c.types {
		r, says := c.types[t].it.Labels[name]
		if !says {
			continue
		}
		if !x.typed {
			n := len(c.types)
			x.typed, x.free, x.absent, x.with = true, fullSet(n), newSet(n), make([]set, values)
		}
		x.free.drop(t)
		if r.Empty() {
			x.absent.add(t)
		}
		for _, value := range r.Values {
			if v, known := table.Value(k, value); known {
				if x.with[v] == nil {
					x.with[v] = newSet(len(c.types))
				}
				x.with[v].add(t)
			}
		}
	}
	return x
}

// leave returns the types and columns that a row of requirements leaves.
func (c *catalogue) leave(row reqs.Row) *masks {
	left := &masks{types: fullSet(len(c.types))}
	for i := range c.cols {
		left.cols.add(i)
	}
	for i := range c.keys {
		x := &c.keys[i]
		if !row.Defined(x.key) || !x.typed && !x.columns {
			continue
		}
		op := row.Operator(x.key)
		negative := op == corev1.NodeSelectorOpNotIn || op == corev1.NodeSelectorOpDoesNotExist
		if x.columns {
			var ok columns
			if negative {
				ok = x.colNone
			}
			for v := range x.colWith {
				if row.Allows(x.key, reqs.ValueID(v)) {
					ok = ok.or(x.colWith[v])
				}
			}
			left.cols = left.cols.and(ok)
			continue
		}
		ok := x.free.clone()
		if negative {
			ok.or(x.absent)
		}
		for v, with := range x.with {
			if with != nil && row.Allows(x.key, reqs.ValueID(v)) {
				ok.or(with)
			}
		}
		left.types.and(ok)
	}
	return left
}

// cheapest returns the cheapest way to buy a type in some columns, +Inf and -1 if there is none. A
// reserved offering wins over spot, and spot over on-demand, where prices are equal.
func (c *catalogue) cheapest(t int, cols columns) (float64, int) {
	best, at := math.Inf(1), -1
	left := c.launch[t].and(cols)
	for i := left.next(0); i >= 0; i = left.next(i + 1) {
		if p := c.price[t*len(c.cols)+i]; p < best || at >= 0 && p == best && rank(c.cols[i].capacity) < rank(c.cols[at].capacity) {
			best, at = p, i
		}
	}
	return best, at
}

// order returns the types that can be launched in some columns, cheapest first, then by name.
func (c *catalogue) order(cols columns) []int32 {
	if list, known := c.orders[cols]; known {
		return list
	}
	var list []int32
	price := make([]float64, len(c.types))
	for t := range c.types {
		if p, at := c.cheapest(t, cols); at >= 0 {
			price[t] = p
			list = append(list, int32(t))
		}
	}
	slices.SortFunc(list, func(a, b int32) int { return cmp.Or(cmp.Compare(price[a], price[b]), cmp.Compare(a, b)) })
	if c.orders == nil {
		c.orders = map[columns][]int32{}
	}
	c.orders[cols] = list
	return list
}

// lightest returns the least that a type counts in some columns, risk included, and +Inf if it cannot
// be bought there.
func (c *catalogue) lightest(t int, cols columns) float64 {
	best := math.Inf(1)
	left := c.launch[t].and(cols)
	for i := left.next(0); i >= 0; i = left.next(i + 1) {
		best = min(best, c.weigh[t*len(c.cols)+i])
	}
	return best
}

// rank is the order in which capacity types are launched (SC-47).
func rank(capacityType string) int {
	switch capacityType {
	case karpv1.CapacityTypeReserved:
		return 0
	case karpv1.CapacityTypeSpot:
		return 1
	}
	return 2
}

// flat writes a vector into lanes.
func flat(dst []int64, v resources.Vec, lanes int) {
	for l := range lanes {
		dst[l] = v.At(l)
	}
}
