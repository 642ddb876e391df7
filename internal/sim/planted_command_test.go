package sim_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/disrupt/command"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// without drops effects of one kind.
func without[E command.Effect](effects []command.Effect) []command.Effect {
	return slices.DeleteFunc(effects, func(e command.Effect) bool {
		_, is := e.(E)
		return is
	})
}

// keepsHolds rolls commands back without releasing their nodes.
type keepsHolds struct{ sim.Shipped }

func (b keepsHolds) Observe(token string, seen map[string]disrupt.ClaimStatus, now time.Time) []command.Effect {
	return without[command.Release](b.Shipped.Observe(token, seen, now))
}

// looksOnce carries commands out without a second look.
type looksOnce struct{ sim.Shipped }

func (looksOnce) Validate(held []disrupt.Command, _ command.SecondLook) ([]disrupt.Command, []command.Effect) {
	return held, nil
}

// spends carries commands out although budgets were used up meanwhile.
type spends struct{ sim.Shipped }

func (b spends) Validate(held []disrupt.Command, l command.SecondLook) ([]disrupt.Command, []command.Effect) {
	l.Fresh.Pools = maps.Clone(l.Fresh.Pools)
	for name, pool := range l.Fresh.Pools {
		pool.Budgets = nil
		l.Fresh.Pools[name] = pool
	}
	return b.Shipped.Validate(held, l)
}

// deletesEarly deletes nodes before their replacements are initialized.
type deletesEarly struct{ sim.Shipped }

func (b deletesEarly) Observe(token string, seen map[string]disrupt.ClaimStatus, now time.Time) []command.Effect {
	for name, s := range seen {
		s.Initialized = s.Launched
		seen[name] = s
	}
	return b.Shipped.Observe(token, seen, now)
}

// drops loses its commands in each pass, and recovers what it can from the objects.
type dropsCommands struct {
	sim.Shipped
}

func (b *dropsCommands) Resume(nodes []cluster.ManagedNode, l command.Leftovers) []command.Effect {
	b.Shipped = sim.Shipped{Queue: command.NewQueue(1)}
	return b.Shipped.Resume(nodes, l)
}

// backsOffForever never tries again what failed once.
type backsOffForever struct {
	sim.Shipped
	since time.Time
}

func (b *backsOffForever) MarkBackoffs(view *disrupt.View, now time.Time) bool {
	if b.since.IsZero() {
		b.since = now
	}
	return b.Shipped.MarkBackoffs(view, b.since)
}

// leavesTraces does not clean up after an earlier process.
type leavesTraces struct{ sim.Shipped }

func (leavesTraces) CleanUp([]cluster.ManagedNode, command.Leftovers) []command.Effect { return nil }

// ignoresBackoffs tries again in the next pass what has just failed.
type ignoresBackoffs struct{ sim.Shipped }

func (ignoresBackoffs) MarkBackoffs(*disrupt.View, time.Time) bool { return false }

// resumesAgain takes over the commands that an earlier process left, also those that it has ended itself.
type resumesAgain struct{ sim.Shipped }

func (b resumesAgain) Resume(nodes []cluster.ManagedNode, l command.Leftovers) []command.Effect {
	out := b.Shipped.Resume(nodes, l)
	for _, effect := range command.NewQueue(1).Resume(nodes, l) {
		e, is := effect.(command.Resumed)
		if !is || b.IsRunning(e.Command.Token()) {
			continue
		}
		var created []command.Replacement
		for _, name := range e.Command.ReplacementClaims {
			created = append(created, command.Replacement{Name: name})
		}
		b.Ordered(e.Command.Command, command.Orders{Created: created}, time.Time{})
		out = append(out, effect)
	}
	return out
}

// missesLosses learns of a lost replacement only when its command is due.
type missesLosses struct{ sim.Shipped }

func (missesLosses) RecordLostReplacement(string) bool { return false }

// ignoresLosses takes replacements that are lost for ones that are up.
type ignoresLosses struct{ sim.Shipped }

func (b ignoresLosses) Observe(token string, seen map[string]disrupt.ClaimStatus, now time.Time) []command.Effect {
	for _, r := range b.Running() {
		for _, name := range r.ReplacementClaims {
			if s := seen[name]; r.Token() == token && (s.NotFound || s.Deleting) {
				seen[name] = disrupt.ClaimStatus{Launched: true, Initialized: true}
			}
		}
	}
	return b.Shipped.Observe(token, seen, now)
}

// rebootsAgain requests a reboot in each pass until the cache shows that there is one.
type rebootsAgain struct{ sim.Shipped }

func (b rebootsAgain) Begin(c disrupt.Command, poolBackedOff func(pool string) bool, now time.Time) []command.Effect {
	if c.Decision == disrupt.Reboot {
		return []command.Effect{command.RequestReboot{Command: c}}
	}
	return b.Shipped.Begin(c, poolBackedOff, now)
}

// rebootsForever does not count reboots, and never replaces a node that they do not help.
type rebootsForever struct{ sim.Shipped }

func (b rebootsForever) MarkBackoffs(view *disrupt.View, now time.Time) bool {
	for i := range view.Nodes {
		view.Nodes[i].Reboots = 0
	}
	return b.Shipped.MarkBackoffs(view, now)
}

// ignoresDenials does not back off pools whose claims are denied when commands order them.
type ignoresDenials struct{ sim.Shipped }

func (b ignoresDenials) Ordered(c disrupt.Command, o command.Orders, now time.Time) []command.Effect {
	o.Denied = nil
	return b.Shipped.Ordered(c, o, now)
}

// ignoresPrices decides before prices are read.
type ignoresPrices struct{ sim.Shipped }

func (b ignoresPrices) MarkBackoffs(view *disrupt.View, now time.Time) bool {
	hidden := b.Shipped.MarkBackoffs(view, now)
	view.Unpriced = false
	return hidden
}

// disruptsLeader does not know on which node it runs itself.
type disruptsLeader struct{ sim.Shipped }

func (b disruptsLeader) MarkBackoffs(view *disrupt.View, now time.Time) bool {
	for i := range view.Nodes {
		view.Nodes[i].Leading = false
	}
	return b.Shipped.MarkBackoffs(view, now)
}

func (b disruptsLeader) Validate(held []disrupt.Command, l command.SecondLook) ([]disrupt.Command, []command.Effect) {
	for i := range l.Fresh.Nodes {
		l.Fresh.Nodes[i].Leading = false
	}
	return b.Shipped.Validate(held, l)
}

func (b disruptsLeader) Observe(token string, seen map[string]disrupt.ClaimStatus, now time.Time) []command.Effect {
	return missesStandby(b).Observe(token, seen, now)
}

// missesStandby does not notice that the standby replica is lost while a command for the node of the leader waits.
type missesStandby struct{ sim.Shipped }

func (b missesStandby) Observe(token string, seen map[string]disrupt.ClaimStatus, now time.Time) []command.Effect {
	for name, s := range seen {
		s.Leading = false
		seen[name] = s
	}
	return b.Shipped.Observe(token, seen, now)
}

// commandBugs are mistakes in the protocol of commands, each with a seed that finds it and the rule that it breaks.
var commandBugs = map[string]struct {
	plant func(sim.Shipped) sim.Protocol
	seed  uint64
	rule  string
}{
	"a rollback keeps nodes held":           {func(s sim.Shipped) sim.Protocol { return keepsHolds{s} }, 6, "G7"},
	"there is no second look":               {func(s sim.Shipped) sim.Protocol { return looksOnce{s} }, 2, "G6"},
	"budgets are not checked again":         {func(s sim.Shipped) sim.Protocol { return spends{s} }, 170, "G5"},
	"nodes are deleted before replacements": {func(s sim.Shipped) sim.Protocol { return deletesEarly{s} }, 4, "queue"},
	"each pass drops the commands":          {func(s sim.Shipped) sim.Protocol { return &dropsCommands{s} }, 4, "G7"},
	"a back-off never ends":                 {func(s sim.Shipped) sim.Protocol { return &backsOffForever{Shipped: s} }, 74, "repair"},
	"nothing is cleaned up after a crash":   {func(s sim.Shipped) sim.Protocol { return leavesTraces{s} }, 19, "static"},
	"a back-off never begins":               {func(s sim.Shipped) sim.Protocol { return ignoresBackoffs{s} }, 6, "back-off"},
	"a command is resumed twice":            {func(s sim.Shipped) sim.Protocol { return resumesAgain{s} }, 386, "queue"},
	"a lost replacement is noticed late":    {func(s sim.Shipped) sim.Protocol { return missesLosses{s} }, 42, "queue"},
	"a lost replacement is ignored":         {func(s sim.Shipped) sim.Protocol { return ignoresLosses{s} }, 18, "queue"},
	"a reboot is requested in each pass":    {func(s sim.Shipped) sim.Protocol { return rebootsAgain{s} }, 12, "back-off"},
	"the leader's own node is disrupted":    {func(s sim.Shipped) sim.Protocol { return disruptsLeader{s} }, 101, "FM-C17"},
	"prices are not waited for":             {func(s sim.Shipped) sim.Protocol { return ignoresPrices{s} }, 76, "FM-P05"},
	"denied replacements are forgotten":     {func(s sim.Shipped) sim.Protocol { return ignoresDenials{s} }, 272, "FM-A14"},
	"a lost standby is not noticed":         {func(s sim.Shipped) sim.Protocol { return missesStandby{s} }, 20, "FM-C17"},
	"reboots are not counted":               {func(s sim.Shipped) sim.Protocol { return rebootsForever{s} }, 19, "V15-30"},
}

// The simulator finds mistakes in the protocol of commands: rules that no mistake breaks would show nothing.
func TestPlantedCommandBugsAreFound(t *testing.T) {
	t.Parallel()
	for name, bug := range commandBugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, last := bug.seed, bug.seed
			if *search {
				first, last = *from, *from+*many-1
			}
			for seed := first; seed <= last; seed++ {
				c := sim.Generate(seed)
				c.Protocol = bug.plant
				for _, v := range sim.Run(c).Violations {
					if v.Rule == bug.rule {
						if *search {
							t.Logf("%s: seed %d, after %s: %s: %s", name, seed, v.At, v.Rule, v.Text)
						}
						return
					}
				}
			}
			t.Errorf("no seed from %d to %d breaks rule %s", first, last, bug.rule)
		})
	}
}
