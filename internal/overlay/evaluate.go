package overlay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Reasons why an overlay is not applied, as its condition has them.
const (
	Conflict          = "Conflict"
	RuntimeValidation = "RuntimeValidation"
)

// Verdict says whether an overlay is applied. If it is not, nothing of it is.
type Verdict struct {
	Name    string
	Reason  string // empty: it is applied
	Message string // why it is not applied, or why it changes nothing although it is
}

// Set is the overlays that are applied. It does not change, and may be shared. The zero Set is empty.
type Set struct {
	overlays []Overlay // in the order in which they win
	words    reqs.Vocabulary
	table    resources.Table
	keys     []string // labels that the overlays require something of
	previews map[string]float64
}

// Len is the number of overlays that are applied.
func (s *Set) Len() int { return len(s.overlays) }

// Table has a lane for every resource of every overlay. Vectors of Apply are written with it.
func (s *Set) Table() resources.Table { return s.table }

// Previews are the prices of overlays that do nothing but price some instance types, by type. The cloud uses them for
// types that have no price of its own; they hold for all NodePools.
func (s *Set) Previews() map[string]float64 { return s.previews }

// Evaluate decides which overlays are applied to the instance types of these pools. They are taken by weight, the
// highest first, and then by name, the last first. An overlay that sets what an earlier one of the same weight sets is
// rejected as a whole. The verdicts are in the order of the objects. table has a lane for each of ResourceNames.
func Evaluate(objects []v1alpha1.NodeOverlay, pools []Pool, table resources.Table, words reqs.Vocabulary) (*Set, []Verdict) {
	verdicts := make([]Verdict, len(objects))
	order := make([]int, len(objects))
	for i := range objects {
		order[i], verdicts[i].Name = i, objects[i].Name
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(weightOf(&objects[b]), weightOf(&objects[a])), cmp.Compare(objects[b].Name, objects[a].Name))
	})
	set := &Set{words: words, table: table}
	all := make([]Overlay, len(objects))
	for i := range objects {
		var err error
		if all[i], err = Read(&objects[i], words); err != nil {
			verdicts[i].Reason, verdicts[i].Message = RuntimeValidation, err.Error()
		}
	}
	set.keys = keysOf(all)
	claims := newClaims(set.distinct(pools), table, words)
	for _, i := range order {
		if verdicts[i].Reason != "" {
			continue
		}
		conflict, matched := claims.take(&all[i])
		if conflict != "" {
			verdicts[i].Reason, verdicts[i].Message = Conflict, conflict
			continue
		}
		set.overlays = append(set.overlays, all[i])
		if priced := set.addPreview(&objects[i], &all[i]); !priced && !matched {
			verdicts[i].Message = claims.unmatched(&all[i])
		}
	}
	return set, verdicts
}

// distinct leaves out pools that overlays cannot distinguish from others before them.
func (s *Set) distinct(pools []Pool) []Pool {
	type key struct {
		list  *catalog.InstanceType
		n     int
		scope string
	}
	seen := map[key]bool{}
	var out []Pool
	for _, p := range pools {
		if len(p.Types) == 0 {
			continue
		}
		k := key{&p.Types[0], len(p.Types), s.Scope(p.Name, p.Labels)}
		if !seen[k] {
			seen[k], out = true, append(out, p)
		}
	}
	return out
}

func weightOf(o *v1alpha1.NodeOverlay) int32 {
	if o.Spec.Weight == nil {
		return 0
	}
	return *o.Spec.Weight
}

// addPreview reports whether an overlay prices instance types whatever NodePools can launch.
func (s *Set) addPreview(object *v1alpha1.NodeOverlay, o *Overlay) bool {
	types, usd := preview(object, o)
	for _, name := range types {
		if _, taken := s.previews[name]; taken {
			continue
		}
		if s.previews == nil {
			s.previews = map[string]float64{}
		}
		s.previews[name] = usd
	}
	return len(types) > 0
}

func keysOf(overlays []Overlay) []string {
	keys := map[string]bool{}
	for i := range overlays {
		for j := range overlays[i].needs {
			keys[overlays[i].needs[j].key] = true
		}
	}
	out := make([]string, 0, len(keys))
	for key := range keys { // any order: sorted below
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// claims is what the overlays of one weight have set already.
type claims struct {
	weight int32
	names  []string // of overlays of this weight
	pools  []claimedPool
	table  resources.Table
}

// claimedPool is the same in one pool. Numbers are places in names, plus one.
type claimedPool struct {
	*matcher
	prices   []int32         // by offering
	capacity map[int][]int32 // by lane, then by type
}

func newClaims(pools []Pool, table resources.Table, words reqs.Vocabulary) *claims {
	c := &claims{table: table}
	for _, p := range pools {
		m := newMatcher(p, words)
		c.pools = append(c.pools, claimedPool{matcher: m, prices: make([]int32, len(m.placed)), capacity: map[int][]int32{}})
	}
	return c
}

// take records what an overlay sets, or returns why it conflicts with an earlier one. Then nothing is recorded. It reports
// whether the overlay matches anything.
func (c *claims) take(o *Overlay) (conflict string, matched bool) {
	if o.Weight != c.weight {
		c.weight, c.names = o.Weight, nil
		for i := range c.pools {
			clear(c.pools[i].prices)
			clear(c.pools[i].capacity)
		}
	}
	found := make([]match, len(c.pools))
	for i := range c.pools {
		found[i] = c.pools[i].match(o)
		if conflict := c.conflict(&c.pools[i], &found[i], o); conflict != "" {
			return conflict, true
		}
		matched = matched || !found[i].types.empty()
	}
	c.names = append(c.names, o.Name)
	for i := range c.pools {
		c.pools[i].record(&found[i], o, c.table, int32(len(c.names)))
	}
	return "", matched
}

// unmatched says why an overlay matches nothing that any pool could launch: it refers to something that is missing (OV-25).
// As long as no instance types are known, nothing is said.
func (c *claims) unmatched(o *Overlay) string {
	if len(c.pools) == 0 {
		return ""
	}
	matches := func(n need) bool {
		return slices.ContainsFunc(c.pools, func(p claimedPool) bool {
			found := p.match(&Overlay{needs: []need{n}})
			return !found.types.empty()
		})
	}
	const change = "so this overlay changes nothing; correct spec.requirements, or create what they name"
	for i := range o.needs {
		if n := o.needs[i]; !matches(n) {
			return fmt.Sprintf("no instance type of any NodePool has %s %s, %s", n.key, n.want, change)
		}
	}
	return "no instance type of any NodePool meets all of spec.requirements, " + change
}

func (p *claimedPool) record(found *match, o *Overlay, table resources.Table, number int32) {
	if o.price != nil {
		found.offerings(func(_ int, n int32) bool {
			p.prices[n] = number
			return true
		})
	}
	for _, a := range o.capacity {
		lane, _ := table.Lane(a.resource)
		if p.capacity[lane] == nil {
			p.capacity[lane] = make([]int32, len(p.types))
		}
		found.types.each(func(t int) bool {
			p.capacity[lane][t] = number
			return true
		})
	}
}

// conflict says with which overlay of the same weight an overlay conflicts in a pool, and about what.
func (c *claims) conflict(p *claimedPool, found *match, o *Overlay) (message string) {
	if o.price != nil {
		found.offerings(func(t int, n int32) bool {
			if p.prices[n] != 0 {
				offering := &p.types[t].Offerings[n-p.first[t]]
				message = fmt.Sprintf("NodeOverlay %s, also of weight %d, sets the price of instance type %s (%s in %s, NodePool %s) already",
					c.names[p.prices[n]-1], o.Weight, p.types[t].Name, offering.CapacityType, offering.Zone, p.pool.Name)
			}
			return message == ""
		})
	}
	for i := 0; i < len(o.capacity) && message == ""; i++ {
		lane, _ := c.table.Lane(o.capacity[i].resource)
		taken := p.capacity[lane]
		if taken == nil {
			continue
		}
		found.types.each(func(t int) bool {
			if taken[t] != 0 {
				message = fmt.Sprintf("NodeOverlay %s, also of weight %d, sets %s of instance type %s (NodePool %s) already",
					c.names[taken[t]-1], o.Weight, o.capacity[i].resource, p.types[t].Name, p.pool.Name)
			}
			return message == ""
		})
	}
	if message != "" {
		message += "; give one of the two another spec.weight, or requirements that do not overlap. Until then, nothing of this overlay is applied"
	}
	return message
}

// Scope identifies what the overlays can see of a pool: pools with the same list of types and the same scope have
// the same result of Apply.
func (s *Set) Scope(pool string, template map[string]string) string {
	labels := PoolLabels(pool, template, s.words)
	var b strings.Builder
	for _, key := range s.keys {
		if have, defined := labels[key]; defined {
			fmt.Fprintf(&b, "%s=%s\x00", key, strings.Join(have.Values, ","))
		}
	}
	return b.String()
}

// Apply returns the instance types of a pool as the overlays make them. The list of the pool is not changed, and is
// returned itself if no overlay touches it.
func (s *Set) Apply(pool Pool) []catalog.InstanceType {
	if len(s.overlays) == 0 || len(pool.Types) == 0 {
		return pool.Types
	}
	m := newMatcher(pool, s.words)
	a := applied{matcher: m, priceBy: make([]int32, len(m.placed)), capacity: map[corev1.ResourceName][]int32{}, touched: newBitset(len(m.types))}
	for i := range s.overlays {
		a.add(&s.overlays[i], int32(i+1))
	}
	return a.list(s)
}

// applied is which overlay wins where. Numbers are places in the set, plus one.
type applied struct {
	*matcher
	priceBy  []int32                         // by offering
	capacity map[corev1.ResourceName][]int32 // by type
	names    []corev1.ResourceName           // of capacity, in the order in which they were met
	touched  bitset
}

func (a *applied) add(o *Overlay, number int32) {
	if o.price == nil && len(o.capacity) == 0 {
		return
	}
	found := a.match(o)
	if o.price != nil {
		found.offerings(func(t int, n int32) bool {
			if a.priceBy[n] == 0 {
				a.priceBy[n] = number
				a.touched.set(t)
			}
			return true
		})
	}
	for _, c := range o.capacity {
		by := a.capacity[c.resource]
		if by == nil {
			by = make([]int32, len(a.types))
			a.capacity[c.resource], a.names = by, append(a.names, c.resource)
		}
		found.types.each(func(t int) bool {
			if by[t] == 0 {
				by[t] = number
				a.touched.set(t)
			}
			return true
		})
	}
}

func (a *applied) list(s *Set) []catalog.InstanceType {
	var out []catalog.InstanceType
	a.touched.each(func(t int) bool {
		if out == nil {
			out = slices.Clone(a.types)
		}
		a.change(&out[t], t, s)
		return true
	})
	if out == nil {
		return a.types
	}
	return out
}

// change changes a copy of a type, whose offerings are still shared.
func (a *applied) change(it *catalog.InstanceType, t int, s *Set) {
	own := false
	offerings := func() []catalog.Offering {
		if !own {
			it.Offerings, own = slices.Clone(it.Offerings), true
		}
		return it.Offerings
	}
	for n := a.first[t]; n < a.first[t+1]; n++ {
		if a.priceBy[n] == 0 {
			continue
		}
		o := &offerings()[n-a.first[t]]
		o.Price, o.Free = s.overlays[a.priceBy[n]-1].price.of(o.Price, o.Price > 0 || o.Available || o.Out)
		it.Overlaid = true
	}
	for _, name := range a.names {
		by := a.capacity[name][t]
		if by == 0 {
			continue
		}
		lane, known := s.table.Lane(name)
		if !known {
			continue
		}
		capacity := s.overlays[by-1].capacity
		n := capacity[slices.IndexFunc(capacity, func(c amount) bool { return c.resource == name })].n
		it.Capacity, it.CapacityOverlaid = resources.With(it.Capacity, lane, n), true
		for i := range it.Offerings {
			if size := it.Offerings[i].Size; size != nil {
				offerings()[i].Size = &catalog.Size{Capacity: resources.With(size.Capacity, lane, n), Overhead: size.Overhead}
			}
		}
	}
}
