package model

import (
	"cmp"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
)

// Catalogue is a list of instance types. Pools with equal lists share one.
type Catalogue struct {
	Types          []TypeEntry
	Columns        []Column
	Price          []float64        // types × columns; +Inf where nothing can be launched
	priceWithRisk  []float64        // types × columns: price and risk, by which plans are compared
	Offered        []bitset.Columns // by type: offerings, available or not
	Available      []bitset.Columns // by type: available offerings
	Unavailable    []bitset.Columns // by type: offerings for which launches recently had insufficient capacity
	Launchable     []bitset.Columns // by type: those that can be launched now (V15-44)
	Allocatable    []int64          // types × lanes: allocatable, attachments included
	Capacity       []int64          // types × lanes: capacity, for limits
	Keys           []KeyIndex
	byCapacityType []bitset.Columns           // by capacity type; computed on first use
	byPrice        map[bitset.Columns][]int32 // types by price in some columns; filled on demand
	HasSizes       bool                       // some name is there more than once: its offerings differ in size
}

// TypeEntry is an instance type, or the part of one whose offerings have a size of their own.
type TypeEntry struct {
	InstanceType *catalog.InstanceType
	size         *catalog.Size
}

// Column is one distinct (zone, capacity type, reservation) of offerings.
type Column struct {
	Labels      []Label
	Zone        string
	Capacity    string
	Reservation string
	Reserved    int // position among the model's reservations, or -1
}

// Label is a key and its value.
type Label struct{ Key, Value string }

// KeyIndex says, for a key of the table, which types have which of its values.
type KeyIndex struct {
	key              reqs.KeyID
	ByType           bool         // some type specifies the label
	TypesUnspecified bitset.Set   // types that do not specify the label: they match any value
	TypesWithout     bitset.Set   // types that do not have the label
	TypesWith        []bitset.Set // by value
	ByOffering       bool         // some column has the label
	ColumnsWithout   bitset.Columns
	ColumnsWith      []bitset.Columns // by value
}

func sameTypes(a, b []catalog.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// OfferingLabels are the labels that a node gets from the offering it is launched as, by key.
func OfferingLabels(o *catalog.Offering) []Label {
	list := append(make([]Label, 0, 2+len(o.Labels)), Label{karpv1.LabelCapacityType, o.CapacityType}, Label{corev1.LabelTopologyZone, o.Zone})
	if len(o.Labels) == 0 {
		return list
	}
	for key, value := range o.Labels {
		list = append(list, Label{key, value})
	}
	slices.SortFunc(list, func(a, b Label) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value)) })
	return list
}

// Reservation is a capacity reservation.
type Reservation struct {
	ID   string
	Left int // the smallest count seen for the id (SC-45)
}

func (m *Model) readCatalogues() {
	for i := range m.View.Pools {
		m.catalogueOf(i)
	}
	left := map[string]int{}
	for _, c := range m.Catalogues {
		for _, t := range c.Types {
			for i := range t.InstanceType.Offerings {
				o := &t.InstanceType.Offerings[i]
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
		m.Reservations = append(m.Reservations, Reservation{id, n})
	}
	slices.SortFunc(m.Reservations, func(a, b Reservation) int { return cmp.Compare(a.ID, b.ID) })
	for _, c := range m.Catalogues {
		for i := range c.Columns {
			at, found := slices.BinarySearchFunc(m.Reservations, c.Columns[i].Reservation, func(r Reservation, id string) int { return cmp.Compare(r.ID, id) })
			if found {
				c.Columns[i].Reserved = at
			}
		}
	}
}

// catalogueOf returns the catalogue of a pool of the view, building it if no earlier pool shares it.
func (m *Model) catalogueOf(poolIndex int) int {
	types := m.View.Pools[poolIndex].Types
	for i, c := range m.Catalogues {
		if sameSource(c, types) {
			return i
		}
	}
	m.Catalogues = append(m.Catalogues, m.newCatalogue(types))
	return len(m.Catalogues) - 1
}

func sameSource(c *Catalogue, types []catalog.InstanceType) bool {
	if len(types) == 0 || len(c.Types) == 0 {
		return len(types) == len(c.Types)
	}
	first := c.Types[0].InstanceType
	for i := range types { // sorted: the first item is one of these
		if &types[i] == first {
			return true
		}
	}
	return false
}

func (m *Model) newCatalogue(types []catalog.InstanceType) *Catalogue {
	c := &Catalogue{}
	for i := range types {
		c.Types = append(c.Types, TypeEntry{InstanceType: &types[i]})
		for o := range types[i].Offerings {
			if size := types[i].Offerings[o].Size; size != nil {
				c.Types = append(c.Types, TypeEntry{InstanceType: &types[i], size: size})
			}
		}
	}
	// The plan must not depend on the order of the input.
	slices.SortStableFunc(c.Types, func(a, b TypeEntry) int { return cmp.Compare(a.InstanceType.Name, b.InstanceType.Name) })
	for i := 1; i < len(c.Types); i++ {
		c.HasSizes = c.HasSizes || c.Types[i].InstanceType.Name == c.Types[i-1].InstanceType.Name
	}
	keys := c.columnKeys()
	c.readColumns(keys)
	n := len(c.Types)
	c.Price = slices.Repeat([]float64{math.Inf(1)}, n*len(c.Columns))
	c.priceWithRisk = slices.Clone(c.Price)
	c.Offered, c.Available, c.Unavailable, c.Launchable = make([]bitset.Columns, n), make([]bitset.Columns, n), make([]bitset.Columns, n), make([]bitset.Columns, n)
	c.Allocatable, c.Capacity = make([]int64, n*m.Lanes), make([]int64, n*m.Lanes)
	at := c.columnIDs()
	for t := range c.Types {
		m.readType(c, t, at, keys[t])
	}
	for k := range m.Table.Len() {
		c.Keys = append(c.Keys, c.indexKey(reqs.KeyID(k), m.Table))
	}
	return c
}

func (m *Model) readType(c *Catalogue, t int, at map[string]int, keys []string) {
	it, size := c.Types[t].InstanceType, c.Types[t].size
	capacity, allocatable := it.Capacity, it.Allocatable()
	if size != nil {
		capacity, allocatable = size.Capacity, size.Allocatable()
	}
	base := m.View.Resources.Len()
	for l := range base {
		c.Allocatable[t*m.Lanes+l], c.Capacity[t*m.Lanes+l] = allocatable.At(l), capacity.At(l)
	}
	for d, driver := range m.Drivers {
		c.Allocatable[t*m.Lanes+base+d] = Unlimited
		if limit, declared := it.VolumeLimits[driver]; declared {
			c.Allocatable[t*m.Lanes+base+d] = int64(limit)
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
		c.Offered[t].Add(col)
		if o.Out {
			c.Unavailable[t].Add(col)
		}
		if !o.Available {
			continue
		}
		c.Available[t].Add(col)
		if o.Launchable() {
			c.Launchable[t].Add(col)
			price := o.Price
			if math.IsNaN(price) || price < 0 {
				price = 0
			}
			c.Price[t*len(c.Columns)+col] = min(c.Price[t*len(c.Columns)+col], price)
			if risk := o.Risk; risk > 0 && !math.IsInf(risk, 1) {
				price += risk
			}
			c.priceWithRisk[t*len(c.Columns)+col] = min(c.priceWithRisk[t*len(c.Columns)+col], price)
		}
	}
}

// columnKeys returns the columns of the offerings of each type, as text.
func (c *Catalogue) columnKeys() [][]string {
	keys := make([][]string, len(c.Types))
	for t := range c.Types {
		offerings := c.Types[t].InstanceType.Offerings
		keys[t] = make([]string, len(offerings))
		for i := range offerings {
			keys[t][i] = columnKey(OfferingLabels(&offerings[i]), offerings[i].Reservation)
		}
	}
	return keys
}

func columnKey(labels []Label, reservation string) string {
	size := len(reservation) + 1
	for _, l := range labels {
		size += len(l.Key) + len(l.Value) + 2
	}
	var b strings.Builder
	b.Grow(size)
	for _, l := range labels {
		AppendKey(&b, l.Key, l.Value)
	}
	AppendKey(&b, reservation)
	return b.String()
}

// readColumns collects the columns. Those without a reservation come first, so that many reservations never crowd out
// ordinary capacity.
func (c *Catalogue) readColumns(keys [][]string) {
	seen := map[string]bool{}
	for t := range c.Types {
		for i, key := range keys[t] {
			if seen[key] {
				continue
			}
			seen[key] = true
			o := &c.Types[t].InstanceType.Offerings[i]
			c.Columns = append(c.Columns, Column{Labels: OfferingLabels(o), Zone: o.Zone, Capacity: o.CapacityType, Reservation: o.Reservation, Reserved: -1})
		}
	}
	slices.SortFunc(c.Columns, func(a, b Column) int {
		return cmp.Or(cmp.Compare(a.Reservation, b.Reservation), cmp.Compare(a.Capacity, b.Capacity), cmp.Compare(a.Zone, b.Zone),
			slices.CompareFunc(a.Labels, b.Labels, func(x, y Label) int {
				return cmp.Or(cmp.Compare(x.Key, y.Key), cmp.Compare(x.Value, y.Value))
			}))
	})
	if len(c.Columns) > bitset.MaxColumns {
		c.Columns = c.Columns[:bitset.MaxColumns]
	}
}

func (c *Catalogue) columnIDs() map[string]int {
	at := make(map[string]int, len(c.Columns))
	for i := range c.Columns {
		at[columnKey(c.Columns[i].Labels, c.Columns[i].Reservation)] = i
	}
	return at
}

func (c *Catalogue) indexKey(k reqs.KeyID, table *reqs.Table) KeyIndex {
	x := KeyIndex{key: k}
	name, values := table.KeyName(k), table.ValueCount(k)
	for i := range c.Columns {
		at := slices.IndexFunc(c.Columns[i].Labels, func(l Label) bool { return l.Key == name })
		if at < 0 {
			x.ColumnsWithout.Add(i)
			continue
		}
		if !x.ByOffering {
			x.ByOffering, x.ColumnsWith = true, make([]bitset.Columns, values)
		}
		if v, known := table.Value(k, c.Columns[i].Labels[at].Value); known {
			x.ColumnsWith[v].Add(i)
		}
	}
	if x.ByOffering {
		return x
	}
	for t := range c.Types {
		r, says := c.Types[t].InstanceType.Labels[name]
		if !says {
			continue
		}
		if !x.ByType {
			n := len(c.Types)
			x.ByType, x.TypesUnspecified, x.TypesWithout, x.TypesWith = true, bitset.NewFullSet(n), bitset.NewSet(n), make([]bitset.Set, values)
		}
		x.TypesUnspecified.Remove(t)
		if r.Empty() {
			x.TypesWithout.Add(t)
		}
		for _, value := range r.Values {
			if v, known := table.Value(k, value); known {
				if x.TypesWith[v] == nil {
					x.TypesWith[v] = bitset.NewSet(len(c.Types))
				}
				x.TypesWith[v].Add(t)
			}
		}
	}
	return x
}

// Filter returns the types and columns that a row of requirements leaves.
func (c *Catalogue) Filter(row reqs.Row) *Masks {
	left := &Masks{Types: bitset.NewFullSet(len(c.Types))}
	for i := range c.Columns {
		left.Columns.Add(i)
	}
	for i := range c.Keys {
		x := &c.Keys[i]
		if !row.Defined(x.key) || !x.ByType && !x.ByOffering {
			continue
		}
		op := row.Operator(x.key)
		negative := op == corev1.NodeSelectorOpNotIn || op == corev1.NodeSelectorOpDoesNotExist
		if x.ByOffering {
			var ok bitset.Columns
			if negative {
				ok = x.ColumnsWithout
			}
			for v := range x.ColumnsWith {
				if row.Allows(x.key, reqs.ValueID(v)) {
					ok = ok.Or(x.ColumnsWith[v])
				}
			}
			left.Columns = left.Columns.And(ok)
			continue
		}
		ok := x.TypesUnspecified.Clone()
		if negative {
			ok.Or(x.TypesWithout)
		}
		for v, with := range x.TypesWith {
			if with != nil && row.Allows(x.key, reqs.ValueID(v)) {
				ok.Or(with)
			}
		}
		left.Types.And(ok)
	}
	return left
}

// Named lists the types with some names, in the order of the catalogue.
func (c *Catalogue) Named(names []string) []int {
	listed := make(map[string]bool, len(names))
	for _, name := range names {
		listed[name] = true
	}
	var out []int
	for t := range c.Types {
		if listed[c.Types[t].InstanceType.Name] {
			out = append(out, t)
		}
	}
	return out
}

// Cheapest returns the lowest price of a type in some columns and its column, +Inf and -1 if there is none. Where
// prices are equal, a reserved offering wins over spot, and spot over on-demand.
func (c *Catalogue) Cheapest(t int, cols bitset.Columns) (float64, int) {
	best, at := math.Inf(1), -1
	left := c.Launchable[t].And(cols)
	for i := left.Next(0); i >= 0; i = left.Next(i + 1) {
		if p := c.Price[t*len(c.Columns)+i]; p < best || at >= 0 && p == best && launchRank(c.Columns[i].Capacity) < launchRank(c.Columns[at].Capacity) {
			best, at = p, i
		}
	}
	return best, at
}

// TypesByPrice returns the types that can be launched in some columns, cheapest first, then by name.
func (c *Catalogue) TypesByPrice(cols bitset.Columns) []int32 {
	if list, known := c.byPrice[cols]; known {
		return list
	}
	var list []int32
	price := make([]float64, len(c.Types))
	for t := range c.Types {
		if p, at := c.Cheapest(t, cols); at >= 0 {
			price[t] = p
			list = append(list, int32(t))
		}
	}
	slices.SortFunc(list, func(a, b int32) int { return cmp.Or(cmp.Compare(price[a], price[b]), cmp.Compare(a, b)) })
	if c.byPrice == nil {
		c.byPrice = map[bitset.Columns][]int32{}
	}
	c.byPrice[cols] = list
	return list
}

// CheapestWithRisk returns the lowest price of a type in some columns, risk included, and +Inf if it cannot be
// launched there.
func (c *Catalogue) CheapestWithRisk(t int, cols bitset.Columns) float64 {
	best := math.Inf(1)
	left := c.Launchable[t].And(cols)
	for i := left.Next(0); i >= 0; i = left.Next(i + 1) {
		best = min(best, c.priceWithRisk[t*len(c.Columns)+i])
	}
	return best
}

// launchRank is the order in which capacity types are launched (SC-47).
func launchRank(capacityType string) int {
	switch capacityType {
	case karpv1.CapacityTypeReserved:
		return 0
	case karpv1.CapacityTypeSpot:
		return 1
	}
	return 2
}

// ColumnsByCapacityType groups the columns by capacity type.
func (c *Catalogue) ColumnsByCapacityType() []bitset.Columns {
	if c.byCapacityType != nil {
		return c.byCapacityType
	}
	var names []string
	var out []bitset.Columns
	for i := range c.Columns {
		at := slices.Index(names, c.Columns[i].Capacity)
		if at < 0 {
			at = len(names)
			names, out = append(names, c.Columns[i].Capacity), append(out, bitset.Columns{})
		}
		out[at].Add(i)
	}
	c.byCapacityType = out
	return out
}

// ExcludesLabel reports whether requirements that list the labels of some columns rule a label out.
func (c *Catalogue) ExcludesLabel(cols bitset.Columns, l Label) bool {
	listed := false
	for i := cols.Next(0); i >= 0; i = cols.Next(i + 1) {
		for _, o := range c.Columns[i].Labels {
			if o == l {
				return false
			}
			listed = listed || o.Key == l.Key
		}
	}
	return listed
}

// ColumnsAllowedBy returns the columns that requirements allow, and the reservations among them.
func (c *Catalogue) ColumnsAllowedBy(needs reqs.Set) (cols bitset.Columns, held []int) {
	for i := range c.Columns {
		if slices.ContainsFunc(c.Columns[i].Labels, func(l Label) bool { return !needs.Allows(l.Key, l.Value) }) {
			continue
		}
		cols.Add(i)
		if id := c.Columns[i].Reserved; id >= 0 {
			held = append(held, id)
		}
	}
	return cols, held
}
