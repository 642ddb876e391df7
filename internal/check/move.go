package check

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Consolidation returns the violations of moves made one after another, each verified on the cluster that the moves
// before it leave; nothing if they obey every rule.
func Consolidation(q solve.Question, result solve.Consolidation) []Violation {
	c := newMoveChecker(q)
	for i := range result.Moves {
		c.prefix = "moves[" + strconv.Itoa(i) + "] "
		c.checkMove(q, &result.Moves[i])
	}
	c.prefix = ""
	c.checkTotals(result)
	c.checkVerdicts(q, result)
	return c.found
}

// FilterMoves verifies moves made one after another, each on the cluster that the valid ones before it leave, and
// returns the violations of the invalid ones, by number. The saving and the number of pods that a move states are not
// verified. Once stop says that time is up, the moves from number upTo on are left unverified.
//
// An invalid move leaves the checker in an unusable state, so the valid ones before it are applied again. A few
// invalid moves among many cost a few times as much as none.
func FilterMoves(q solve.Question, moves []solve.Move, stop func() bool) (bad map[int]Violation, upTo int) {
	bad = map[int]Violation{}
	last := -1
	for again := true; again; {
		again = false
		c := newMoveChecker(q)
		for i := range moves {
			if _, is := bad[i]; is {
				continue
			}
			if stop() {
				return bad, max(i, last+1)
			}
			c.prefix = "moves[" + strconv.Itoa(i) + "] "
			c.checkMove(q, &moves[i])
			if at := slices.IndexFunc(c.found, func(v Violation) bool { return v.Code != SavesWrong && v.Code != MovedWrong }); at >= 0 {
				bad[i], last, again = c.found[at], i, true
				break
			}
		}
	}
	return bad, len(moves)
}

// Move returns what is wrong with a single move, made first.
func Move(q solve.Question, m solve.Move) []Violation {
	c := newMoveChecker(q)
	c.checkMove(q, &m)
	return c.found
}

// newMoveChecker starts a checker. Disruption is always in fallback mode (SC-46, V15-46).
func newMoveChecker(q solve.Question) *checker {
	q.Policy.ReservedFallback = true
	return newChecker(q.View, q.Policy)
}

func (c *checker) checkMove(q solve.Question, m *solve.Move) {
	batch := &batchPods{by: map[cluster.PodKey]*entry{}}
	removed := c.remove(q, m, batch)
	c.bind(m.Bind, batch)
	c.create(m.Create, batch)
	c.everyPodOnce(batch)
	c.checkPlaces()
	for i := range m.Create {
		removed -= m.Create[i].Offer.Price
	}
	if !almostEqual(removed, m.Saves) || !(m.Saves > 0) {
		c.add(SavesWrong, "packing 2", "move", fmt.Sprintf("%v, above zero", removed), fmt.Sprint(m.Saves))
	}
	if m.Moved != len(batch.order) {
		c.add(MovedWrong, "", "move", strconv.Itoa(len(batch.order)), strconv.Itoa(m.Moved))
	}
	for _, at := range c.places { // the next move sees the cluster as this one leaves it
		at.stay, at.come, at.judged = slices.Concat(at.stay, arrived(at.come)), nil, true
	}
}

// arrived are pods once they are where a move put them. One that was terminating came back as a new
// one (scheduling 3.2), which topologies count.
func arrived(pods []*cluster.Pod) []*cluster.Pod {
	out := slices.Clone(pods)
	for i, p := range out {
		if p.Terminating {
			again := *p
			again.Terminating = false
			out[i] = &again
		}
	}
	return out
}

// remove removes nodes. Their pods that are planned elsewhere join the batch (scheduling 3.2); the others are deleted
// with the node. The capacity of a node is returned to its pool's limits.
func (c *checker) remove(q solve.Question, m *solve.Move, batch *batchPods) (price float64) {
	if len(m.Remove) == 0 {
		c.add(RemovedTwice, "", "move", "a node to remove", "none")
	}
	for _, name := range m.Remove {
		i := slices.IndexFunc(c.places, func(at *place) bool { return at.node != nil && at.node.Name == name })
		if i < 0 {
			c.add(NodeUnknown, "", "node/"+name, "a node of the snapshot", "none")
			continue
		}
		at := c.places[i]
		if at.removed {
			c.add(RemovedTwice, "", at.name, "removed once", "again")
			continue
		}
		if !slices.Contains(q.Candidates, name) {
			c.add(NotCandidate, "disruption 5", at.name, "a candidate", "none")
		}
		for _, p := range at.stay {
			if !p.Stays {
				batch.add(p, !at.terminating)
			}
		}
		if pool := at.node.Pool; !at.terminating {
			c.sharedLimits.back[pool] = resources.Add(c.sharedLimits.back[pool], at.node.Capacity)
			c.sharedLimits.nodes[pool]++
		}
		price += at.node.Price
		at.stay, at.terminating, at.removed = nil, true, true
	}
	return price
}

// checkTotals judges what the cluster costs. Nodes that are being deleted may count or not: they have a
// price, but not for long.
func (c *checker) checkTotals(result solve.Consolidation) {
	all, staying, saved := 0.0, 0.0, 0.0
	for i := range c.view.Nodes {
		all += c.view.Nodes[i].Price
		if !c.view.Nodes[i].Deleting {
			staying += c.view.Nodes[i].Price
		}
	}
	for i := range result.Moves {
		saved += result.Moves[i].Saves
	}
	if !almostEqual(result.Before, all) && !almostEqual(result.Before, staying) {
		c.add(TotalsWrong, "", "before", fmt.Sprint(all), fmt.Sprint(result.Before))
	}
	if !almostEqual(result.After, result.Before-saved) {
		c.add(TotalsWrong, "", "after", fmt.Sprint(result.Before-saved), fmt.Sprint(result.After))
	}
	if result.Bound > result.After && !almostEqual(result.Bound, result.After) {
		c.add(BoundWrong, "", "bound", fmt.Sprintf("at most %v", result.After), fmt.Sprint(result.Bound))
	}
}

// checkVerdicts verifies that every candidate is either removed or kept for a reason.
func (c *checker) checkVerdicts(q solve.Question, result solve.Consolidation) {
	kept := map[string]bool{}
	for i, v := range result.Kept {
		if i > 0 && result.Kept[i-1].Node > v.Node {
			c.add(Disordered, "", "kept", "by name", "another order")
		}
		if kept[v.Node] || !slices.Contains(q.Candidates, v.Node) {
			c.add(VerdictMissing, "", "node/"+v.Node, "one verdict on a candidate", "another")
		}
		if v.Why.Code == "" {
			c.add(ReasonMissing, "disruption 5", "node/"+v.Node, "a reason", "none")
		}
		kept[v.Node] = true
	}
	for _, at := range c.places {
		if at.node == nil || !slices.Contains(q.Candidates, at.node.Name) {
			continue
		}
		switch stays := kept[at.node.Name]; {
		case at.removed && stays:
			c.add(VerdictMissing, "", at.name, "removed or kept", "both")
		case !at.removed && !stays && !result.Partial: // a partial result has not examined all of them
			c.add(VerdictMissing, "", at.name, "removed or kept", "neither")
		}
	}
}
