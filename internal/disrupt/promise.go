package disrupt

import (
	"hash/fnv"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

const (
	leastFall   = 0.001            // share of the cost of a cluster by which moves must undercut those before them
	dearer      = 0.01             // share of what was promised by which a cluster is dearer if it was not kept
	shows       = 30 * time.Minute // by then it does
	remembered  = 24 * time.Hour   // for so long a promise that was broken is not made again
	mostPromise = 1000
)

// Promise is what moves were to make of the cost of a cluster.
type Promise struct {
	Cost   float64 // USD an hour
	At     time.Time
	Broken bool // the cluster became dearer soon after
}

// Promises remembers, for each workload, what moves promised. Where pods go is decided by the scheduler,
// and if it puts them such that another node has to be bought, the same moves would be made for ever.
// So moves for a workload have to reach a lower cost each time, and if it did not last there are no more
// of them as long as the workload is the same.
type Promises struct {
	made map[uint64]Promise
}

// Observe looks whether promises are kept, and returns those that count now.
func (p *Promises) Observe(v *View) map[uint64]Promise {
	if len(p.made) == 0 || v.Cluster == nil {
		return nil
	}
	now, cost := Workload(v.Cluster), staying(v.Cluster)
	out := make(map[uint64]Promise, len(p.made))
	for key, made := range p.made {
		switch age := v.Now.Sub(made.At); {
		case made.Broken && age > remembered || !made.Broken && age > shows:
			delete(p.made, key)
			continue
		case key == now && !made.Broken && cost > made.Cost*(1+dearer):
			made.Broken = true
			p.made[key] = made
		}
		out[key] = made
	}
	return out
}

// Note remembers what a decision promises.
func (p *Promises) Note(d *Decision) {
	if d.Workload == 0 || len(p.made) >= mostPromise {
		return
	}
	if p.made == nil {
		p.made = map[uint64]Promise{}
	}
	p.made[d.Workload] = Promise{Cost: d.Promised, At: d.At}
}

// fall drops moves that promise no more than others did before, or that would not be kept.
func (d *Decision) fall(v *View) {
	if len(d.Commands) == 0 || d.Commands[0].Reason != karpv1.ReasonUnderutilized || v.Cluster == nil {
		return
	}
	before := staying(v.Cluster)
	after := before
	for i := range d.Commands {
		after -= d.Commands[i].Saves
	}
	d.Workload, d.Promised = Workload(v.Cluster), after
	made, known := v.Promises[d.Workload]
	if !known || !made.Broken && after < made.Cost-leastFall*before {
		return
	}
	for i := range d.Commands {
		c := &d.Commands[i]
		nodes := make([]string, 0, len(c.Remove))
		for j := range c.Remove {
			nodes = append(nodes, c.Remove[j].Node)
		}
		d.refuse(Refused{Reason: c.Reason, Nodes: nodes, Saves: c.Saves, Cost: c.Cost, Why: reason.Reason{
			Code: reason.PromisedBefore, Subject: "node/" + nodes[0], Have: dollars(after), Want: dollars(made.Cost),
		}})
	}
	d.Commands, d.Workload, d.Promised = nil, 0, 0
}

// staying is what the nodes that do not go cost, USD an hour.
func staying(s *cluster.Snapshot) float64 {
	sum := 0.0
	for i := range s.Nodes {
		if !s.Nodes[i].Deleting {
			sum += s.Nodes[i].Price
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
	for shape, n := range count {
		h := fnv.New64a()
		h.Write([]byte(shape.Key))
		sum += h.Sum64() * n // the order does not matter
	}
	return max(sum, 1)
}
