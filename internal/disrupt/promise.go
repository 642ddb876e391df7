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
	dearer      = 0.01             // share by which a cluster is dearer than it was if moves were in vain
	shows       = 30 * time.Minute // by then it does
	remembered  = 24 * time.Hour   // for so long moves that were in vain are not made again
	mostPromise = 1000
)

// Promise is what moves have made of the cost of a cluster.
type Promise struct {
	Cost   float64 // USD an hour
	At     time.Time
	Broken bool // another node had to be bought for the same pods soon after

	decided time.Time // when the moves were; At may be later
}

// Promises remembers, for each workload, what moves have brought. Where pods go is decided by the
// scheduler, and if it puts them such that another node has to be bought, the same moves would be made
// for ever. So if what moves brought did not last, there are no more of them as long as the workload is
// the same. Moves that were given up, or a workload that changed since, say nothing.
type Promises struct {
	open  []openMove
	made  map[uint64]Promise
	rates map[uint64]rates // that what was made is counted at, by workload
	now   rates
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

// Note remembers the moves of a decision.
func (p *Promises) Note(d *Decision) {
	if len(d.Commands) == 0 || d.Commands[0].Reason != karpv1.ReasonUnderutilized || len(p.open) >= mostPromise {
		return
	}
	for i := range d.Commands {
		var claims []string
		for j := range d.Commands[i].Remove {
			claims = append(claims, d.Commands[i].Remove[j].Claim)
		}
		p.open = append(p.open, openMove{claims: claims, at: d.At, saves: d.Commands[i].Saves, cost: d.After, rates: p.now})
	}
}

// Observe looks what became of moves and whether it lasts, and returns what counts now.
func (p *Promises) Observe(v *View) map[uint64]Promise {
	if v.Cluster == nil {
		return nil
	}
	p.now = rates{}
	for i := range v.Cluster.Nodes {
		n := &v.Cluster.Nodes[i]
		p.now[rateOf(n)] = n.Price
	}
	if len(p.open)+len(p.made) == 0 {
		return nil
	}
	over := p.ended(v)
	now := Workload(v.Cluster)
	for key, made := range p.made {
		switch age := v.Now.Sub(made.At); {
		case made.Broken:
			if age > remembered {
				delete(p.made, key)
			}
		case key != now || age > shows:
			delete(p.made, key)
		case staying(v.Cluster, p.rates[key]) > made.Cost*(1+dearer) && slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.Created.After(made.At) }):
			made.Broken = true
			p.made[key] = made
		}
	}
	if over != nil && len(p.made) < mostPromise && !p.made[now].Broken {
		if p.made == nil {
			p.made, p.rates = map[uint64]Promise{}, map[uint64]rates{}
		}
		cost := staying(v.Cluster, over.rates)
		made := Promise{Cost: cost, At: over.at, decided: over.at}
		if over.cost > 0 {
			made.Cost = min(cost, over.cost)
		}
		if late := v.Now.Add(-shows / 2); made.At.Before(late) {
			made.At = late
		}
		p.made[now], p.rates[now] = made, over.rates
	}
	maps.DeleteFunc(p.rates, func(key uint64, _ rates) bool { _, still := p.made[key]; return !still })
	return maps.Clone(p.made)
}

// ended forgets moves whose nodes are gone, and those that were given up. It returns the last of the
// former; nil: there were none.
func (p *Promises) ended(v *View) *openMove {
	nodes := byClaim(v.Nodes)
	var done *openMove
	var failed []openMove
	p.open = slices.DeleteFunc(p.open, func(m openMove) bool {
		there, going := 0, 0
		for _, name := range m.claims {
			if n := nodes[name]; n != nil {
				there++
				if n.Going || n.Commanded {
					going++
				}
			}
		}
		switch {
		case there == 0:
			done = &m
		case going == 0:
			failed = append(failed, m)
		}
		return there == 0 || going == 0
	})
	for i := range failed {
		p.excuse(&failed[i], done)
	}
	return done
}

// excuse takes what a move that was given up would have saved off what the others of its decision promised, of
// which one may just have been done.
func (p *Promises) excuse(failed, done *openMove) {
	for i := range p.open {
		p.open[i].excuse(failed)
	}
	if done != nil {
		done.excuse(failed)
	}
	for key, made := range p.made {
		if made.decided.Equal(failed.at) && !made.Broken {
			made.Cost += failed.saves
			p.made[key] = made
		}
	}
}

func (m *openMove) excuse(failed *openMove) {
	if m.at.Equal(failed.at) && m.cost > 0 {
		m.cost += failed.saves
	}
}

// fall drops moves for a workload for which they were in vain.
func (d *Decision) fall(v *View) {
	if len(d.Commands) == 0 || d.Commands[0].Reason != karpv1.ReasonUnderutilized || v.Cluster == nil || len(v.Promises) == 0 {
		return
	}
	made := v.Promises[Workload(v.Cluster)]
	if !made.Broken {
		return
	}
	var stay []News
	for i := range d.Commands {
		c := &d.Commands[i]
		nodes := make([]string, 0, len(c.Remove))
		for j := range c.Remove {
			nodes = append(nodes, c.Remove[j].Node)
		}
		why := reason.Reason{Code: reason.PromisedBefore, Subject: "node/" + nodes[0], Want: dollars(made.Cost), Have: made.At.UTC().Format(time.RFC3339)}
		d.refuse(Refused{Reason: c.Reason, Nodes: nodes, Saves: c.Saves, Cost: c.Cost, Why: why})
		for j := range c.Remove {
			why.Subject = "node/" + c.Remove[j].Node
			stay = append(stay, News{Node: c.Remove[j].Node, Claim: c.Remove[j].Claim, Event: event.Event{Reason: event.Unconsolidatable, Key: string(why.Code), Text: why.Text()}})
		}
	}
	d.Commands = nil
	d.Stay = append(slices.DeleteFunc(d.Stay, func(n News) bool {
		return n.Event.Reason == event.ConsolidationCandidate || n.Event.Reason == event.ConsolidationApproved
	}), stay...)
}

// staying is what the nodes that do not go cost at the prices of then, USD an hour. What was not there then
// costs what it does now.
func staying(s *cluster.Snapshot, then rates) float64 {
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
