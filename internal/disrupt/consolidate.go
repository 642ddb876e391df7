package disrupt

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const (
	// maxSearches is how often moves are searched: again when some of those proposed may not be made now.
	maxSearches = 3
	// maxNodesPerMove is how many nodes one move may remove: all of them wait for the slowest replacement.
	maxNodesPerMove = 100
	// maxExplained is for how many nodes it is found out why their pods have no other place.
	maxExplained = 3
)

// consolidation is the search for moves of one pass.
type consolidation struct {
	*Decision

	v     *View
	g     *planningState
	on    *cluster.Snapshot // the cluster that is searched
	nodes map[string]*cluster.ManagedNode
	types map[string]map[string]bool // instance types by pool
	pools map[string]*account        // of pools with policy Balanced
	left  map[string]int             // budgets
	seen  map[string]bool            // moves that were judged
}

// consolidate moves pods together so that the cluster costs less (disruption 13 to 15a). All moves are
// planned together, and each is valid once those before it are made.
func (d *Decision) consolidate(v *View, g *planningState) {
	if v.Cluster == nil {
		return
	}
	c := &consolidation{
		Decision: d, v: v, g: g, nodes: make(map[string]*cluster.ManagedNode, len(v.Nodes)), types: offeredTypes(v.Cluster),
		pools: accounts(v), left: d.remainingBudgets(karpv1.ReasonUnderutilized), seen: map[string]bool{},
	}
	var names []string
	for i := range v.Nodes {
		n := &v.Nodes[i]
		c.nodes[n.Name] = n
		if c.eligible(n) {
			d.Eligible[karpv1.ReasonUnderutilized]++
			if c.inBudget(n) {
				names = append(names, n.Name)
			}
		}
	}
	if len(names) == 0 {
		return
	}
	if g.snapshot() == nil {
		d.Partial = true
		return
	}
	c.on = g.excludeEmptyNodes(d.Allowed[karpv1.ReasonEmpty])
	for _, m := range c.selectCommands(names) {
		c.addMoveCommand(&m)
	}
}

// eligible reports whether a node may be consolidated at all (disruption 5), and records why not.
func (c *consolidation) eligible(n *cluster.ManagedNode) bool {
	pool := c.v.Pools[n.Pool]
	if pool.Static || blocked(c.v, n, graceful) != nil {
		return false
	}
	why := reason.Reason{}
	switch {
	case !c.types[n.Pool][n.InstanceType]:
		why.Code, why.Have = reason.TypeUnknown, n.InstanceType
	case n.CapacityType == "":
		why.Code, why.Want = reason.LabelAbsent, karpv1.LabelCapacityType
	case n.Zone == "":
		why.Code, why.Want = reason.LabelAbsent, corev1.LabelTopologyZone
	case pool.NeverConsolidate:
		if isEmpty(n) { // Emptiness has said so
			return false
		}
		why.Code, why.Have = reason.ConsolidationOff, pool.Name
	case isEmpty(n) && !c.g.heldByBuffer(n.Name):
		return false
	case pool.Policy == karpv1.ConsolidationWhenEmpty:
		why.Code, why.Have = reason.EmptyOnly, pool.Name
	default:
		return !n.Settling && c.worthConsolidating(n)
	}
	c.reportUnconsolidatable(n, karpv1.ReasonUnderutilized, why, c.g.utilizationText(n.Name))
	return false
}

// worthConsolidating reports whether a node is old enough, expects no pods, and could be worth removing: if not even
// a move without a replacement is, none is.
func (c *consolidation) worthConsolidating(n *cluster.ManagedNode) bool {
	why := reason.Reason{Subject: "node/" + n.Name}
	best := &solve.Move{Remove: []string{n.Name}, Saves: n.Price, Frees: n.Frees}
	age := c.v.Now.Sub(n.Created)
	switch {
	case age < c.v.Tuning.MinAge:
		why.Code, why.Have, why.Want = reason.NodeYoung, age.Truncate(time.Second).String(), c.v.Tuning.MinAge.String()
	case c.g.expectsPods(n.Name):
		why.Code = reason.NodeNominated
	default:
		bad := c.benefitTooSmall(best)
		if pool := c.pools[n.Pool]; bad == nil && pool != nil && pool.price > 0 {
			bad, _ = c.balancedRefusal(best)
		}
		if bad == nil {
			return true
		}
		why.Code, why.Have, why.Want = bad.Code, bad.Have, bad.Want
	}
	if why.Code == reason.NodeYoung || why.Code == reason.BenefitTooSmall { // settings of ours that users have to know of
		c.reportUnconsolidatable(n, karpv1.ReasonUnderutilized, why, c.g.utilizationText(n.Name))
		return false
	}
	c.addRefusal(Refused{Reason: karpv1.ReasonUnderutilized, Nodes: best.Remove, Why: why})
	return false
}

func (c *consolidation) inBudget(n *cluster.ManagedNode) bool {
	if c.left[n.Pool] == 0 {
		c.refuseOverBudget(n, karpv1.ReasonUnderutilized)
		return false
	}
	return true
}

// selectCommands searches for moves. It prefers those moves of a plan for the whole cluster that can be made now:
// then pods move to where they will stay. If these are few, because budgets are small or moves are not allowed, it
// searches for moves within the budgets only.
func (c *consolidation) selectCommands(names []string) []solve.Move {
	plan := c.searchMoves(names, nil)
	c.Bound = plan.Bound
	now := c.filterMoves(plan)
	if !now.all && !c.searchFinished(plan, now) {
		var best filteredMoves
		most, last, size := maps.Clone(c.left), now, maxNodesPerMove
		for range maxSearches - 1 {
			names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return last.bad[name] })
			if last.large {
				for pool := range most {
					most[pool] = min(most[pool], size)
				}
				size /= 2
			}
			result := c.searchMoves(names, most)
			if last = c.filterMoves(result); len(best.good) == 0 || saved(last.good) > saved(best.good) {
				best = last
			}
			if last.all || c.searchFinished(result, best) {
				break
			}
		}
		const enough = 2 // how much less may be saved now to come closer to the plan
		if len(now.good) == 0 || saved(best.good) > enough*saved(now.good) {
			now = best
		}
	}
	c.reportKeptNodes(plan, len(now.good) > 0)
	return now.good
}

func (c *consolidation) searchMoves(names []string, most map[string]int) solve.Consolidation {
	q := solve.Question{View: c.on, Candidates: names, Policy: c.g.policy, Most: maps.Clone(most), First: c.v.First}
	result, known := c.v.SearchCache.find(q)
	if !known {
		result = solve.ConsolidateWithin(q, solve.Limits{Stop: c.g.stop, Joint: c.v.Joint, Single: c.v.Single})
		c.v.SearchCache.record(q, result)
	}
	c.Partial = c.Partial || result.Partial
	if len(result.Unreached) > 0 {
		c.Unreached = result.Unreached
	}
	return result
}

// searchFinished reports whether the search is not repeated: time is up, and the moves found can be made or no more
// will be found.
func (c *consolidation) searchFinished(result solve.Consolidation, found filteredMoves) bool {
	return result.Partial && (len(found.good) > 0 || c.g.stop() || c.v.Single != nil && c.v.Single())
}

func saved(moves []solve.Move) float64 {
	sum := 0.0
	for i := range moves {
		sum += moves[i].Saves
	}
	return sum
}

// filteredMoves is the outcome of filtering the moves of a search.
type filteredMoves struct {
	good  []solve.Move    // may be made now
	bad   map[string]bool // nodes to leave out of the next search
	large bool            // some move had too many nodes
	all   bool            // every move may be made now
}

// filterMoves selects the moves that may be made. A move has to wait if it depends on one that is not made, or if it
// exceeds budgets.
func (c *consolidation) filterMoves(result solve.Consolidation) filteredMoves {
	out := filteredMoves{bad: map[string]bool{}, all: true}
	left := maps.Clone(c.left)
	for i := range result.Moves {
		m := &result.Moves[i]
		why := c.judgeMove(m)
		switch {
		case why != nil && why.Code == reason.MoveTooLarge:
			out.large, out.all, c.Limited = true, false, true
		case why != nil:
			for _, name := range c.leastWorthwhile(m) {
				out.bad[name] = true
			}
			out.all = false
		case !out.all && !result.Loose:
		case c.takeFromBudgets(m, left):
			out.good = append(out.good, *m)
		default:
			c.Limited, out.all = true, false
		}
	}
	c.Limited = c.Limited || result.Limited
	return out
}

// takeFromBudgets subtracts the nodes of a move from the budgets, if they allow it.
func (c *consolidation) takeFromBudgets(m *solve.Move, left map[string]int) bool {
	need := map[string]int{}
	for _, name := range m.Remove {
		need[c.nodes[name].Pool]++
	}
	for pool, count := range need {
		if left[pool] < count {
			return false
		}
	}
	for pool, count := range need {
		left[pool] -= count
	}
	return true
}

// judgeMove says why a move may not be made; nil if it may. What it says is kept the first time.
func (c *consolidation) judgeMove(m *solve.Move) *reason.Reason {
	key := strings.Join(m.Remove, " ")
	why := c.benefitTooSmall(m)
	if len(m.Remove) > maxNodesPerMove {
		why = &reason.Reason{Code: reason.MoveTooLarge, Have: strconv.Itoa(len(m.Remove)), Want: strconv.Itoa(maxNodesPerMove)}
	}
	if why == nil {
		var scores []Score
		why, scores = c.balancedRefusal(m)
		if !c.seen[key] {
			c.Scores = append(c.Scores, scores...)
		}
	}
	if why != nil && !c.seen[key] {
		c.addRefusal(Refused{Reason: karpv1.ReasonUnderutilized, Nodes: m.Remove[:min(len(m.Remove), maxNodesPerMove)], Why: *why, Saves: m.Saves, Cost: c.cost(m)})
	}
	c.seen[key] = true
	return why
}

// benefitTooSmall returns a reason if a move saves too little over the horizon for the pods it evicts. A node without
// a known price can be removed, because it may save something. Reserved capacity that is freed counts with its
// on-demand price.
func (c *consolidation) benefitTooSmall(m *solve.Move) *reason.Reason {
	if len(m.Create) == 0 && slices.ContainsFunc(m.Remove, func(name string) bool { return !c.nodes[name].Priced() }) {
		return nil
	}
	gain := (m.Saves + m.Frees) * c.v.Tuning.Horizon.Hours()
	cost := c.v.Tuning.PodCost * (c.cost(m) - float64(len(m.Remove)))
	if gain >= cost {
		return nil
	}
	have := dollars(gain)
	if m.Frees > 0 {
		have = dollars(gain-m.Frees*c.v.Tuning.Horizon.Hours()) + " and frees reserved capacity that costs " + have + " on demand"
	}
	return &reason.Reason{Code: reason.BenefitTooSmall, Have: have + " in " + c.v.Tuning.Horizon.String(), Want: dollars(cost)}
}

// cost is what it costs to move the pods of a move (disruption 10).
func (c *consolidation) cost(m *solve.Move) float64 {
	sum := 0.0
	for _, name := range m.Remove {
		sum += moveCost(c.nodes[name])
	}
	return sum
}

// leastWorthwhile returns the nodes to leave out when a move may not be made: those that save least for what
// moving their pods costs, so that a smaller move with the others can be found.
func (c *consolidation) leastWorthwhile(m *solve.Move) []string {
	list := make([]*cluster.ManagedNode, 0, len(m.Remove))
	for _, name := range m.Remove {
		list = append(list, c.nodes[name])
	}
	sortBySavingPerMoveCost(list)
	var out []string
	for _, n := range list[len(list)/2:] {
		out = append(out, n.Name)
	}
	return out
}

// addMoveCommand turns a move into a command and reports it.
func (c *consolidation) addMoveCommand(m *solve.Move) {
	cmd := Command{Reason: karpv1.ReasonUnderutilized, Type: "single", Decision: Delete, Create: m.Create, Bind: m.Bind, Saves: m.Saves, Frees: m.Frees}
	if len(m.Remove) > 1 {
		cmd.Type = "multi"
	}
	if len(m.Create) > 0 {
		cmd.Decision = Replace
	}
	for _, name := range m.Remove {
		cmd.Remove = append(cmd.Remove, candidateOf(c.nodes[name]))
	}
	for _, s := range c.scoreByPool(m) {
		if cmd.Score == 0 || s.Value < cmd.Score {
			cmd.Score = s.Value
		}
		c.reportApproval(m, s)
	}
	for _, name := range m.Remove {
		text := fmt.Sprintf("node/%s: %s", name, cmd.Decision)
		if len(m.Remove) > 1 {
			text += fmt.Sprintf(", with %d others", len(m.Remove)-1)
		}
		text += fmt.Sprintf("; replacements: %d", len(m.Create))
		if m.Frees > 0 {
			text += cmd.freesText()
		} else {
			text += fmt.Sprintf(", saves %s an hour", dollars(m.Saves))
		}
		c.addEvent(c.nodes[name], event.ConsolidationCandidate, "", text+c.g.utilizationText(name))
	}
	c.addCommand(cmd)
}

// reportKeptNodes reports why candidates are kept. While other nodes are removed or budgets are exhausted, that a
// node is kept says little about it. That there was no time for a node is not reported: the next pass examines it
// again.
func (c *consolidation) reportKeptNodes(result solve.Consolidation, moving bool) {
	explained, g := 0, c.g.withStop(c.v.Single)
	for i := range result.Kept {
		k := &result.Kept[i]
		n, why := c.nodes[k.Node], k.Why
		if isEmpty(n) { // a buffer holds it, as Emptiness has said
			continue
		}
		if why.Code == reason.NothingCheaper && (moving || result.Limited) {
			continue
		}
		if why.Code == reason.OutOfTime {
			c.addRefusal(Refused{Reason: karpv1.ReasonUnderutilized, Nodes: []string{k.Node}, Why: why})
			continue
		}
		if why.Code == reason.PodsStranded && !moving && explained < maxExplained {
			explained++
			if h := g.relocatePods(n, false); h.Known && len(h.Unplaced) > 0 {
				why = strandedReason(h.Unplaced)
			}
		}
		c.reportUnconsolidatable(n, karpv1.ReasonUnderutilized, why, c.g.utilizationText(n.Name))
	}
}

func dollars(v float64) string { return "$" + strconv.FormatFloat(v, 'f', 2, 64) }
