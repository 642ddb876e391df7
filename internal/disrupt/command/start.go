package command

import (
	"maps"
	"slices"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Begin starts a command that was decided (disruption 17): its nodes are to be held. It is refused if one of them
// is part of a running command, or if the pool of a static replacement is backed off.
func (q *Queue) Begin(c disrupt.Command, poolBackedOff func(pool string) bool, now time.Time) []Effect {
	if c.Decision == disrupt.Reboot {
		// Back off before the watch has delivered the reboot, even if it fails. Otherwise the next pass would
		// conclude that reboots do not help this node.
		q.RecordFailure(c.Reason, now, c.Remove...)
		return []Effect{RequestReboot{c}}
	}
	busy := slices.IndexFunc(c.Remove, func(n disrupt.Candidate) bool { return q.removing[n.Claim] != "" })
	switch {
	case busy >= 0:
		q.RecordFailure(c.Reason, now, c.Remove...)
		return []Effect{Refused{Command: c, Busy: &c.Remove[busy]}}
	case slices.ContainsFunc(c.Template, poolBackedOff):
		q.RecordFailure(c.Reason, now, c.Remove...)
		return []Effect{Refused{Command: c}}
	case len(c.Remove) == 0:
		return nil
	}
	return []Effect{Hold{c}}
}

// Held continues a command whose nodes are held, except those in lost, by claim. If any is lost, a command with
// replacements is given up, because they were planned for all nodes. A command without replacements continues with
// the rest.
func (q *Queue) Held(c disrupt.Command, lost map[string]bool, now time.Time) (disrupt.Command, []Effect) {
	back := slices.DeleteFunc(slices.Clone(c.Remove), func(n disrupt.Candidate) bool { return !lost[n.Claim] })
	if len(back) == 0 {
		return c, nil
	}
	q.RecordFailure(c.Reason, now, back...)
	if c.Replacements() > 0 {
		back = c.Remove
	}
	return c.Without(contains(back)), []Effect{Release{back}}
}

func contains(list []disrupt.Candidate) func(disrupt.Candidate) bool {
	return func(n disrupt.Candidate) bool {
		return slices.ContainsFunc(list, func(other disrupt.Candidate) bool { return other.Claim == n.Claim })
	}
}

// SecondLook is what commands are validated against once their nodes are held.
type SecondLook struct {
	Decided, Fresh disrupt.View
	Live           map[string][]cluster.ManagedPod // by node, from the API server; a node that is missing could not be read
	Policy         solve.Policy
	StopPlacing    func() bool // whether to stop placing pending pods
	StopChecking   func() bool // whether to stop checking moves
}

// Validate drops from commands what no longer holds (disruption 16): a node changed, a move does not work any more,
// or a budget is spent. A command may be left without nodes. It takes a while and needs no state, so that callers
// need not lock it meanwhile.
func Validate(held []disrupt.Command, l SecondLook) ([]disrupt.Command, []Effect) {
	held = slices.Clone(held)
	var out []Effect
	for i := range held {
		out = append(out, object(&held[i], disrupt.Revalidate(held[i], l.Decided, l.Fresh, l.Live), l.Live)...)
	}
	faults := checkMoves(held, &l)
	for i := range held {
		if text, found := faults[i]; found {
			out = append(out, object(&held[i], []disrupt.Objection{{Candidate: held[i].Remove[0], Category: disrupt.Scheduling, Text: text}}, l.Live)...)
		}
	}
	beyond := disrupt.OverBudget(held, l.Fresh)
	for i := range held {
		if len(beyond[i]) > 0 {
			out = append(out, object(&held[i], beyond[i], l.Live)...)
		}
	}
	return held, out
}

// object releases the nodes that must stay: those with an objection, and those whose pods could not be read. The
// rest of an Empty command continues, because its nodes do not depend on each other.
func object(c *disrupt.Command, objections []disrupt.Objection, live map[string][]cluster.ManagedPod) []Effect {
	var out []Effect
	stays := map[string]bool{}
	for _, o := range objections {
		stays[o.Claim] = true
		out = append(out, Objected{Command: *c, Objection: o, Events: rejectionEvents(c, &o)})
	}
	if len(objections) > 0 && c.Type != "" { // only methods of consolidation have a type
		out = append(out, Invalid{*c})
	}
	for _, n := range c.Remove {
		if _, read := live[n.Node]; !read {
			stays[n.Claim] = true
		}
	}
	if len(stays) == 0 {
		return out
	}
	back := slices.DeleteFunc(slices.Clone(c.Remove), func(n disrupt.Candidate) bool { return !stays[n.Claim] })
	out = append(out, BackOff{c.Reason, back})
	if c.Reason != karpv1.ReasonEmpty {
		back = c.Remove
	}
	*c = c.Without(contains(back))
	out = append(out, Release{back})
	if len(c.Remove) == 0 {
		out = append(out, Outcome{*c, "given up: a node stays after all"})
	}
	return out
}

// rejectionEvents records on all nodes of a move why it is not made.
func rejectionEvents(c *disrupt.Command, o *disrupt.Objection) []disrupt.ObjectEvent {
	if c.Reason != karpv1.ReasonUnderutilized {
		return nil
	}
	var news []disrupt.ObjectEvent
	for _, n := range c.Remove {
		news = append(news, disrupt.ObjectEvent{Node: n.Node, Claim: n.Claim, Event: event.Event{
			Reason: event.ConsolidationRejected, Key: o.Category, Text: "The move was given up (" + o.Category + "): node " + o.Node + ": " + o.Text,
		}})
	}
	return news
}

// checkMoves checks moves against the fresh view, one after another. The checker is independent of the planner
// that found them. It returns, by index, what is wrong with the moves that no longer hold, or that there was no
// time to check.
func checkMoves(list []disrupt.Command, l *SecondLook) map[int]string {
	out := map[int]string{}
	var names []string
	var order []int
	for i := range list {
		if list[i].Reason == karpv1.ReasonUnderutilized && len(list[i].Remove) > 0 {
			order, names = append(order, i), append(names, nodesIn(&list[i])...)
		}
	}
	if len(order) == 0 || l.Fresh.Cluster == nil {
		return out
	}
	fresh, carried, from := separateCarried(l.Fresh, list, order)
	view := fresh.Cluster
	if len(fresh.PodsToPlace) > 0 {
		view = disrupt.PlacePendingPods(fresh, l.StopPlacing)
	}
	if view != nil && len(carried) > 0 {
		view = view.With(carried, from)
	}
	var moves []solve.Move
	for _, i := range order {
		moves = append(moves, move(&list[i]))
	}
	bad, upTo := map[int]check.Violation(nil), 0
	if view != nil {
		bad, upTo = check.FilterMoves(solve.Question{View: view, Candidates: names, Policy: l.Policy}, moves, l.StopChecking)
	}
	for at, i := range order {
		if v, is := bad[at]; is {
			out[i] = v.String()
		} else if at >= upTo {
			out[i] = "there was no time to look at it again"
		}
	}
	return out
}

// separateCarried takes the virtual pods that moves carry out of the pods to be placed, and returns the nodes that they are
// carried from. They are bound nowhere, and the taint of a held node keeps them from being placed there again: another
// place would take the capacity that the move was planned with (CB-16).
func separateCarried(fresh disrupt.View, list []disrupt.Command, order []int) (rest disrupt.View, carried []cluster.Pod, from map[cluster.PodKey]string) {
	from = map[cluster.PodKey]string{}
	for _, i := range order {
		c := &list[i]
		for _, b := range c.Bind {
			from[b.Pod] = c.Remove[0].Node
		}
		for j := range c.Create {
			for _, key := range c.Create[j].Pods {
				from[key] = c.Remove[0].Node
			}
		}
	}
	var others []cluster.Pod
	for _, p := range fresh.PodsToPlace {
		if p.Virtual && from[p.Key] != "" {
			carried = append(carried, p)
		} else {
			others = append(others, p)
		}
	}
	if len(carried) > 0 {
		fresh.PodsToPlace = others
	}
	return fresh, carried, from
}

func move(c *disrupt.Command) solve.Move {
	return solve.Move{Remove: nodesIn(c), Bind: c.Bind, Create: c.Create, Saves: c.Saves, Frees: c.Frees, Moved: c.Moved}
}

func nodesIn(c *disrupt.Command) []string {
	out := make([]string, 0, len(c.Remove))
	for _, n := range c.Remove {
		out = append(out, n.Node)
	}
	return out
}

// Replacements returns the nodes to order for a command: those that were planned, and those straight from the
// template of a static pool. Nothing is ordered unless all can be.
func Replacements(c *disrupt.Command, fromTemplate func(pool string) (solve.NewNode, error)) ([]solve.NewNode, error) {
	out := slices.Clone(c.Create)
	for _, pool := range c.Template {
		n, err := fromTemplate(pool)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// Places returns where the pods of a command go: to its replacements and to existing nodes.
func (c Commit) Places() map[cluster.PodKey]string {
	out := map[cluster.PodKey]string{}
	maps.Copy(out, c.Claims)
	for _, b := range c.Command.Bind {
		out[b.Pod] = b.Node
	}
	return out
}

// Orders is what became of the replacements of a command.
type Orders struct {
	Created  []Replacement
	Err      error    // says that some could not be created, and why
	Outdated bool     // because others were faster, whose work the next plan sees
	Denied   []string // NodePools of claims that the API server denied for good
}

// Ordered continues a command whose replacements are ordered: it is running then. If one could not be, the command is given
// up. Its drift is backed off unless others were faster, and so are the launches of NodePools whose claims are denied.
func (q *Queue) Ordered(c disrupt.Command, o Orders, now time.Time) []Effect {
	r := disrupt.Running{Command: c, InitializedClaims: map[string]bool{}}
	planned := map[cluster.PodKey]string{}
	for i := range o.Created {
		r.ReplacementClaims = append(r.ReplacementClaims, o.Created[i].Name)
		for _, pod := range o.Created[i].Pods {
			planned[pod] = o.Created[i].Name
		}
	}
	if o.Err == nil {
		q.add(r)
		return []Effect{Commit{Command: r, Claims: planned}}
	}
	q.RecordFailure(c.Reason, now, c.Remove...)
	out := []Effect{DeleteReplacements{o.Created}, UnmarkReplacements{r.ReplacementClaims}, Release{c.Remove}}
	if !o.Outdated {
		out = append(out, q.backOffDrift(&c, now)...)
	}
	for _, pool := range slices.Compact(slices.Sorted(slices.Values(o.Denied))) {
		out = append(out, LaunchDenied{pool})
	}
	return append(out, Outcome{c, "given up: " + o.Err.Error()})
}
