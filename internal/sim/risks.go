package sim

import (
	"math"
	"slices"
	"strings"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/risk"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// notice is what the cloud says of an instance.
type notice struct {
	id        string
	rebalance bool // that it may be interrupted soon, not that it will be
}

// observed is what a process has observed of offerings.
type observed struct {
	book    risk.Book
	base    *catalog.InstanceType // of the list that types were made from
	version uint64
	types   []catalog.InstanceType
	events  []riskEvent // for the rules
}

// riskEvent is an observation.
type riskEvent struct {
	event risk.Event
	of    risk.Offering
	at    time.Time
}

// recordRisk counts an observation. It is lost with the process.
func (p *process) recordRisk(e risk.Event, machine, zone, capacityType string) {
	if !p.w.config.Risks {
		return
	}
	of := risk.Offering{InstanceType: machine, Zone: zone, CapacityType: capacityType}
	p.w.logf("controller: %s of %s in %s, %s", e, machine, zone, capacityType)
	p.risks.events = append(p.risks.events, riskEvent{e, of, p.w.now})
	p.w.config.Steps.RecordRisk(&p.risks.book, e, of, p.w.now)
}

// withRisk returns what can be launched, with what the risk of it counts.
func (p *process) withRisk(list []catalog.InstanceType) []catalog.InstanceType {
	if !p.w.config.Risks {
		return list
	}
	r := &p.risks
	version := r.book.Version(p.w.now)
	if r.base == &list[0] && r.version == version {
		return r.types
	}
	r.base, r.version, r.types = &list[0], version, slices.Clone(list)
	for i := range r.types {
		t := &r.types[i]
		t.Offerings = slices.Clone(t.Offerings)
		for j := range t.Offerings {
			o := &t.Offerings[j]
			if o.CapacityType == karpv1.CapacityTypeReserved {
				continue
			}
			of := risk.Offering{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType}
			share := r.book.Share(of, p.w.now)
			p.w.checks.counts(r, of, share)
			o.Risk = o.Price * share
		}
	}
	return r.types
}

// counts checks what the risk of an offering counts against what the rules say of all that was observed (IR-01, IR-02).
// It does not use the code of the controller. Shares have steps.
func (c *checks) counts(r *observed, of risk.Offering, share float64) {
	const step, most, halfLife = 0.025, 0.3, 2 * time.Hour
	family := func(name string) string { name, _, _ = strings.Cut(name, "."); return name }
	own, others := 0.0, 0.0
	var ownAt, othersAt time.Time
	decay := func(share float64, from, to time.Time) float64 {
		return share * math.Exp2(-float64(to.Sub(from))/float64(halfLife))
	}
	for _, e := range r.events {
		if e.of.Zone != of.Zone || e.of.CapacityType != of.CapacityType || family(e.of.InstanceType) != family(of.InstanceType) {
			continue
		}
		adds, all := 0.05, 0.0
		switch e.event {
		case risk.Interrupted:
			adds, all = 0.1, 0.025
		case risk.InsufficientCapacity:
			all = 0.025
		case risk.RebalanceRecommended:
		}
		others, othersAt = min(most, decay(others, othersAt, e.at)+all), e.at
		if e.of.InstanceType == of.InstanceType {
			own, ownAt = min(most, decay(own, ownAt, e.at)+adds-all), e.at
		}
	}
	want := min(most, decay(own, ownAt, c.w.now)+decay(others, othersAt, c.w.now))
	if share < 0 || share > most+rounding || math.Abs(share-want) > 2*step {
		c.w.broken("risk", "the risk of %v counts as %.3f of its price; after %d observations it should be %.3f", of, share, len(r.events), want)
	}
}

// decays records that risk counts less than before, or more: what was too dear may be worth a move again.
func (c *checks) decays() {
	p := c.w.process
	if p == nil || !c.w.config.Risks {
		return
	}
	if version := p.risks.book.Version(c.w.now); version != c.risk {
		c.risk, c.shapes, c.moved, c.stirred = version, nil, nil, c.w.now
	}
}

// spreads checks a plan against the one without a share of spot pools: spreading leaves no pod unplaced, and costs little,
// the fee for nodes that are more included (IR-06).
func (c *checks) spreads(q solve.Problem, plan solve.Plan) {
	const dearer = 1.03
	if q.Policy.SpotShare <= 0 || len(plan.Create) == 0 {
		return
	}
	q.Policy.SpotShare = 0
	without := solve.Solve(q, func() bool { return false })
	cost := func(list []solve.NewNode) (usd float64) {
		for i := range list {
			usd += list[i].Offer.Price
		}
		return usd
	}
	fees := q.Policy.NodeFee * float64(max(0, len(plan.Create)-len(without.Create)))
	if len(plan.Unplaced) != len(without.Unplaced) || cost(plan.Create)+fees > dearer*cost(without.Create)+rounding {
		c.w.broken("IR-06", "a plan that spreads has %d nodes for $%.5f an hour and %d pods without place, one that does not %d for $%.5f and %d",
			len(plan.Create), cost(plan.Create), len(plan.Unplaced), len(without.Create), cost(without.Create), len(without.Unplaced))
	}
}

// reclaimPool takes back all instances of a spot pool at once.
func (w *World) reclaimPool() {
	list := slices.DeleteFunc(w.market.running(), func(i *instance) bool { return i.capacityType != karpv1.CapacityTypeSpot })
	if len(list) == 0 {
		return
	}
	of := list[w.rnd.IntN(len(list))]
	name := offering(of.machine.Name, of.zone, karpv1.CapacityTypeSpot)
	w.market.gone[name] = w.now.Add(w.between(5*time.Minute, 30*time.Minute))
	for _, i := range list {
		if i.machine == of.machine && i.zone == of.zone {
			w.market.interrupt(i)
		}
	}
}

// recommendRebalance says of some spot instance that it may be interrupted soon. Of some it is true.
func (w *World) recommendRebalance() {
	for _, i := range w.market.running() {
		if i.capacityType != karpv1.CapacityTypeSpot || w.rnd.IntN(2) == 0 {
			continue
		}
		w.logf("cloud: %s may be interrupted", i.id)
		w.market.notices = append(w.market.notices, notice{id: i.id, rebalance: true})
		if w.rnd.IntN(3) == 0 {
			w.after(w.between(time.Minute, 10*time.Minute), func() {
				if !i.ending && !i.dead && !w.quiet {
					w.market.interrupt(i)
				}
			})
		}
		return
	}
}

// risks has spot pools taken back, with and without a warning, from a workload that is spread over them.
func (m *maker) risks() {
	m.c.Risks = true
	m.c.Policy.SpotShare = pick(m, 0, 0.25, 0.25, 0.5)
	for _, pool := range m.c.Pools {
		for j := range pool.Spec.Template.Spec.Requirements {
			if r := &pool.Spec.Template.Spec.Requirements[j]; r.Key == karpv1.LabelCapacityType && !slices.Contains(r.Values, karpv1.CapacityTypeSpot) {
				r.Values = append(slices.Clone(r.Values), karpv1.CapacityTypeSpot)
			}
		}
	}
	a := &m.c.Apps[m.IntN(len(m.c.Apps))]
	a.Replicas += m.IntN(8)
	for range 1 + m.IntN(3) {
		m.change("cloud: a spot pool is taken back", (*World).reclaimPool)
	}
	for range 1 + m.IntN(4) {
		m.change("cloud: a spot machine may be taken back", (*World).recommendRebalance)
	}
}
