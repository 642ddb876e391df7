package exact

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/bitset"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// ChooseDomains narrows a trial to domains that the topology rules of a profile allow, and returns how many pods may
// be placed there, at most want. It comes after all other narrowing, because it may pin one domain.
func (s *State) ChooseDomains(p *model.Profile, b *Bin, f *Trial, want int) int {
	for i := range p.Affinity {
		if !s.chooseNear(&p.Affinity[i], b, f) {
			return 0
		}
	}
	for i := range p.AntiAffinity {
		r := &p.AntiAffinity[i]
		g := s.Model.Groups[r.Group]
		if g.PerHost {
			continue
		}
		if !s.avoidDomains(b, f, g.Key, s.Selected[r.Group]) {
			return 0
		}
		if r.Self {
			want = min(want, 1)
		}
	}
	for _, id := range p.Avoids {
		if g := s.Model.Groups[id]; !g.PerHost && !s.avoidDomains(b, f, g.Key, s.Owners[id]) {
			return 0
		}
	}
	for i := range p.Spread {
		r := &p.Spread[i]
		if s.Model.Groups[r.Group].PerHost {
			continue
		}
		if want = s.chooseSpread(r, b, f, want); want <= 0 {
			return 0
		}
	}
	if !s.pinCertainDomains(p, b, f) {
		return 0
	}
	return want
}

// pinCertainDomains pins one domain for pods with anti-affinity and for pods that others have an affinity to. An open
// domain would block every domain for the first kind, and help in none for the second.
func (s *State) pinCertainDomains(p *model.Profile, b *Bin, f *Trial) bool {
	for i := range p.AntiAffinity {
		if g := s.Model.Groups[p.AntiAffinity[i].Group]; !g.PerHost && p.AntiAffinity[i].Required && !s.pinFirst(b, f, g.Key) {
			return false
		}
	}
	for _, id := range p.Anchors {
		if !s.pinFirst(b, f, s.Model.Groups[id].Key) {
			return false
		}
	}
	return true
}

func (s *State) pinFirst(b *Bin, f *Trial, k reqs.KeyID) bool {
	possible := s.Model.PossibleDomains(&s.Model.Pools[b.Pool], f.Row, f.Types, f.Columns, k)
	if v := possible.Next(0); v < 0 || possible.Next(v+1) < 0 {
		return true
	}
	v := s.cheapestDomain(b, f, k)
	return v >= 0 && s.choosePin(f, b, k, v)
}

// choosePin narrows a trial to one domain and records the choice.
func (s *State) choosePin(f *Trial, b *Bin, k reqs.KeyID, v int) bool {
	f.pinned = append(f.pinned, model.PinKey{Key: k, Value: reqs.ValueID(v)})
	return s.Require(f, b, s.Model.PinValue(k, reqs.ValueID(v)))
}

// cheapestDomain returns the domain of a key with the lowest launch price for a trial, or -1.
func (s *State) cheapestDomain(b *Bin, f *Trial, k reqs.KeyID) int {
	pl := &s.Model.Pools[b.Pool]
	cat := s.Model.Catalogues[pl.Catalogue]
	x := &cat.Keys[k]
	open := s.OpenDomains(b, f, k)
	best, low := -1, math.Inf(1)
	for v := open.Next(0); v >= 0; v = open.Next(v + 1) {
		types, cols := f.Types, f.Columns
		if x.ByOffering {
			cols = cols.And(x.ColumnsWith[v])
		} else if x.ByType {
			types = types.Clone()
			types.And(x.TypesWith[v])
		}
		price := math.Inf(1)
		for t := types.Next(0); t >= 0; t = types.Next(t + 1) {
			p, _ := cat.Cheapest(t, cols)
			price = min(price, p)
		}
		if best < 0 || price < low {
			best, low = v, price
		}
	}
	return best
}

// chooseSpread pins the valid domain with the fewest pods (SC-32).
func (s *State) chooseSpread(r *model.SpreadRule, b *Bin, f *Trial, want int) int {
	g := s.Model.Groups[r.Group]
	open := s.OpenDomains(b, f, g.Key)
	open.And(r.Eligible)
	best := -1
	for v := open.Next(0); v >= 0; v = open.Next(v + 1) {
		if best < 0 || s.Selected[r.Group][v] < s.Selected[r.Group][best] {
			best = v
		}
	}
	if best < 0 {
		return 0
	}
	allowed := s.spreadCapacity(r, best)
	if allowed <= 0 || !s.choosePin(f, b, g.Key, best) {
		return 0
	}
	return min(want, allowed)
}

// chooseNear narrows a trial to the domains of the pods that the rule has an affinity to (SC-33).
func (s *State) chooseNear(r *model.GroupRule, b *Bin, f *Trial) bool {
	g := s.Model.Groups[r.Group]
	if g.PerHost {
		return true
	}
	open := s.OpenDomains(b, f, g.Key)
	open.And(r.Eligible)
	with, first := bitset.NewSet(len(open)*64), -1
	for v := open.Next(0); v >= 0; v = open.Next(v + 1) {
		if first < 0 {
			first = v
		}
		if s.Selected[r.Group][v] > 0 {
			with.Add(v)
		}
	}
	switch {
	case !with.Empty():
		return s.Require(f, b, s.Model.PinAny(g.Key, with))
	case first >= 0 && s.MayBeFirst(r):
		return s.choosePin(f, b, g.Key, first)
	}
	return false
}

// avoidDomains narrows a trial to the domains without any of the pods counted (SC-34, SC-35).
func (s *State) avoidDomains(b *Bin, f *Trial, k reqs.KeyID, count []int32) bool {
	if !s.Model.HasKnownValues(&s.Model.Pools[b.Pool], f.Row, k) { // it will have a value, but which one is not known
		return false
	}
	possible := s.Model.PossibleDomains(&s.Model.Pools[b.Pool], f.Row, f.Types, f.Columns, k)
	if possible.Empty() { // the node will not have the label: there is no domain to share
		return true
	}
	all := true
	for v := possible.Next(0); v >= 0; v = possible.Next(v + 1) {
		all = all && count[v] == 0
	}
	if all {
		return true
	}
	open := s.OpenDomains(b, f, k)
	for v := open.Next(0); v >= 0; v = open.Next(v + 1) {
		if count[v] > 0 {
			open.Remove(v)
		}
	}
	return s.Require(f, b, s.Model.PinAny(k, open))
}

// OpenDomains returns the domains of a key that a trial can still be in.
func (s *State) OpenDomains(b *Bin, f *Trial, k reqs.KeyID) bitset.Set {
	open := s.Model.OpenDomains(&s.Model.Pools[b.Pool], f.Row, f.Types, f.Columns, k)
	for _, p := range s.excluded {
		if p.Key == k {
			open.Remove(int(p.Value))
		}
	}
	return open
}

// CountPodsInBin counts pods on a planned node. A domain counts for spreading and affinity once it is the
// only one left, for anti-affinity as soon as it is possible (SC-34).
func (s *State) CountPodsInBin(p *model.Profile, b *Bin, place int32, count int) {
	m := s.Model
	values := make([]int32, m.Table.Len())
	for k := range values {
		values[k] = -1
		if !m.Domains[k].Used {
			continue
		}
		open := m.PossibleDomains(&m.Pools[b.Pool], b.Row, b.Types, b.Columns, reqs.KeyID(k))
		if v := open.Next(0); v >= 0 && open.Next(v+1) < 0 {
			values[k] = int32(v)
			s.countFixedDomain(b, k, v)
		} else {
			s.countInOpenDomains(p, k, open, count)
		}
	}
	b.unsure = slices.DeleteFunc(b.unsure, func(id int) bool { // more groups may be certain now
		v := values[s.Model.Groups[id].Key]
		if v < 0 || !s.meetsNodeFilter(b, id, p) {
			return false
		}
		s.countBinPods(b, id, int(v))
		return true
	})
	s.CountPods(p, place, values, count, nil, b)
}

// countBinPods counts the pods that were put on a planned node so far.
func (s *State) countBinPods(b *Bin, id, v int) {
	for _, h := range b.Pods {
		if slices.Contains(s.Model.Profiles[h.Profile].Groups, id) {
			s.Selected[id][v] += h.Count
		}
	}
}

// meetsNodeFilter reports whether a planned node with pods of a profile certainly meets the node filter of a spread
// constraint (SC-28). Pods that have the constraint themselves ensure it. A node that may not meet it in the end must
// not raise the smallest count that others are spread by.
func (s *State) meetsNodeFilter(b *Bin, id int, p *model.Profile) bool {
	f := s.Model.Groups[id].Filter
	if f == nil || f.Needs == nil && f.Tolerations < 0 || slices.Contains(b.sure, id) {
		return true
	}
	if f.Tolerations >= 0 && !s.Model.Tolerated(f.Tolerations, s.Model.Pools[b.Pool].Taints) {
		return false
	}
	if f.Needs != nil && !p.HasRule(id) && !slices.ContainsFunc(f.Needs, func(n int) bool { return s.certainlyMeets(b, n) }) {
		return false
	}
	b.sure = append(b.sure, id)
	return true
}

// certainlyMeets reports whether a planned node meets a need, whichever of its types is launched.
func (s *State) certainlyMeets(b *Bin, needID int) bool {
	m := s.Model
	if slices.Contains(b.Needs, needID) {
		return true
	}
	pl, row := &m.Pools[b.Pool], m.Needs[needID].Row
	for i := range m.Table.Len() {
		k := reqs.KeyID(i)
		if !row.Defined(k) {
			continue
		}
		x := &m.Catalogues[pl.Catalogue].Keys[k]
		if x.ByOffering && !x.ColumnsWithout.And(b.Columns).Empty() || x.ByType && (x.TypesUnspecified.Overlaps(b.Types) || x.TypesWithout.Overlaps(b.Types)) {
			return false // it may be launched without the label
		}
		values := m.PossibleDomains(pl, b.Row, b.Types, b.Columns, k)
		if values.Empty() {
			return false
		}
		for v := values.Next(0); v >= 0; v = values.Next(v + 1) {
			if !row.Allows(k, reqs.ValueID(v)) {
				return false
			}
		}
	}
	return true
}

// countFixedDomain counts the pods that were put on a planned node before its domain was certain.
func (s *State) countFixedDomain(b *Bin, k, v int) {
	if b.domainCounted == nil {
		b.domainCounted = make([]bool, s.Model.Table.Len())
	}
	if b.domainCounted[k] {
		return
	}
	b.domainCounted[k] = true
	var done []int
	for _, h := range b.Pods {
		for _, id := range s.Model.Profiles[h.Profile].Groups {
			if g := s.Model.Groups[id]; g.PerHost || int(g.Key) != k || g.Kind == model.AntiAffinityGroup || slices.Contains(done, id) {
				continue
			}
			done = append(done, id)
			if slices.ContainsFunc(b.Pods, func(o BinPods) bool { return s.meetsNodeFilter(b, id, s.Model.Profiles[o.Profile]) }) {
				s.countBinPods(b, id, v)
			} else {
				b.unsure = append(b.unsure, id)
			}
		}
	}
}

// countInOpenDomains counts pods for anti-affinity in every domain that is still possible for them.
func (s *State) countInOpenDomains(p *model.Profile, k int, open bitset.Set, count int) {
	for _, id := range p.Groups {
		if g := s.Model.Groups[id]; !g.PerHost && int(g.Key) == k && g.Kind == model.AntiAffinityGroup {
			for v := open.Next(0); v >= 0; v = open.Next(v + 1) {
				s.Selected[id][v] += int32(count)
			}
		}
	}
	for i := range p.AntiAffinity {
		r := &p.AntiAffinity[i]
		if g := s.Model.Groups[r.Group]; !g.PerHost && int(g.Key) == k && r.Required {
			for v := open.Next(0); v >= 0; v = open.Next(v + 1) {
				s.Owners[r.Group][v] += int32(count)
			}
		}
	}
}
