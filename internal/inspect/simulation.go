package inspect

import (
	"maps"
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
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
	s.view.Unchanged, s.view.Answers, s.view.OnMethod = false, nil, nil
	s.provision()
	for pass := range passes {
		if s.out.Partial = s.out.Partial || s.stop(); s.out.Partial {
			break
		}
		found := s.decide(pass == 0)
		s.settle()
		if pass == 0 {
			s.relax()
		}
		if !found && pass > 0 && len(s.displaced) == 0 && !s.waiting {
			return s
		}
		if len(s.displaced) > 0 || s.waiting {
			s.provision()
			s.settle()
		}
		if s.replaced == maxReplaced {
			s.ignoreDrift()
		}
		s.out.Partial = pass == passes-1
	}
	s.settle()
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
		answer := check.Sound(round.Problem(), func(q solve.Problem) (solve.Problem, solve.Plan) {
			return solve.PlanAwaitingReplacement(q, s.c.Awaiting, s.stop)
		}, check.Plan)
		for _, found := range answer.Rejected {
			s.rejected = append(s.rejected, found[0].String())
		}
		plan, done = round.Take(answer, s.view.Now)
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
	d.Commands = s.sound(d.Commands)
	if len(d.Commands) > 0 {
		s.apply(d.Commands, now)
	}
	return len(d.Commands) > 0
}

// sound returns the commands that obey every rule, judged by code that shares nothing with what found them.
func (s *simulation) sound(commands []disrupt.Command) []disrupt.Command {
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

// batch is the commands of one decision, carried out together. None of them depends on what another one changes.
type batch struct {
	added   []cluster.Node
	names   []string // nodes that are removed
	leaving []cluster.Pod
	at      map[cluster.PodKey]string // where pods run from then on
	bare    map[cluster.PodKey]bool   // pods that end
}

// apply carries out the commands of one decision.
func (s *simulation) apply(commands []disrupt.Command, now bool) {
	b := &batch{at: map[cluster.PodKey]string{}, bare: map[cluster.PodKey]bool{}}
	byClaim := make(map[string]*cluster.ManagedNode, len(s.view.Nodes))
	s.view.Nodes = slices.Clone(s.view.Nodes)
	for i := range s.view.Nodes {
		byClaim[s.view.Nodes[i].Claim] = &s.view.Nodes[i]
	}
	for i := range commands {
		c := &commands[i]
		if c.Decision == disrupt.Reboot {
			s.reboot(c, byClaim)
			continue
		}
		added, expected := s.launch(replacements(c), c.ID)
		b.added = append(b.added, added...)
		for _, bind := range slices.Concat(c.Bind, expected) {
			b.at[bind.Pod] = bind.Node
		}
		if c.Reason == karpv1.ReasonDrifted {
			s.replaced++
		}
		for j := range c.Remove {
			s.remove(c, &c.Remove[j], now, byClaim[c.Remove[j].Claim], b)
		}
	}
	s.relocate(b)
}

// reboot records that nodes are rebooted.
func (s *simulation) reboot(c *disrupt.Command, byClaim map[string]*cluster.ManagedNode) {
	for i := range c.Remove {
		s.out.Notes = append(s.out.Notes, "node "+c.Remove[i].Node+" would be rebooted: "+c.Cause())
		if n := byClaim[c.Remove[i].Claim]; n != nil {
			n.Rebooting = true
		}
	}
}

// replacements are the nodes that a command launches. Those of static pools are like the nodes that they replace.
func replacements(c *disrupt.Command) []solve.NewNode {
	out := slices.Clone(c.Create)
	for i := range c.Template {
		n := &c.Remove[min(i, len(c.Remove)-1)]
		out = append(out, solve.NewNode{
			Pool: n.Pool, Types: []string{n.InstanceType}, Offer: solve.Offer{Type: n.InstanceType, Zone: n.Zone, CapacityType: n.CapacityType, Price: n.Price},
		})
	}
	return out
}

// remove records that a command removes a node, and what becomes of its pods.
func (s *simulation) remove(c *disrupt.Command, r *disrupt.Candidate, now bool, m *cluster.ManagedNode, b *batch) {
	s.out.Remove = append(s.out.Remove, Removal{
		Node: r.Node, Claim: r.Claim, Pool: r.Pool, Type: r.InstanceType, Zone: r.Zone, Market: r.CapacityType, Price: r.Price,
		Reason: string(c.Reason), Command: c.ID, Saves: c.Saves, Pods: r.Pods, Now: now,
	})
	s.out.Evictions += len(r.Pods)
	if m == nil {
		return
	}
	b.names = append(b.names, s.placeOf(m))
	if m.Reservation != "" {
		s.view.Cluster = s.view.Cluster.WithFreedSlot(m.Reservation)
	}
	for i := range m.Pods {
		switch p := &m.Pods[i]; {
		case !p.Moves:
		case p.Bare:
			b.bare[p.Key] = true
			s.ended = append(s.ended, p.Key.String())
		default:
			pod := p.Pod
			pod.Stays, pod.Terminating = false, false
			b.leaving = append(b.leaving, pod)
			if s.running[p.Key] == "" && !s.pending[p.Key] {
				s.running[p.Key] = m.Name
			}
		}
	}
}

// placeOf is how the snapshot calls a managed node.
func (s *simulation) placeOf(n *cluster.ManagedNode) string {
	if on := s.view.Cluster.Node(n.Name); on != nil {
		return n.Name
	}
	return n.Claim
}

// relocate removes nodes. Pods that have a place run there from then on, the others need one.
func (s *simulation) relocate(b *batch) {
	s.view.PlannedBinds = slices.Clone(s.view.PlannedBinds)
	for i := range s.view.PlannedBinds { // virtual pods run nowhere
		if to := b.at[s.view.PlannedBinds[i].Pod]; to != "" {
			s.view.PlannedBinds[i].Node = to
		}
	}
	maps.DeleteFunc(b.at, func(key cluster.PodKey, _ string) bool { return b.bare[key] })
	slices.SortFunc(b.leaving, func(x, y cluster.Pod) int { return x.Key.Compare(y.Key) })
	var placed []cluster.Pod
	for i := range b.leaving {
		pod := &b.leaving[i]
		s.pods[pod.Key] = pod
		if b.at[pod.Key] == "" {
			s.displaced = append(s.displaced, *pod)
		} else {
			placed = append(placed, *pod)
		}
	}
	s.view.Cluster = s.view.Cluster.WithNodes(b.added...).With(placed, b.at)
	s.movePods(placed, b.at)
	s.drop(b.names)
}

// drop removes nodes with what is left on them.
func (s *simulation) drop(names []string) {
	gone := make(map[string]bool, len(names))
	for _, name := range names {
		gone[name] = true
	}
	s.view.Nodes = slices.DeleteFunc(s.view.Nodes, func(n cluster.ManagedNode) bool { return gone[s.placeOf(&n)] })
	s.view.Cluster, _ = s.view.Cluster.Without(names...)
}

// movePods lists pods with the managed nodes that they are on. The list of nodes is its own from then on.
func (s *simulation) movePods(pods []cluster.Pod, at map[cluster.PodKey]string) {
	s.view.Nodes = slices.Clone(s.view.Nodes)
	known := make(map[cluster.PodKey]cluster.ManagedPod, len(pods))
	for i := range pods {
		known[pods[i].Key] = cluster.ManagedPod{Pod: pods[i], Moves: true}
	}
	touched := map[int]bool{}
	for i := range s.view.Nodes {
		for j := range s.view.Nodes[i].Pods {
			if p := &s.view.Nodes[i].Pods[j]; at[p.Key] != "" {
				if _, moves := known[p.Key]; moves {
					p := *p
					known[p.Key], touched[i] = p, true
				}
			}
		}
	}
	comes := map[string][]cluster.ManagedPod{}
	for i := range pods {
		to := at[pods[i].Key]
		comes[to] = append(comes[to], known[pods[i].Key])
	}
	for i := range s.view.Nodes {
		n := &s.view.Nodes[i]
		name := s.placeOf(n)
		if on := s.view.Cluster.Node(name); on != nil {
			n.Node.Pods = on.Pods
		}
		if touched[i] || len(comes[name]) > 0 {
			n.Pods = slices.DeleteFunc(slices.Clone(n.Pods), func(p cluster.ManagedPod) bool { _, moves := known[p.Key]; return moves })
			n.Pods = append(n.Pods, comes[name]...)
			slices.SortFunc(n.Pods, func(a, b cluster.ManagedPod) int { return a.Key.Compare(b.Key) })
		}
	}
}

// settle has everything come true that was planned: nodes are initialized, pods run where they are expected, and nodes
// that were terminating are gone once their pods have left.
func (s *simulation) settle() {
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
	s.drop(gone)
}

// relax drops what passes with time: consolidateAfter, back-offs, expected pods, budgets with a schedule, and budgets
// that let a part begin, since one command follows another.
func (s *simulation) relax() {
	nodes, settled := slices.Clone(s.view.Nodes), map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		n.Nominated, n.ExpectsDisplaced, n.BackingOff, n.Settling = false, false, false, false
		settled[s.placeOf(n)] = true
	}
	s.view.Nodes = nodes
	view := *s.view.Cluster
	view.Nodes = slices.Clone(view.Nodes)
	for i := range view.Nodes {
		view.Nodes[i].Settling = view.Nodes[i].Settling && !settled[view.Nodes[i].Name]
	}
	s.view.Cluster = &view
	s.view.Tuning.MinAge, s.view.DriftBackoff = 0, nil
	pools := maps.Clone(s.view.Pools)
	// any order: each pool is changed by itself
	for name, p := range pools {
		p.Budgets = openBudgets(p.Budgets, &s.view)
		pools[name] = p
	}
	s.view.Pools = pools
}

// openBudgets are budgets that allow everything for the reasons for which some would ever be allowed.
func openBudgets(list []cluster.Budget, v *disrupt.View) []cluster.Budget {
	always := slices.DeleteFunc(slices.Clone(list), func(b cluster.Budget) bool { return b.Schedule != "" })
	var out []cluster.Budget
	for _, cause := range []karpv1.DisruptionReason{karpv1.ReasonUnhealthy, karpv1.ReasonEmpty, karpv1.ReasonDrifted, karpv1.ReasonUnderutilized} {
		_, broken := budget.Limit(list, string(cause), 1, v.Now)
		if allowed, _ := budget.Limit(always, string(cause), len(v.Nodes), v.Now); allowed == 0 || len(broken) > 0 {
			out = append(out, cluster.Budget{Nodes: "0", Reasons: []string{string(cause)}})
		}
	}
	return out
}

// ignoreDrift treats the drifted nodes that are left as if they had not drifted.
func (s *simulation) ignoreDrift() {
	s.replaced++
	rest := 0
	nodes := slices.Clone(s.view.Nodes)
	for i := range nodes {
		if nodes[i].Drift != "" {
			nodes[i].Drift = ""
			rest++
		}
	}
	s.view.Nodes = nodes
	if rest > 0 {
		s.out.Later = true
		s.out.Notes = append(s.out.Notes, count(rest, "more node has", "more nodes have")+" drifted. They are replaced one after another, by about the same nodes; the figures leave that out")
	}
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
