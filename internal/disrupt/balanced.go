package disrupt

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const (
	// balancedFactor is how many times the share of its saving a move may disrupt (k of disruption 15a).
	balancedFactor = 2
	// leastScore is what a move must score in every Balanced pool it takes nodes from.
	leastScore = 1.0 / balancedFactor
	// rounding is how far below that sums of prices may end up that are exactly there.
	rounding = 1e-9
)

// account is what the nodes of a pool cost, and what moving all their pods would.
type account struct {
	price, move float64
}

// accountedPrice is what a node counts as: its price, and on reserved capacity what others would pay without it.
func accountedPrice(n *cluster.ManagedNode) float64 { return max(0, n.Price) + n.Frees }

// accounts adds up the pools with policy Balanced: all nodes, candidates or not.
func accounts(v *View) map[string]*account {
	out := map[string]*account{}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if v.Pools[n.Pool].Policy != karpv1.ConsolidationBalanced {
			continue
		}
		if out[n.Pool] == nil {
			out[n.Pool] = &account{}
		}
		out[n.Pool].price += accountedPrice(n)
		out[n.Pool].move += moveCost(n)
	}
	return out
}

// scoreByPool scores a move for each Balanced pool that it removes nodes from, by name: the share of the pool's cost
// that it saves over the share of the pool's pods that it moves. The saving is divided among the pools by their share
// in the price of the removed nodes.
func (c *consolidation) scoreByPool(m *solve.Move) []Score {
	source, byPool := 0.0, map[string]account{}
	for _, name := range m.Remove {
		n := c.nodes[name]
		source += accountedPrice(n)
		a := byPool[n.Pool]
		byPool[n.Pool] = account{a.price + accountedPrice(n), a.move + moveCost(n)}
	}
	var out []Score
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		pool, part := c.pools[name], byPool[name]
		if pool == nil {
			continue
		}
		s := Score{
			Pool: name, Nodes: m.Remove[:min(len(m.Remove), maxNodesPerMove)], Decision: Delete, Cost: part.move, PoolPrice: pool.price, PoolCost: pool.move, Least: leastScore, K: balancedFactor,
		}
		if len(m.Create) > 0 {
			s.Decision = Replace
		}
		if source > 0 && pool.price > 0 && pool.move > 0 {
			s.Saves = (m.Saves + m.Frees) * part.price / source
			s.Savings = s.Saves / pool.price
			s.Moving = part.move / pool.move
			s.Value = max(0, s.Savings/s.Moving)
		}
		s.Approved = s.Value >= leastScore-rounding
		out = append(out, s)
	}
	return out
}

// balancedRefusal says that a Balanced pool does not approve of a move. Others do not vote.
func (c *consolidation) balancedRefusal(m *solve.Move) (*reason.Reason, []Score) {
	scores := c.scoreByPool(m)
	for _, s := range scores {
		if !s.Approved {
			return &reason.Reason{Code: reason.ScoreTooLow, Have: score(s.Value) + " for NodePool " + s.Pool, Want: score(leastScore)}, scores
		}
	}
	return nil, scores
}

// reportApproval reports that a Balanced pool approved: on the node, or on the pool if several nodes are removed.
func (c *consolidation) reportApproval(m *solve.Move, s Score) {
	does, cost := "saving", "cost"
	if m.Frees > 0 {
		does, cost = "freeing", "worth"
	}
	text := fmt.Sprintf("Policy Balanced approves: score %s, at least %s (k %d), %s %s of the %s of NodePool %s for %s of its disruption",
		score(s.Value), score(leastScore), balancedFactor, does, share(s.Savings), cost, s.Pool, share(s.Moving))
	news := ObjectEvent{Pool: s.Pool, Event: event.Event{Reason: event.ConsolidationApproved, Text: text}}
	if len(m.Remove) == 1 {
		n := c.nodes[m.Remove[0]]
		news.Pool, news.Node, news.Claim = "", n.Name, n.Claim
	}
	c.Events = append(c.Events, news)
}

func score(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }
func share(v float64) string { return strconv.FormatFloat(v*100, 'f', 1, 64) + " %" }
