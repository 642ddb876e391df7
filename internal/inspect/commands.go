package inspect

import (
	"maps"
	"slices"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

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

// remove records that a command removes a node, and the new nodes of its pods.
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
	s.dropNodes(b.names)
}

// dropNodes removes nodes with what is left on them.
func (s *simulation) dropNodes(names []string) {
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
