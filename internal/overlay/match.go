package overlay

import (
	"math/bits"
	"reflect"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Pool is a NodePool with the instance types that it could have.
type Pool struct {
	Name   string
	Labels map[string]string // of the template
	Types  []catalog.InstanceType
}

// matcher finds the instance types and offerings of a pool that overlays match. Overlays are many, and so are
// types: a requirement is compared with each type once, whatever number of overlays has it, and with each place
// instead of each offering.
type matcher struct {
	pool        Pool
	labels      reqs.Set // of the pool
	types       []catalog.InstanceType
	first       []int32 // by type: the number of its first offering; one more for the end
	placed      []int32 // by offering: its place
	places      []reqs.Set
	ofOfferings map[string]bool   // labels that offerings decide
	met         map[string]bitset // by need: the types that meet it
	byKey       map[string]*valueIndex
	all         bitset
}

// valueIndex has the types by their value of one label.
type valueIndex struct {
	valued  bitset            // types with exactly one value
	byValue map[string]bitset // those of each value
	others  []int             // the other types
}

// index returns the types by their value of a label. It is made when it is first needed.
func (m *matcher) index(key string) *valueIndex {
	x := m.byKey[key]
	if x != nil {
		return x
	}
	x = &valueIndex{valued: newBitset(len(m.types)), byValue: map[string]bitset{}}
	m.byKey[key] = x
	for i := range m.types {
		have, has := m.types[i].Labels[key]
		if !has || have.Not || len(have.Values) != 1 {
			x.others = append(x.others, i)
			continue
		}
		of := x.byValue[have.Values[0]]
		if of == nil {
			of = newBitset(len(m.types))
			x.byValue[have.Values[0]] = of
		}
		x.valued.set(i)
		of.set(i)
	}
	return x
}

// meeting adds the types with one value that meet a requirement.
func (x *valueIndex) meeting(want *reqs.Req, into bitset) {
	if want.Bounds.Limited() {
		for value, of := range x.byValue { // any order: each adds its own types
			if want.Has(value) {
				into.or(of)
			}
		}
		return
	}
	if want.Not {
		into.or(x.valued)
	}
	for _, value := range want.Values {
		switch of := x.byValue[value]; {
		case of == nil:
		case want.Not:
			into.without(of)
		default:
			into.or(of)
		}
	}
}

// bitset is a set of types.
type bitset []uint64

func newBitset(n int) bitset    { return make(bitset, (n+63)/64) }
func (b bitset) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bitset) has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }
func (b bitset) and(other bitset) {
	for i := range b {
		b[i] &= other[i]
	}
}

func (b bitset) or(other bitset) {
	for i := range b {
		b[i] |= other[i]
	}
}

func (b bitset) without(other bitset) {
	for i := range b {
		b[i] &^= other[i]
	}
}

func (b bitset) empty() bool {
	for _, word := range b {
		if word != 0 {
			return false
		}
	}
	return true
}

func (b bitset) each(do func(int) bool) {
	for w, word := range b {
		for ; word != 0; word &= word - 1 {
			if !do(w*64 + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}

// placeKey identifies a place before its labels are read. Offerings of one place share their map of labels mostly;
// if they do not, there are more places, which changes nothing but the time.
type placeKey struct {
	zone, capacityType string
	labels             uintptr
}

func newMatcher(pool Pool, words reqs.Vocabulary) *matcher {
	m := &matcher{
		pool: pool, types: pool.Types, labels: PoolLabels(pool.Name, pool.Labels, words), first: make([]int32, 0, len(pool.Types)+1),
		ofOfferings: map[string]bool{corev1.LabelTopologyZone: true, karpv1.LabelCapacityType: true}, met: map[string]bitset{}, byKey: map[string]*valueIndex{}, all: newBitset(len(pool.Types)),
	}
	known := map[placeKey]int32{}
	for i := range m.types {
		m.first = append(m.first, int32(len(m.placed)))
		m.all.set(i)
		for j := range m.types[i].Offerings {
			o := &m.types[i].Offerings[j]
			key := placeKey{o.Zone, o.CapacityType, reflect.ValueOf(o.Labels).Pointer()}
			at, found := known[key]
			if !found {
				at = int32(len(m.places))
				known[key] = at
				m.addPlace(o, words)
			}
			m.placed = append(m.placed, at)
		}
	}
	m.first = append(m.first, int32(len(m.placed)))
	return m
}

func (m *matcher) addPlace(o *catalog.Offering, words reqs.Vocabulary) {
	set := reqs.FromLabels(o.Labels, words)
	set[corev1.LabelTopologyZone] = reqs.Req{Values: []string{o.Zone}}
	set[karpv1.LabelCapacityType] = reqs.Req{Values: []string{o.CapacityType}}
	for key := range set { // any order: it is a set
		m.ofOfferings[key] = true
	}
	m.places = append(m.places, set)
}

// PoolLabels are the labels of every node of a pool, as far as overlays use them.
func PoolLabels(name string, template map[string]string, words reqs.Vocabulary) reqs.Set {
	labels := reqs.FromLabels(template, words)
	labels[karpv1.LabelNodePool] = reqs.Req{Values: []string{name}}
	return labels
}

// poolMeets compares a need with the labels of the pool: defined is false if the pool does not have the label.
func (m *matcher) poolMeets(n *need) (met, defined bool) {
	have, defined := m.labels[n.key]
	return defined && have.Overlaps(n.want), defined
}

// typesThatMeet are the types that meet a need by their own labels and those of the pool.
func (m *matcher) typesThatMeet(n *need) bitset {
	if known, found := m.met[n.text]; found {
		return known
	}
	met, defined := m.poolMeets(n)
	set := newBitset(len(m.types))
	if !defined || met {
		x := m.index(n.key)
		x.meeting(&n.want, set)
		for _, i := range x.others {
			have, has := m.types[i].Labels[n.key]
			switch {
			case has && (have.Overlaps(n.want) || have.Negative() && (n.want.Negative() || defined)):
				set.set(i)
			case !has && (defined || n.want.Negative()):
				set.set(i)
			}
		}
	}
	m.met[n.text] = set
	return set
}

// match is what an overlay matches of one pool.
type match struct {
	types      bitset // that have an offering that is matched
	byOffering []need // needs that the offerings decide
	m          *matcher
}

// match returns what an overlay matches. Its requirements have to be compatible with the labels of the pool and the
// type, and with at least one offering.
func (m *matcher) match(o *Overlay) match {
	found := match{m: m, types: append(bitset(nil), m.all...)}
	for i := range o.needs {
		n := &o.needs[i]
		if !m.ofOfferings[n.key] {
			found.types.and(m.typesThatMeet(n))
			continue
		}
		if met, defined := m.poolMeets(n); defined && !met {
			found.types = newBitset(len(m.types))
			return found
		}
		found.byOffering = append(found.byOffering, *n)
	}
	verdicts := found.places()
	found.types.each(func(t int) bool {
		some := false
		for _, at := range m.placed[m.first[t]:m.first[t+1]] {
			if some = found.holds(verdicts, t, at); some {
				break
			}
		}
		if !some {
			found.types[t/64] &^= 1 << (t % 64)
		}
		return true
	})
	return found
}

// Verdicts about a place: its own labels meet all needs, do not, or leave some to the type.
const (
	refused = iota
	matched
	byType
)

// places compares the needs that offerings decide with each place.
func (f *match) places() []uint8 {
	out := make([]uint8, len(f.m.places))
	for i, labels := range f.m.places {
		out[i] = matched
		for j := range f.byOffering {
			have, defined := labels[f.byOffering[j].key]
			switch {
			case !defined && out[i] == matched:
				out[i] = byType
			case defined && !have.Overlaps(f.byOffering[j].want):
				out[i] = refused
			}
			if out[i] == refused {
				break
			}
		}
	}
	return out
}

// holds reports whether an offering of a type, given by its place, is matched.
func (f *match) holds(verdicts []uint8, t int, at int32) bool {
	if verdicts[at] != byType {
		return verdicts[at] == matched
	}
	for j := range f.byOffering {
		if _, defined := f.m.places[at][f.byOffering[j].key]; !defined && !f.m.typesThatMeet(&f.byOffering[j]).has(t) {
			return false
		}
	}
	return true
}

// offerings calls do with each offering that is matched, by the type and its number in the list, until it returns
// false.
func (f *match) offerings(do func(t int, offering int32) bool) {
	verdicts, on := f.places(), true
	f.types.each(func(t int) bool {
		for n := f.m.first[t]; n < f.m.first[t+1] && on; n++ {
			if f.holds(verdicts, t, f.m.placed[n]) {
				on = do(t, n)
			}
		}
		return on
	})
}
