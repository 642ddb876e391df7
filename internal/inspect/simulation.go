package inspect

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

const (
	// maxPasses bounds the passes of a plan. Each pass of consolidation lowers the cost, so that few find anything.
	maxPasses = 40
	// maxReplaced is how many drifted nodes a plan replaces, one a pass. Each is replaced by about the same.
	maxReplaced = 10
)

// simulation is a cluster on which plans are carried out. The view is replaced, never written to.
type simulation struct {
	c    *Cluster
	view disrupt.View
	stop func() bool
	out  *Changes

	launched  []launched
	running   map[cluster.PodKey]string       // where pods ran that had to leave, by pod: their first node
	pods      map[cluster.PodKey]*cluster.Pod // all that were placed
	pending   map[cluster.PodKey]bool         // that had no node at first
	displaced []cluster.Pod                   // that need a node since a command removed theirs
	waiting   bool                            // virtual pods wait for the next plan
	ended     []string                        // pods that no controller makes again
	replaced  int                             // drifted nodes
	last      disrupt.Decision
	rejected  []string // what is wrong with commands that were left out
}

// launched is a node of the simulation that does not exist yet.
type launched struct {
	node    solve.NewNode
	command string
}

// simulate carries out what would be done to a cluster until nothing is left to do, in a number of passes at most.
func simulate(c *Cluster, passes int, stop func() bool, out *Changes) *simulation {
	s := &simulation{c: c, view: c.View, stop: stop, out: out, running: map[cluster.PodKey]string{}, pods: map[cluster.PodKey]*cluster.Pod{}, pending: map[cluster.PodKey]bool{}}
	for i := range c.View.Cluster.Pending {
		s.pending[c.View.Cluster.Pending[i].Key] = true
	}
	s.view.Unchanged, s.view.SearchCache, s.view.OnMethod = false, nil, nil
	s.provision()
	for pass := range passes {
		if s.out.Partial = s.out.Partial || s.stop(); s.out.Partial {
			break
		}
		found := s.decide(pass == 0)
		s.completePlans()
		if pass == 0 {
			s.relax()
		}
		if !found && pass > 0 && len(s.displaced) == 0 && !s.waiting {
			return s
		}
		if len(s.displaced) > 0 || s.waiting {
			s.provision()
			s.completePlans()
		}
		if s.replaced == maxReplaced {
			s.ignoreDrift()
		}
		s.out.Partial = pass == passes-1
	}
	s.completePlans()
	return s
}

// provision plans for the pods without a node, as provisioning does, and adds the nodes that it launches. The pods are
// expected on their nodes from then on.
func (s *simulation) provision() {
	request := provision.Request{View: s.view.Cluster, PlannedNodes: map[cluster.PodKey]string{}, Policy: s.view.Policy}
	for _, p := range s.view.PodsToPlace {
		if p.Virtual {
			request.Virtual = append(request.Virtual, p)
		} else {
			request.Pods = append(request.Pods, p)
		}
	}
	s.displaced, s.waiting = nil, false
	if len(s.view.PodsToPlace) == 0 {
		return
	}
	for _, b := range s.view.PlannedBinds {
		request.PlannedNodes[b.Pod] = b.Node
	}
	round := new(provision.State).Begin(request)
	var plan solve.Plan
	for done := false; !done; {
		verified := check.Sound(round.Problem(), func(q solve.Problem) (solve.Problem, solve.Plan) {
			return solve.PlanAwaitingReplacement(q, s.c.Awaiting, s.stop)
		}, check.Plan)
		for _, found := range verified.Rejected {
			s.rejected = append(s.rejected, found[0].String())
		}
		plan, done = round.Take(verified, s.view.Now)
	}
	virtual, planned := round.Virtual()
	s.waiting = !planned
	s.recordUnplaced(plan.Unplaced, virtual.Unplaced)
	s.out.Partial = s.out.Partial || plan.Partial || virtual.Partial
	for i := range s.view.PodsToPlace {
		s.pods[s.view.PodsToPlace[i].Key] = &s.view.PodsToPlace[i]
	}
	binds := slices.Concat(plan.Bind, virtual.Bind)
	launches, _ := round.Launches(plan)
	added, expected := s.launch(launches.Create, "")
	s.view.Cluster = s.view.Cluster.WithNodes(added...)
	binds = append(binds, expected...)
	slices.SortFunc(binds, func(a, b cluster.Bind) int { return a.Pod.Compare(b.Pod) })
	s.view.PlannedBinds = binds
}

// launch returns nodes to add, and where their pods are expected.
func (s *simulation) launch(nodes []solve.NewNode, command string) (added []cluster.Node, binds []cluster.Bind) {
	for i := range nodes {
		s.launched = append(s.launched, launched{node: nodes[i], command: command})
		name := launchName(len(s.launched))
		added = append(added, plannedNode(s.view.Cluster, &nodes[i], name))
		if r := nodes[i].Offer.Reservation; r != "" {
			s.view.Cluster = s.view.Cluster.WithTakenSlot(r)
		}
		for _, pod := range nodes[i].Pods {
			binds = append(binds, cluster.Bind{Pod: pod, Node: name})
		}
	}
	return added, binds
}

// decide has disruption decide, and carries out its commands. It reports whether there were any.
func (s *simulation) decide(now bool) bool {
	d := disrupt.Next(s.view, s.stop)
	s.last, s.out.Partial = d, s.out.Partial || d.Partial
	d.Commands = s.verifiedCommands(d.Commands)
	if len(d.Commands) > 0 {
		s.apply(d.Commands, now)
	}
	return len(d.Commands) > 0
}

// verifiedCommands returns the commands that obey every rule, verified by code that shares nothing with the search.
func (s *simulation) verifiedCommands(commands []disrupt.Command) []disrupt.Command {
	if len(commands) == 0 {
		return nil
	}
	view := s.view.Cluster
	if len(s.view.PodsToPlace) > 0 {
		view = disrupt.PlacePendingPods(s.view, s.stop)
	}
	var moves []solve.Move
	var at []int
	var names []string
	for i := range commands {
		c := &commands[i]
		if len(c.Bind)+len(c.Create) == 0 || c.Decision == disrupt.TerminateFirst {
			continue
		}
		m := solve.Move{Bind: c.Bind, Create: c.Create, Saves: c.Saves, Frees: c.Frees, Moved: c.Moved}
		for j := range c.Remove {
			m.Remove = append(m.Remove, c.Remove[j].Node)
		}
		moves, at, names = append(moves, m), append(at, i), append(names, m.Remove...)
	}
	if len(moves) == 0 {
		return commands
	}
	wrong, upTo := map[int]check.Violation{}, 0
	if view != nil {
		wrong, upTo = check.FilterMoves(solve.Question{View: view, Candidates: names, Policy: s.view.Policy}, moves, s.stop)
	}
	left := map[int]bool{}
	for k, i := range at {
		if v, is := wrong[k]; is {
			left[i] = true
			s.rejected = append(s.rejected, v.String())
		} else if k >= upTo {
			left[i], s.out.Partial = true, true
		}
	}
	var out []disrupt.Command
	for i := range commands {
		if !left[i] {
			out = append(out, commands[i])
		}
	}
	return out
}

// completePlans advances the simulation to the state after everything that is planned: planned nodes are initialized, pods
// run on their planned nodes, and terminating nodes are removed once their pods have left.
func (s *simulation) completePlans() {
	at := map[cluster.PodKey]string{}
	var placed, virtual []cluster.Pod
	var kept []cluster.Bind
	keys := map[cluster.PodKey]*cluster.Pod{}
	for i := range s.view.PodsToPlace {
		p := &s.view.PodsToPlace[i]
		if keys[p.Key] = p; p.Virtual {
			virtual = append(virtual, *p)
		}
	}
	for _, b := range s.view.PlannedBinds {
		switch p := keys[b.Pod]; {
		case p == nil:
		case p.Virtual:
			kept = append(kept, b)
		case s.view.Cluster.Node(b.Node) != nil:
			at[b.Pod] = b.Node
			placed = append(placed, *p)
		}
	}
	for i := range s.c.View.Cluster.Nodes { // pods of nodes that are being removed run until they leave
		n := &s.c.View.Cluster.Nodes[i]
		for j := range n.Pods {
			if key := n.Pods[j].Key; n.Deleting && at[key] != "" && s.running[key] == "" {
				s.running[key] = n.Name
			}
		}
	}
	s.view.Cluster = s.view.Cluster.With(placed, at)
	s.view.Cluster.Nodes = slices.Clone(s.view.Cluster.Nodes)
	var gone []string
	for i := range s.view.Cluster.Nodes {
		n := &s.view.Cluster.Nodes[i]
		n.Initialized = n.Initialized || isLaunch(n.Name)
		if n.Deleting && !slices.ContainsFunc(n.Pods, func(p cluster.Pod) bool { return !p.Stays }) {
			gone = append(gone, n.Name)
			left := nodeOf(n, nil, s.view.Cluster.Resources)
			s.out.Leaving.add(&left)
		}
	}
	s.view.PodsToPlace, s.view.PlannedBinds = slices.Concat(s.displaced, virtual), kept
	s.movePods(placed, at)
	s.dropNodes(gone)
}

// recordUnplaced records the pods that no node can be planned for.
func (s *simulation) recordUnplaced(real, virtual []solve.Unplaced) {
	since := map[cluster.PodKey]*cluster.Pod{}
	for i := range s.view.PodsToPlace {
		since[s.view.PodsToPlace[i].Key] = &s.view.PodsToPlace[i]
	}
	for i := range real {
		u := &real[i]
		if s.c.Awaiting[u.Pod] {
			continue
		}
		p := Pending{Pod: u.Pod.String()}
		if pod := since[u.Pod]; pod != nil {
			p.Since = pod.Created
		}
		for _, why := range u.Why {
			p.Why = append(p.Why, FindingOf(why))
		}
		s.out.Unplaced = append(s.out.Unplaced, p)
	}
	if len(virtual) > 0 {
		s.out.Notes = append(s.out.Notes, "no room can be planned for "+count(len(virtual), "pod", "pods")+" of CapacityBuffers")
	}
}
