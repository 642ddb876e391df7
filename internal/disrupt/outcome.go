package disrupt

import (
	"hash/fnv"
	"maps"
	"slices"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

const (
	revertedCostShare = 0.01             // share by which the cost must rise for moves to count as reverted
	observationPeriod = 30 * time.Minute // a cost increase later than this is not attributed to the moves
	outcomeRetention  = 24 * time.Hour   // reverted moves are not repeated for this long
	maxOutcomes       = 1000
)

// MoveOutcome is the cost of the cluster that moves led to.
type MoveOutcome struct {
	Cost     float64 // USD an hour
	At       time.Time
	Reverted bool // another node had to be launched for the same pods soon after

	decided time.Time // when the moves were; At may be later
}

// OutcomeHistory records the outcome of moves for each workload. kube-scheduler decides where pods run. If it
// places them so that another node is needed, the same moves would repeat forever. So once moves were
// reverted, no more are made for the same workload. Cancelled moves and a changed workload are no evidence.
type OutcomeHistory struct {
	openMoves []openMove
	outcomes  map[uint64]MoveOutcome
	rates     map[uint64]rates // prices that an outcome is computed with, by workload
	now       rates
}

// rates are instance prices, USD an hour. The cost of the cluster is compared at the prices of the time of the
// move: a price increase says nothing about moves.
type rates map[rate]float64

type rate struct{ instanceType, zone, capacityType string }

func rateOf(n *cluster.Node) rate { return rate{n.InstanceType, n.Zone, n.CapacityType} }

// openMove is a move in progress: the claims it removes, when it was decided, what it saves, and the expected
// cost of the cluster after all moves of that decision (0: not known). An additional node for its pods is often
// launched before the last of those claims is deleted, so the cost at the end would not show it.
type openMove struct {
	claims []string
	at     time.Time
	saves  float64
	cost   float64
	rates  rates
}

// RecordMoves adds the moves of a decision to those in progress.
func (p *OutcomeHistory) RecordMoves(d *Decision) {
	if len(d.Commands) == 0 || d.Commands[0].Reason != karpv1.ReasonUnderutilized || len(p.openMoves) >= maxOutcomes {
		return
	}
	for i := range d.Commands {
		var claims []string
		for j := range d.Commands[i].Remove {
			claims = append(claims, d.Commands[i].Remove[j].Claim)
		}
		p.openMoves = append(p.openMoves, openMove{claims: claims, at: d.At, saves: d.Commands[i].Saves, cost: d.After, rates: p.now})
	}
}

// Observe updates the outcomes from a view, and returns those in effect by workload.
func (p *OutcomeHistory) Observe(v *View) map[uint64]MoveOutcome {
	if v.Cluster == nil {
		return nil
	}
	p.now = rates{}
	for i := range v.Cluster.Nodes {
		n := &v.Cluster.Nodes[i]
		p.now[rateOf(n)] = n.Price
	}
	if len(p.openMoves)+len(p.outcomes) == 0 {
		return nil
	}
	over := p.closeFinishedMoves(v)
	now := Workload(v.Cluster)
	for key, made := range p.outcomes {
		switch age := v.Now.Sub(made.At); {
		case made.Reverted:
			if age > outcomeRetention {
				delete(p.outcomes, key)
			}
		case key != now || age > observationPeriod:
			delete(p.outcomes, key)
		case remainingCost(v.Cluster, p.rates[key]) > made.Cost*(1+revertedCostShare) && slices.ContainsFunc(v.Nodes, func(n cluster.ManagedNode) bool { return n.Created.After(made.At) }):
			made.Reverted = true
			p.outcomes[key] = made
		}
	}
	if over != nil && len(p.outcomes) < maxOutcomes && !p.outcomes[now].Reverted {
		if p.outcomes == nil {
			p.outcomes, p.rates = map[uint64]MoveOutcome{}, map[uint64]rates{}
		}
		cost := remainingCost(v.Cluster, over.rates)
		made := MoveOutcome{Cost: cost, At: over.at, decided: over.at}
		if over.cost > 0 {
			made.Cost = min(cost, over.cost)
		}
		if late := v.Now.Add(-observationPeriod / 2); made.At.Before(late) {
			made.At = late
		}
		p.outcomes[now], p.rates[now] = made, over.rates
	}
	maps.DeleteFunc(p.rates, func(key uint64, _ rates) bool { _, still := p.outcomes[key]; return !still })
	return maps.Clone(p.outcomes)
}

// closeFinishedMoves drops moves whose nodes are deleted, and cancelled moves. It returns the last finished one;
// nil if there is none.
func (p *OutcomeHistory) closeFinishedMoves(v *View) *openMove {
	nodes := byClaim(v.Nodes)
	var done *openMove
	var failed []openMove
	p.openMoves = slices.DeleteFunc(p.openMoves, func(m openMove) bool {
		there, deleting := 0, 0
		for _, name := range m.claims {
			if n := nodes[name]; n != nil {
				there++
				if n.BeingRemoved || n.Commanded {
					deleting++
				}
			}
		}
		switch {
		case there == 0:
			done = &m
		case deleting == 0:
			failed = append(failed, m)
		}
		return there == 0 || deleting == 0
	})
	for i := range failed {
		p.discountFailedMove(&failed[i], done)
	}
	return done
}

// discountFailedMove adds the lost saving of a cancelled move to the expected cost of the other moves of its
// decision. done is the move that finished in the same pass, if any.
func (p *OutcomeHistory) discountFailedMove(failed, done *openMove) {
	for i := range p.openMoves {
		p.openMoves[i].addFailedSaving(failed)
	}
	if done != nil {
		done.addFailedSaving(failed)
	}
	for key, made := range p.outcomes {
		if made.decided.Equal(failed.at) && !made.Reverted {
			made.Cost += failed.saves
			p.outcomes[key] = made
		}
	}
}

func (m *openMove) addFailedSaving(failed *openMove) {
	if m.at.Equal(failed.at) && m.cost > 0 {
		m.cost += failed.saves
	}
}

// dropRevertedMoves drops the moves of a decision if earlier moves of the same workload were reverted.
func (d *Decision) dropRevertedMoves(v *View) {
	if len(d.Commands) == 0 || d.Commands[0].Reason != karpv1.ReasonUnderutilized || v.Cluster == nil || len(v.Outcomes) == 0 {
		return
	}
	made := v.Outcomes[Workload(v.Cluster)]
	if !made.Reverted {
		return
	}
	var stay []ObjectEvent
	for i := range d.Commands {
		c := &d.Commands[i]
		nodes := make([]string, 0, len(c.Remove))
		for j := range c.Remove {
			nodes = append(nodes, c.Remove[j].Node)
		}
		why := reason.Reason{Code: reason.PromisedBefore, Subject: "node/" + nodes[0], Want: dollars(made.Cost), Have: made.At.UTC().Format(time.RFC3339)}
		d.addRefusal(Refused{Reason: c.Reason, Nodes: nodes, Saves: c.Saves, Cost: c.Cost, Why: why})
		for j := range c.Remove {
			why.Subject = "node/" + c.Remove[j].Node
			stay = append(stay, ObjectEvent{Node: c.Remove[j].Node, Claim: c.Remove[j].Claim, Event: event.Event{Reason: event.Unconsolidatable, Key: string(why.Code), Text: why.Text()}})
		}
	}
	d.Commands = nil
	d.Events = append(slices.DeleteFunc(d.Events, func(n ObjectEvent) bool {
		return n.Event.Reason == event.ConsolidationCandidate || n.Event.Reason == event.ConsolidationApproved
	}), stay...)
}

// remainingCost is the cost of the nodes that are not being deleted, USD an hour, at earlier prices. A node
// without an earlier price counts at its current price.
func remainingCost(s *cluster.Snapshot, then rates) float64 {
	sum := 0.0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		price, known := then[rateOf(n)]
		switch {
		case n.Deleting:
		case known:
			sum += price
		default:
			sum += n.Price
		}
	}
	return sum
}

// Workload is a hash of the set of pods, independent of their names and nodes. Pods of equal shape are
// interchangeable.
func Workload(s *cluster.Snapshot) uint64 {
	count := map[*cluster.Shape]uint64{}
	note := func(pods []cluster.Pod) {
		for i := range pods {
			if p := &pods[i]; p.Shape != nil && !p.Daemon && !p.Terminating && !p.Virtual {
				count[p.Shape]++
			}
		}
	}
	for i := range s.Nodes {
		note(s.Nodes[i].Pods)
	}
	note(s.Pending)
	sum := uint64(1)
	// any order: integers are added up
	for shape, n := range count {
		h := fnv.New64a()
		h.Write([]byte(shape.Key))
		sum += h.Sum64() * n
	}
	return max(sum, 1)
}
