package solve

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// strays is how many pods of a move may find no place at most: one in so many.
const strays = 20

// forecast is what becomes of moves. Where pods go is decided by the scheduler, which spreads them unless
// it is told otherwise: each goes to the node with most room, whatever was planned. A move whose pods do
// not all find a place in that way ends with another node, and was for nothing.
type forecast struct {
	*mover
	share   []float64 // of each node that is free: cpu and memory together; below 0: it takes nobody in
	sure    bool      // there is one order in which pods look for a place
	queued  [][]int32 // pods of each node in that order, once they were asked for
	bought  []bought
	changes []change
}

// bought is a node that moves buy, with what is left of it.
type bought struct {
	pool, kind int
	left       []int64
	cpu, mem   float64 // shares of the node that a unit is
}

// change is a node that was bought before a pod was put on it.
type change struct {
	at   int
	left []int64
}

// place is where the scheduler puts a pod: a node, or one that is bought.
type place struct {
	node, bought, profile int
}

func (g *ground) forecast(stop func() bool) *forecast {
	f := &forecast{mover: g.newMover(g.m.fork(), nil, stop)}
	f.sure = !slices.ContainsFunc(f.m.pods, func(p cluster.Pod) bool { return p.Late || p.Priority != f.m.pods[0].Priority })
	f.share, f.queued = make([]float64, len(f.m.nodes)), make([][]int32, len(f.m.nodes))
	for n := range f.share {
		f.weigh(n)
	}
	return f
}

// weigh works out how much of a node is free.
func (f *forecast) weigh(n int) {
	m := f.m
	if f.gone[n] || m.nodes[n].full {
		f.share[n] = -1
		return
	}
	room := m.nodes[n].src.Allocatable
	f.share[n] = float64(f.s.free[n*m.lanes])/float64(max(1, room.At(0))) + float64(f.s.free[n*m.lanes+1])/float64(max(1, room.At(1)))
}

// lasting returns those of two lists of moves that save more once those are left out that the scheduler
// would undo, and whether it is the second list.
func (g *ground) lasting(one, two []Move, stop func() bool) (moves []Move, second bool) {
	if second = saved(two) > saved(one); second {
		one, two = two, one
	}
	if g.m.problem.Policy.Eager {
		return one, second
	}
	if one = g.kept(one, stop); saved(two) > saved(one) {
		if two = g.kept(two, stop); saved(two) > saved(one) {
			return two, !second
		}
	}
	return one, second
}

func (g *ground) kept(moves []Move, stop func() bool) []Move {
	if len(moves) == 0 {
		return nil
	}
	f, coupled, broken := g.forecast(stop), g.m.coupled(), false
	return slices.DeleteFunc(moves, func(m Move) bool {
		broken = broken && coupled || !f.lasts(&m) // if moves depend on those before them, the rest goes too
		return broken
	})
}

// lasts reports whether the pods of a move find a place. If so, moves that are asked about later see the
// cluster after it.
func (f *forecast) lasts(m *Move) bool {
	before := len(f.bought)
	for i := range m.Create {
		if at, kind := f.kindOf(&m.Create[i]); kind >= 0 {
			f.buy(at, kind)
		}
	}
	nodes := make([]int, 0, len(m.Remove))
	for _, name := range m.Remove {
		nodes = append(nodes, f.byName[name])
	}
	if f.settle(nodes, m.Moved/strays, nil) {
		return true
	}
	f.bought = f.bought[:before]
	return false
}

func (f *forecast) kindOf(c *NewNode) (pool, kind int) {
	for i := range f.m.pools {
		if pl := &f.m.pools[i]; pl.src.Name == c.Pool {
			types := f.m.catalogues[pl.catalogue].types
			return i, slices.IndexFunc(types, func(t item) bool { return t.it.Name == c.Offer.Type })
		}
	}
	return -1, -1
}

func (f *forecast) buy(pool, kind int) {
	room, lanes := f.m.pools[pool].rooms, f.m.lanes
	b := bought{pool: pool, kind: kind, left: slices.Clone(room.room[kind*lanes : (kind+1)*lanes])}
	over := room.over[kind*lanes : (kind+1)*lanes]
	b.cpu, b.mem = 1/float64(max(1, b.left[0]+over[0])), 1/float64(max(1, b.left[1]+over[1]))
	f.bought = append(f.bought, b)
}

// settle takes nodes away and puts their pods where the scheduler would. It tells of every pod that has
// a place. If more than some have none, all is as it was before.
func (f *forecast) settle(nodes []int, may int, tell func(k int, at place) bool) bool {
	pods := f.leaving(nodes)
	if !f.sure {
		other := slices.Clone(pods)
		if f.queue(other, true); !slices.Equal(pods, other) {
			if !f.seat(nodes, other, may, nil) {
				return false
			}
			f.unsettle(nodes)
		}
	}
	return f.seat(nodes, pods, may, tell)
}

// leaving lists the pods of nodes as they look for a place, as far as that is known: as drains evict them, node
// by node, and then those that are late.
func (f *forecast) leaving(nodes []int) (pods []int32) {
	for _, n := range slices.Sorted(slices.Values(nodes)) {
		if f.queued[n] == nil {
			f.queued[n] = slices.Clone(f.pods[n])
			f.queue(f.queued[n], false)
		}
		pods = append(pods, f.queued[n]...)
	}
	if !f.sure {
		slices.SortStableFunc(pods, func(a, b int32) int { return cmp.Compare(boolInt(f.m.pods[a].Late), boolInt(f.m.pods[b].Late)) })
	}
	return pods
}

// queue orders pods as a drain evicts them, the largest first, and late ones last. It may also come
// differently: of those that wait at the same time the scheduler takes the one of highest priority, and
// late ones come in any order, of which the smallest first is the worst for the others.
func (f *forecast) queue(pods []int32, differently bool) {
	slices.SortStableFunc(pods, func(x, y int32) int {
		a, b, size := &f.m.pods[x], &f.m.pods[y], cmp.Compare(f.size(y), f.size(x))
		switch {
		case a.Late != b.Late:
			return cmp.Compare(boolInt(a.Late), boolInt(b.Late))
		case !differently:
			return size
		case a.Late:
			return -size
		}
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), size)
	})
}

// seat is settle for pods in an order.
func (f *forecast) seat(nodes []int, pods []int32, may int, tell func(k int, at place) bool) bool {
	f.undo, f.changes = f.undo[:0], f.changes[:0]
	for _, n := range nodes {
		f.gone[n] = true
		f.weigh(n)
		f.s.count(n, -1)
	}
	for _, p := range pods {
		k := int(f.class[p])
		at, found := f.next(k)
		if found && (tell == nil || tell(k, at)) {
			continue
		}
		if may--; may < 0 || tell != nil {
			f.unsettle(nodes)
			return false
		}
	}
	return true
}

// size is how much a pod asks for: a core is as much as 4 GiB.
func (f *forecast) size(p int32) int64 {
	c := &f.m.classes[f.class[p]]
	const memory = 1 << 20
	return c.req[0]*4 + c.req[1]/memory
}

// unsettle is everything as it was before settle.
func (f *forecast) unsettle(nodes []int) {
	touched := f.undo
	f.putBack()
	for _, u := range touched {
		f.weigh(u.node)
	}
	for _, c := range slices.Backward(f.changes) {
		f.bought[c.at].left = c.left
	}
	f.changes = f.changes[:0]
	for _, n := range nodes {
		f.gone[n] = false
		f.weigh(n)
		f.s.count(n, 1)
	}
}

// next puts a pod of a class where the scheduler would.
func (f *forecast) next(k int) (place, bool) {
	c := &f.m.classes[k]
	for _, variant := range c.variants[:f.wish(k)+1] {
		p := f.m.profiles[variant.profile]
		node, most := f.roomiest(c, p)
		best := -1
		for i := range f.bought {
			b := &f.bought[i]
			if x := float64(b.left[0])*b.cpu + float64(b.left[1])*b.mem; x > most && few(c, b.left, 1) > 0 && f.suits(p, b) {
				best, most = i, x
			}
		}
		switch {
		case best >= 0:
			b := &f.bought[best]
			f.changes = append(f.changes, change{best, b.left})
			b.left = slices.Clone(b.left)
			for _, l := range c.asks {
				b.left[l] -= c.req[l]
			}
			return place{-1, best, variant.profile}, true
		case node >= 0:
			f.take(k, variant.profile, node)
			f.weigh(node)
			return place{node, -1, variant.profile}, true
		}
	}
	return place{}, false
}

// suits reports whether a node that is bought is one for pods of a profile.
func (f *forecast) suits(p *profile, b *bought) bool {
	fit := f.m.fits(p.need, b.pool)
	return fit.ok && fit.types.has(b.kind) && f.m.tolerated(p.tol, f.m.pools[b.pool].taints)
}

// roomiest is the node with most room of those that can take a pod, and how much that is.
func (f *forecast) roomiest(c *class, p *profile) (best int, most float64) {
	best, most = -1, -1
	for n, x := range f.share {
		if x > most && f.s.onNode(c, p, n, 1) > 0 {
			best, most = n, x
		}
	}
	return best, most
}
