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
	revertedCostShare = 0.01             // share by which a cluster is dearer than it was if moves were in vain
	observationPeriod = 30 * time.Minute // by then it does
	outcomeRetention  = 24 * time.Hour   // for so long moves that were in vain are not made again
	maxOutcomes       = 1000
)

// MoveOutcome is what moves have made of the cost of a cluster.
type MoveOutcome struct {
	Cost     float64 // USD an hour
	At       time.Time
	Reverted bool // another node had to be bought for the same pods soon after

	decided time.Time // when the moves were; At may be later
}

// OutcomeHistory remembers, for each workload, what moves have brought. Where pods go is decided by the
// scheduler, and if it puts them such that another node has to be bought, the same moves would be made
// for ever. So if what moves brought did not last, there are no more of them as long as the workload is
// the same. Moves that were given up, or a workload that changed since, say nothing.
type OutcomeHistory struct {
	openMoves []openMove
	outcomes  map[uint64]MoveOutcome
	rates     map[uint64]rates // that what was made is counted at, by workload
	now       rates
}

// rates are prices of instances, USD an hour. A cluster is compared with what it was at the prices of then:
// that prices rose says nothing about moves.
type rates map[rate]float64

type rate struct{ instanceType, zone, capacityType string }

func rateOf(n *cluster.Node) rate { return rate{n.InstanceType, n.Zone, n.CapacityType} }

// openMove is a move that is not over: the claims it removes, when that was decided, what it saves, and what
// the cluster was to cost after all moves of that decision; 0: not known. A node that has to be bought for its
// pods is often there before the last of those claims is gone, so what the cluster costs at the end does not
// show it.
type openMove struct {
	claims []string
	at     time.Time
	saves  float64
	cost   float64
	rates  rates
}

// RecordMoves remembers the moves of a decision.
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

// Observe looks what became of moves and whether it lasts, and returns what counts now.
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
		case remainingCost(v.Cluster, p.rates[key]) > made.Cost*(1+revertedCostShare) && slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.Created.After(made.At) }):
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

// closeFinishedMoves forgets moves whose nodes are gone, and those that were given up. It returns the last of the
// former; nil: there were none.
func (p *OutcomeHistory) closeFinishedMoves(v *View) *openMove {
	nodes := byClaim(v.Nodes)
	var done *openMove
	var failed []openMove
	p.openMoves = slices.DeleteFunc(p.openMoves, func(m openMove) bool {
		there, deleting := 0, 0
		for _, name := range m.claims {
			if n := nodes[name]; n != nil {
				there++
				if n.Deleting || n.Commanded {
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

// discountFailedMove takes what a move that was given up would have saved off what the others of its decision promised, of
// which one may just have been done.
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

// dropRevertedMoves drops moves for a workload for which they were in vain.
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

// remainingCost is what the nodes that do not go cost at the prices of then, USD an hour. What was not there then
// costs what it does now.
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

// Workload tells one set of pods from another, whatever their names and places: pods that ask for the
// same are the same.
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
