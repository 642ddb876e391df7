package disrupt

import (
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Next decides what is to be done now. It is total and depends on nothing but the view; stop is polled
// while simulations run, and once it says true what was decided is kept.
//
// Methods have their turn one after another, and the first that finds something to do ends the pass:
// what the others see must include it (disruption 3, V15-12).
func Next(v View, stop func() bool) Decision {
	d := Decision{
		At: v.Now, Allowed: map[karpv1.DisruptionReason]map[string]int{}, Busy: map[karpv1.DisruptionReason]map[string]int{}, Eligible: map[karpv1.DisruptionReason]int{},
	}
	g := newPlanningState(&v, stop)
	d.computeBudgets(&v)
	d.reportBlockedNodes(&v)
	for _, m := range EnabledMethods(v.Methods) {
		if len(d.Commands) > 0 || m.prices && v.Unpriced || m.unchanged && v.Unchanged {
			continue
		}
		if v.OnMethod != nil {
			v.OnMethod(m)
		}
		m.run(&d, &v, g)
	}
	d.dropRevertedMoves(&v)
	d.computeCosts(&v)
	return d
}

// addCommand adds a command.
func (d *Decision) addCommand(c Command) {
	for i := range c.Remove {
		c.Cost += c.Remove[i].Cost
		c.Moved += len(c.Remove[i].Pods)
	}
	c.Decided, c.ID = d.At, c.id()
	d.Commands = append(d.Commands, c)
}

// computeCosts works out what the cluster costs before and after. Nodes that go already are paid for no longer, in either.
func (d *Decision) computeCosts(v *View) {
	switch {
	case v.Cluster != nil:
		for i := range v.Cluster.Nodes {
			if n := &v.Cluster.Nodes[i]; !n.Deleting {
				d.Before += n.Price
			}
		}
	default:
		for i := range v.Nodes {
			d.Before += v.Nodes[i].Price
		}
	}
	d.After = d.Before
	for i := range d.Commands {
		d.After -= d.Commands[i].Saves
	}
}

// reportBlocked tells of a candidate of drift or repair that stays.
func (d *Decision) reportBlocked(n *Node, r Refused) {
	r.Nodes = []string{n.Name}
	r.Why.Subject = "node/" + n.Name
	d.addEvent(n, event.DisruptionBlocked, r.Why.Code, r.Why.Text())
	d.addRefusal(r)
}
