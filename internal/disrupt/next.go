package disrupt

import (
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Next makes one decision. It never fails and depends on nothing but the view. stop is polled during
// simulations; once it returns true, what was decided so far is kept.
//
// Methods run in order, and the first that adds a command ends the pass, because the view of the later ones
// would have to include that command (disruption 3, V15-12).
func Next(v View, stop func() bool) Decision {
	d := Decision{
		At: v.Now, MaxRefused: v.MaxRefused, Allowed: map[karpv1.DisruptionReason]map[string]int{}, Busy: map[karpv1.DisruptionReason]map[string]int{}, Eligible: map[karpv1.DisruptionReason]int{},
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

// computeCosts computes the cost of the cluster before and after the commands. Neither includes nodes that are
// already being deleted.
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

// reportBlocked records that a candidate of drift or repair is kept, and why.
func (d *Decision) reportBlocked(n *cluster.ManagedNode, r Refused) {
	r.Nodes = []string{n.Name}
	r.Why.Subject = "node/" + n.Name
	d.addEvent(n, event.DisruptionBlocked, r.Why.Code, r.Why.Text())
	d.addRefusal(r)
}
