package inspect

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// WhatIf changes a cluster before it is planned for. The zero WhatIf changes nothing.
type WhatIf struct {
	Set     []string           `json:"set,omitempty"`     // nodepool/NAME.PATH=VALUE; a PATH is below spec, or requirements, which stands for those of the template; a VALUE is YAML
	AddPods string             `json:"addPods,omitempty"` // manifests of pods and workloads, as YAML documents
	Without []string           `json:"without,omitempty"` // KEY=VALUE of offerings that cannot be launched: zone, capacity-type, instance-type, or a label
	Prices  map[string]float64 `json:"prices,omitempty"`  // USD an hour; by INSTANCE-TYPE/ZONE/CAPACITY-TYPE, where * stands for all
}

// IsZero reports whether nothing is changed.
func (w *WhatIf) IsZero() bool {
	return len(w.Set) == 0 && w.AddPods == "" && len(w.Without) == 0 && len(w.Prices) == 0
}

// Changes is what would be done to a cluster, with the totals.
type Changes struct {
	At        time.Time `json:"at"`
	Before    Totals    `json:"before"`
	After     Totals    `json:"after"`            // once all is done; prices of new nodes are those of the plan
	Leaving   Totals    `json:"leaving,omitzero"` // nodes of Before that are being removed already, and that After lacks
	Bound     float64   `json:"bound,omitempty"`  // that of After: no nodes that hold the pods of then cost less, USD an hour; 0: not known
	Remove    []Removal `json:"remove,omitempty"`
	Launch    []Launch  `json:"launch,omitempty"`
	Moves     []PodMove `json:"moves,omitempty"`    // of running pods, by pod
	Binds     []PodMove `json:"binds,omitempty"`    // of pending pods to nodes that exist, by pod
	Evictions int       `json:"evictions"`          // of running pods, also of those that are recreated without a planned node
	Unplaced  []Pending `json:"unplaced,omitempty"` // pods that no node can be planned for, with the reasons
	Kept      []Kept    `json:"kept,omitempty"`     // nodes that stay although they might be worth removing, and why
	Later     bool      `json:"later,omitempty"`    // budgets let only a part of it begin now
	Partial   bool      `json:"partial,omitempty"`  // time was up before all was tried
	Notes     []string  `json:"notes,omitempty"`    // what the response lacks
}

// Removal is a node that would be removed.
type Removal struct {
	Node    string   `json:"node"`
	Claim   string   `json:"claim,omitempty"`
	Pool    string   `json:"pool,omitempty"`
	Type    string   `json:"instanceType,omitempty"`
	Zone    string   `json:"zone,omitempty"`
	Market  string   `json:"capacityType,omitempty"`
	Price   float64  `json:"price,omitempty"` // USD an hour
	Reason  string   `json:"reason"`          // Empty, Drifted, Underutilized, Unhealthy
	Command string   `json:"command"`         // that it is part of: one command is done as a whole
	Saves   float64  `json:"saves"`           // USD an hour, of the command
	Pods    []string `json:"pods,omitempty"`  // that have to leave, namespace/name
	Now     bool     `json:"now"`             // budgets let it begin at once
}

// Launch is a node that would be launched.
type Launch struct {
	Pool    string   `json:"pool"`
	Type    string   `json:"instanceType"` // the cheapest; Types are all that it could be
	Types   []string `json:"instanceTypes,omitempty"`
	Zone    string   `json:"zone"`
	Market  string   `json:"capacityType"`
	Price   float64  `json:"price"`             // USD an hour
	Command string   `json:"command,omitempty"` // whose nodes it replaces; empty: it is for pending pods
	Pods    []string `json:"pods"`              // namespace/name
}

// PodMove is a pod that would run elsewhere.
type PodMove struct {
	Pod  string `json:"pod"`            // namespace/name
	From string `json:"from,omitempty"` // node; empty: it is pending
	To   string `json:"to"`             // node, or the number of a Launch, counted from 1: "launch 1"
}

// Kept is a node that stays.
type Kept struct {
	Node string  `json:"node"`
	Why  Finding `json:"why"`
}

// PlanOf returns what would be done to a cluster, with the totals. Once stop returns true, it returns what was found so far,
// and says so; nil: it never does. Pending pods are planned for as provisioning does. Then commands of disruption are carried out on a copy, until it finds nothing more:
// first those that may begin now, then those that budgets, consolidateAfter and back-offs delay. Every plan is checked by
// internal/check.
func PlanOf(c *Cluster, stop func() bool) Changes { return planPasses(c, maxPasses, stop) }

func planPasses(c *Cluster, passes int, stop func() bool) Changes {
	if stop == nil {
		stop = func() bool { return false }
	}
	out := Changes{At: c.View.Now}
	if c.View.Cluster == nil {
		out.Partial, out.Notes = true, []string{"the cluster has not been read yet; try again in a moment"}
		return out
	}
	out.Before = totalsOf(c.View.Cluster)
	out.Before.Bound = boundOf(c.View.Cluster, &c.View.Policy, stop)
	s := simulate(c, passes, stop, &out)
	s.summarize()
	return out
}

// totalsOf sums up the nodes of a snapshot.
func totalsOf(s *cluster.Snapshot) Totals {
	t := Totals{Use: map[string]Use{}}
	for i := range s.Nodes {
		n := nodeOf(&s.Nodes[i], nil, s.Resources)
		t.add(&n)
	}
	return t
}

// boundOf is what nodes for the pods of a snapshot cost at least, USD an hour; 0 if that is not known.
func boundOf(s *cluster.Snapshot, policy *solve.Policy, stop func() bool) float64 {
	return solve.Consolidate(solve.Question{View: s, Policy: *policy}, stop).Bound
}

// summarize completes the Changes once everything is carried out.
func (s *simulation) summarize() {
	out, final := s.out, s.view.Cluster
	out.After = totalsOf(final)
	s.addDaemons()
	out.After.Bound = boundOf(final, &s.view.Policy, s.stop)
	out.Bound = out.After.Bound
	where := map[cluster.PodKey]string{}
	for i := range final.Nodes {
		for j := range final.Nodes[i].Pods {
			where[final.Nodes[i].Pods[j].Key] = final.Nodes[i].Name
		}
	}
	for _, b := range s.view.PlannedBinds { // of virtual pods
		where[b.Pod] = b.Node
	}
	for i := range s.launched {
		l := &s.launched[i]
		out.Launch = append(out.Launch, Launch{
			Pool: l.node.Pool, Type: l.node.Offer.Type, Types: l.node.Types, Zone: l.node.Offer.Zone, Market: l.node.Offer.CapacityType,
			Price: l.node.Offer.Price, Command: l.command, Pods: []string{},
		})
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.pods), cluster.PodKey.Compare) {
		to, from := where[key], s.running[key]
		if number, is := strings.CutPrefix(to, launchPrefix); is {
			at, _ := strconv.Atoi(number)
			out.Launch[at-1].Pods = append(out.Launch[at-1].Pods, key.String())
		}
		switch {
		case to == "" || to == from || s.pods[key].Virtual:
		case from != "":
			out.Moves = append(out.Moves, PodMove{Pod: key.String(), From: from, To: to})
		case !isLaunch(to):
			out.Binds = append(out.Binds, PodMove{Pod: key.String(), To: to})
		}
	}
	for i := range s.c.Ignored {
		p := &s.c.Ignored[i]
		u := Pending{Pod: p.Key.String(), Since: p.Created}
		for _, why := range p.Shape.Invalid {
			u.Why = append(u.Why, FindingOf(why))
		}
		out.Unplaced = append(out.Unplaced, u)
	}
	slices.SortFunc(out.Unplaced, func(a, b Pending) int { return cmp.Compare(a.Pod, b.Pod) })
	out.Later = out.Later || slices.ContainsFunc(out.Remove, func(r Removal) bool { return !r.Now })
	s.listKept()
	s.addNotes()
}

// addDaemons counts what DaemonSets will request of the nodes that are launched.
func (s *simulation) addDaemons() {
	table := s.view.Cluster.Resources
	for i := range s.launched {
		coming := daemonRequests(&s.launched[i].node, s.pods)
		for lane := range table.Len() {
			name := string(table.Name(lane))
			if u, counted := s.out.After.Use[name]; counted {
				u.Daemons += coming.At(lane)
				u.Requested += coming.At(lane)
				s.out.After.Use[name] = u
			}
		}
	}
}

// listKept lists the nodes that stay, with the reason of the last pass: it looked at the cluster in which all else is done.
func (s *simulation) listKept() {
	listed := map[string]bool{}
	for i := range s.last.Refused {
		r := &s.last.Refused[i]
		for _, name := range r.Nodes {
			if listed[name] || !slices.ContainsFunc(s.view.Nodes, func(n cluster.ManagedNode) bool { return n.Name == name }) {
				continue
			}
			listed[name] = true
			why := r.Why
			why.Subject = "" // names the node
			s.out.Kept = append(s.out.Kept, Kept{Node: name, Why: FindingOf(why)})
		}
	}
	slices.SortFunc(s.out.Kept, func(a, b Kept) int { return cmp.Compare(a.Node, b.Node) })
}

// addNotes adds what the response lacks.
func (s *simulation) addNotes() {
	view := s.c.View.Cluster
	unmanaged, leaving := 0, s.out.Leaving.Nodes
	for i := range view.Nodes {
		if view.Nodes[i].Pool == "" && !view.Nodes[i].Deleting {
			unmanaged++
		}
	}
	note := func(text string) { s.out.Notes = append(s.out.Notes, text) }
	if unmanaged > 0 {
		note(count(unmanaged, "node belongs", "nodes belong") + " to no NodePool, as those of Cluster Autoscaler and of node groups do. They may take pods, they are never removed, and their price is not known")
	}
	if leaving > 0 {
		note(count(leaving, "node is", "nodes are") + " being removed already, for " + money(s.out.Leaving.Hourly) + " an hour: no saving of this plan")
	}
	for _, pool := range slices.Sorted(maps.Keys(s.c.Untyped)) {
		note("the instance types of NodePool " + pool + " are not known, so nothing is launched from it: " + s.c.Untyped[pool])
	}
	if s.view.Unpriced {
		note("prices are not known yet, so nothing is replaced for being cheaper")
	}
	if len(s.ended) > 0 {
		slices.Sort(s.ended)
		note(count(len(s.ended), "evicted pod ends", "evicted pods end") + ", since no controller makes them again: " + someOf(s.ended))
	}
	if slices.ContainsFunc(s.view.PodsToPlace, func(p cluster.Pod) bool { return p.Virtual }) {
		note("launches include room that CapacityBuffers keep")
	}
	if slices.ContainsFunc(s.launched, func(l launched) bool { return len(l.node.Drivers) > 0 }) {
		note("devices of the nodes that are launched serve the pods that they are launched for; that further pods with ResourceClaims would find a device there is not simulated")
	}
	if len(s.rejected) > 0 {
		note("a part of the plan broke a rule and is left out, which is a defect of Dovetail; please report it with a snapshot: " + someOf(s.rejected))
	}
	if s.out.Partial {
		note("the time was up before everything was tried: there may be more to do")
	}
}

// someOf joins the first of a list, and counts the others.
func someOf(list []string) string {
	const shown = 3
	text := strings.Join(list[:min(shown, len(list))], ", ")
	if more := len(list) - shown; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// AddTo adds what a plan knows to a Fleet: the lower bound, and why pods are pending.
func (c *Changes) AddTo(f *Fleet) {
	f.Totals.Bound = c.Before.Bound
	why := make(map[string][]Finding, len(c.Unplaced))
	for i := range c.Unplaced {
		why[c.Unplaced[i].Pod] = c.Unplaced[i].Why
	}
	planned := make(map[string]string, len(c.Binds))
	for _, b := range c.Binds {
		planned[b.Pod] = b.To
	}
	for i := range c.Launch {
		for _, pod := range c.Launch[i].Pods {
			planned[pod] = launchName(i + 1)
		}
	}
	for i := range f.Pending {
		p := &f.Pending[i]
		if len(p.Why) == 0 {
			p.Why = why[p.Pod]
		}
		if p.Planned == "" {
			p.Planned = planned[p.Pod]
		}
	}
}
