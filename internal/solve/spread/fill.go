package spread

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// loosePods is the pods of a group that have no node for the time being.
type loosePods struct {
	keys    [][]cluster.PodKey // by position among the workloads of the group
	largest []int              // the most that one node had
	left    int
}

func newLoosePods(g *group) *loosePods {
	return &loosePods{keys: make([][]cluster.PodKey, len(g.workloads)), largest: make([]int, len(g.workloads))}
}

// take adds the pods of a node.
func (l *loosePods) take(s *spreader, g *group, n *model.NewNode, counts []podCount) {
	l.left += len(n.Pods)
	if len(counts) == 1 {
		at := slices.Index(g.workloads, counts[0].workload)
		l.keys[at] = append(l.keys[at], n.Pods...)
	} else {
		for _, key := range n.Pods {
			at := slices.Index(g.workloads, s.ids[s.shapes[key]])
			l.keys[at] = append(l.keys[at], key)
		}
	}
	for _, c := range counts {
		at := slices.Index(g.workloads, c.workload)
		l.largest[at] = max(l.largest[at], c.count)
	}
}

// placeLoosePods puts loose pods on nodes: one after another, each time what costs least for what its pods are worth.
func (s *spreader) placeLoosePods(g *group, l *loosePods, a *attempt, tries *int) bool {
	for l.left > 0 {
		if a.added > s.most+rounding { // each node adds to it
			return false
		}
		var o *option
		var like model.NewNode
		var f *fill
		for tooExpensive := map[*poolOffer]bool{}; o == nil; {
			if f = s.next(g, l, tooExpensive, tries); f == nil {
				return false
			}
			o, like = s.built(g, f)
			tooExpensive[f.poolOffer] = true
		}
		// What costs least stays so while there are as many pods and as much room.
		for more := true; more; more = l.left > 0 && slices.Equal(s.fillUp(g, s.roomsIn(g, l, f.at), f.t, f.even), f.counts) {
			n := like
			for i, count := range f.counts {
				n.Pods = append(n.Pods, l.keys[i][:count]...)
				l.keys[i], l.left = l.keys[i][count:], l.left-count
			}
			slices.SortFunc(n.Pods, cluster.PodKey.Compare)
			counts := f.podCounts(g)
			s.put(&n, counts, o)
			a.add(n, counts, g.like)
			a.added += n.Offer.Price
		}
	}
	return true
}

// fill is pods for a node.
type fill struct {
	*poolOffer
	even   bool
	counts []int // by position among the workloads of the group
	ratio  float64
}

func (f *fill) podCounts(g *group) (out []podCount) {
	for i, count := range f.counts {
		if count > 0 {
			out = append(out, podCount{g.workloads[i], count})
		}
	}
	return out
}

// next finds the node that costs least for what its pods are worth, or nil. Those that are too expensive are left out.
func (s *spreader) next(g *group, l *loosePods, tooExpensive map[*poolOffer]bool, tries *int) *fill {
	var best *fill
	ways := []bool{false, true}
	if len(g.workloads) == 1 {
		ways = ways[:1]
	}
	rooms := map[cell][]int{} // of each workload; no pod is placed meanwhile
	for i := range g.poolOffers {
		at := &g.poolOffers[i]
		if best != nil && at.ratio > best.ratio {
			break
		}
		if tooExpensive[at] {
			continue
		}
		most, known := rooms[at.at]
		if !known {
			most = s.roomsIn(g, l, at.at)
			rooms[at.at] = most
		}
		for _, even := range ways {
			if *tries--; *tries <= 0 {
				return nil
			}
			counts, worth := s.fillUp(g, most, at.t, even), 0.0
			for i, count := range counts {
				worth += float64(count) * g.worth[i]
			}
			if ratio := at.price / worth; worth > 0 && (best == nil || ratio < best.ratio-rounding) {
				best = &fill{poolOffer: at, even: even, counts: slices.Clone(counts), ratio: ratio}
			}
		}
	}
	return best
}

// scratch is the room of a type in a buffer.
func (s *spreader) scratch(g *group, t int) []int64 {
	s.buffer = append(s.buffer[:0], s.room(g, t)...)
	return s.buffer
}

// roomsIn is how many loose pods of each workload a cell may have.
func (s *spreader) roomsIn(g *group, l *loosePods, at cell) []int {
	most := make([]int, len(g.workloads))
	for i := range most {
		most[i] = min(len(l.keys[i]), s.roomIn(at, g.workloads[i], l.largest[i]))
	}
	return most
}

// fillUp counts the pods that a node of a type takes while they fit, of each workload at most so many: those that are worth
// most first, or before that evenly of all. The next call overwrites what it returns.
func (s *spreader) fillUp(g *group, most []int, t int, even bool) []int {
	room := s.scratch(g, t)
	s.taken = append(s.taken[:0], make([]int, len(most))...)
	counts := s.taken
	take := func(i, n int) {
		if n == 0 {
			return
		}
		n = model.CountFitting(g.classes[i], room, n)
		counts[i] += n
		for _, lane := range g.classes[i].Lanes {
			room[lane] -= int64(n) * g.classes[i].Requests[lane]
		}
	}
	if even {
		part := 1.0
		for lane, free := range room {
			need := 0.0
			for i, c := range g.classes {
				need += float64(most[i]) * float64(c.Requests[lane])
			}
			if need > 0 {
				part = min(part, float64(max(free, 0))/need)
			}
		}
		for i := range most {
			take(i, int(part*float64(most[i])))
		}
	}
	for i := range most {
		take(i, most[i]-counts[i])
	}
	return counts
}

// roomIn is how many more pods of a workload a cell may have: of one that has none, as many as a node had before.
func (s *spreader) roomIn(at cell, workload, largest int) int {
	if !s.bounds(workload) {
		return math.MaxInt
	}
	w := &s.workloads[workload]
	most, load := int(s.share*float64(w.pods)+rounding), s.load(w, at)
	if load == 0 {
		most = max(most, largest)
	}
	return max(0, most-load)
}

// built returns what a node is that holds a fill, as an option of one without the cell. It is nil if a spot pool in
// another cell is so much cheaper that consolidation would move the node there.
func (s *spreader) built(g *group, f *fill) (*option, model.NewNode) {
	used := make([]int64, s.m.Lanes)
	for i, count := range f.counts {
		for _, lane := range g.classes[i].Lanes {
			used[lane] += int64(count) * g.classes[i].Requests[lane]
		}
	}
	holds := func(t int) bool {
		for lane, free := range s.room(g, t) {
			if used[lane] > 0 && used[lane] > free {
				return false
			}
		}
		return true
	}
	var types []int
	var list []priced
	least := math.Inf(1)
	for _, zone := range g.zones {
		for _, p := range g.offers[zone] {
			if !holds(p.t) {
				continue
			}
			least = min(least, p.price)
			if !slices.Contains(types, p.t) {
				types = append(types, p.t)
			}
			if zone == f.at.zone && s.stripeOf(g, zone, p.t) == f.at.stripe && len(list) < model.MaxTypes {
				list = append(list, p)
			}
		}
	}
	if list[0].price > least*(1+s.m.Problem.Policy.SpreadNodeCost())+rounding {
		return nil, model.NewNode{}
	}
	like := *g.like
	like.Pods = nil
	like.Requests = resources.Add(resources.Of(used[:s.m.View.Resources.Len()]...), s.leastOverhead(g.pool, types))
	o := s.restrict(&like, g.pool, types, f.at, g.columns[f.at.zone], list)
	return &o, like
}
