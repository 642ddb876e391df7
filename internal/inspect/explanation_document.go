package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Document lays an Explanation out for reading.
func (e *Explanation) Document() Document {
	out := Document{Title: e.Subject.String(), Answer: e.Answer}
	switch {
	case e.Pod != nil:
		out.Sections = e.Pod.sections(e.At)
	case e.Node != nil:
		out.Sections = e.Node.sections(e.At)
	case e.Pool != nil:
		out.Sections = e.Pool.sections()
	}
	history := Section{Title: "History", Columns: []string{"Time", "What", "Text", "Source", "Command"}, Wide: 2}
	for i := range e.History {
		h := &e.History[i]
		history.Rows = append(history.Rows, []string{h.At.UTC().Format(time.RFC3339), h.Kind, h.Text, h.Source, h.ID})
	}
	out.add(history)
	return out
}

// add adds a section that has contents.
func (d *Document) add(s Section) {
	if len(s.Lines)+len(s.Rows) > 0 {
		d.Sections = append(d.Sections, s)
	}
}

func (p *PodExplanation) sections(now time.Time) []Section {
	var d Document
	facts := []string{fmt.Sprintf("%s, created %s ago; requests %s", p.State, age(p.Created, now), orNothing(amounts(p.Requests)))}
	if p.Node != nil {
		facts = append(facts, fmt.Sprintf("on node %s%s, which is %s", p.Node.Name, inWords(p.Node), p.Node.State))
	}
	if p.Moves {
		facts = append(facts, "needs another node once this one is removed")
	}
	d.add(Section{Title: "Pod", Lines: facts})
	d.add(findingSection("What prevents its eviction", p.Blockers))
	d.add(p.Proposal.section())
	if p.Launch != nil {
		d.add(launchSection("The node that would be launched", []Launch{*p.Launch}))
	}
	pools := Section{Title: "NodePools", Columns: []string{"NodePool", "Code", "Why", "What to do"}, Wide: 1}
	for _, pool := range p.Pools {
		if len(pool.Why) == 0 {
			pools.Rows = append(pools.Rows, []string{pool.Pool, "", p.openText(pool.Pool), ""})
		}
		for i, why := range pool.Why {
			name := pool.Pool
			if i > 0 {
				name = "" // of the same one
			}
			pools.Rows = append(pools.Rows, []string{name, string(why.Code), why.Text, why.Fix})
		}
	}
	d.add(pools)
	d.add(nodesSection("Existing nodes", p.Nodes))
	return d.Sections
}

// openText is about a NodePool that nothing rules out.
func (p *PodExplanation) openText(pool string) string {
	switch {
	case p.Launch != nil && p.Launch.Pool == pool:
		return "would launch a node for it"
	case p.Launch != nil:
		return "could launch a node for it, but another NodePool has a higher weight or a cheaper node"
	case p.Expected != nil:
		return "could launch a node for it, but it has a place"
	}
	return "could launch a node for such a pod"
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

func findingSection(title string, list []Finding) Section {
	s := Section{Title: title, Columns: []string{"Code", "Why", "What to do"}, Wide: 1}
	for _, f := range list {
		s.Rows = append(s.Rows, []string{string(f.Code), f.Text, f.Fix})
	}
	return s
}

func nodesSection(title string, list []NodeFindings) Section {
	s := Section{Title: title, Columns: []string{"Nodes", "For example", "Code", "Why", "What to do"}, Wide: 1}
	for _, n := range list {
		s.Rows = append(s.Rows, []string{strconv.Itoa(n.Nodes), n.Node, string(n.Why.Code), n.Why.Text, n.Why.Fix})
	}
	return s
}

func launchSection(title string, list []Launch) Section {
	s := Section{Title: title, Columns: []string{"NodePool", "Instance type", "Zone", "Capacity", "Price", "Pods", "Or one of"}, Wide: 1}
	for i := range list {
		l := &list[i]
		s.Rows = append(s.Rows, []string{l.Pool, l.Type, l.Zone, l.Market, hourly(l.Price), strconv.Itoa(len(l.Pods)), some(l.Types)})
	}
	return s
}

// section is what a command does beside removing the node that is explained.
func (p *Proposal) section() Section {
	if p == nil {
		return Section{}
	}
	s := Section{Title: "What would be done now", Columns: []string{"Pod", "Goes to"}}
	s.Lines = []string{p.Reason + ": " + p.Action + " " + some(p.Nodes)}
	for i := range p.Launch {
		l := &p.Launch[i]
		s.Lines = append(s.Lines, launchNumber(i)+": "+kindOfNode(l.Type, l.Market, l.Zone)+" of NodePool "+l.Pool+" for "+hourly(l.Price)+" an hour")
	}
	for _, m := range p.Moves {
		s.Rows = append(s.Rows, []string{m.Pod, m.To})
	}
	return s
}

func (n *NodeExplanation) sections(now time.Time) []Section {
	var d Document
	d.add(n.facts(now))
	pods := Section{Title: "Pods", Columns: []string{"Pod", "CPU", "Memory", "Once the node is removed", "What prevents its eviction", "Other requests"}, Wide: 1}
	for i := range n.Pods {
		p := &n.Pods[i]
		var held []string
		for _, f := range p.Blockers {
			held = append(held, f.Text)
		}
		pods.Rows = append(pods.Rows, []string{
			p.Pod, amountOf(p.Requests, "cpu"), amountOf(p.Requests, "memory"), p.outcome(), strings.Join(held, "; "), otherAmounts(p.Requests),
		})
	}
	d.add(pods)
	d.add(n.Proposal.section())
	if !covers(n.Blockers, n.Stays) {
		d.add(findingSection("Why it stays", n.Stays))
	}
	title := "What keeps it from being removed"
	if n.Node.State == Removing {
		title = "What prevents its drain"
	}
	d.add(findingSection(title, n.Blockers))
	d.add(n.alternatives())
	return d.Sections
}

// covers reports whether the first list says all that the second does.
func covers(list, other []Finding) bool {
	return !slices.ContainsFunc(other, func(f Finding) bool { return !slices.Contains(list, f) })
}

func (n *NodeExplanation) facts(now time.Time) Section {
	s := Section{Title: "Node"}
	facts := string(n.Node.State)
	if n.Node.Created != nil {
		facts += ", " + age(*n.Node.Created, now) + " old"
	}
	if n.Node.Claim != "" {
		facts += ", NodeClaim " + n.Node.Claim
	}
	s.Lines = append(s.Lines, facts)
	if n.Node.Drift != "" {
		text := "drifted: " + n.Node.Drift
		if n.DriftedAt != nil {
			text += ", " + age(*n.DriftedAt, now) + " ago"
		}
		s.Lines = append(s.Lines, text)
	}
	if n.Expires != nil {
		text := "expires in " + age(now, *n.Expires)
		if n.Expires.Before(now) {
			text = "expired " + age(*n.Expires, now) + " ago"
		}
		s.Lines = append(s.Lines, text)
	}
	for _, name := range resourceNames(n.Node.Use) {
		u := n.Node.Use[name]
		if name == "pods" || u.Requested == 0 {
			continue
		}
		text := fmt.Sprintf("%s: %s of %s requested", name, Amount(name, u.Requested), Amount(name, u.Allocatable))
		if u.Daemons > 0 {
			text += ", " + Amount(name, u.Daemons) + " by DaemonSets"
		}
		s.Lines = append(s.Lines, text)
	}
	return s
}

// alternatives is a table of what would hold the pods of the node.
func (n *NodeExplanation) alternatives() Section {
	s := Section{Title: "What would hold its pods if it were launched now", Columns: []string{"Instance type", "Zone", "Capacity", "NodePool", "Price", "Difference"}}
	for i := range n.Alternatives {
		a := &n.Alternatives[i]
		difference := ""
		if n.Node.Price != nil {
			difference = signed(a.Price - *n.Node.Price)
		}
		for j := range a.Launch {
			l := &a.Launch[j]
			s.Rows = append(s.Rows, []string{l.Type, l.Zone, l.Market, l.Pool, hourly(l.Price), difference})
			difference = "" // of all of them together
		}
		if len(a.Launch) > 1 {
			s.Lines = append(s.Lines, fmt.Sprintf("%s together for %s an hour", count(len(a.Launch), "node", "nodes"), hourly(a.Price)))
		}
	}
	return s
}

func signed(v float64) string {
	if v < 0 {
		return "-" + hourly(-v)
	}
	return "+" + hourly(v)
}

// outcome is what happens to a pod when its node is removed.
func (p *PodOnNode) outcome() string {
	switch {
	case p.Expected:
		return "not here yet"
	case p.Leaving:
		return "ends"
	case p.Daemon:
		return "ends (DaemonSet)"
	case !p.Moves:
		return "ends"
	case p.Bare:
		return "ends: no controller makes it again"
	}
	return "moves"
}

func amountOf(list map[string]int64, name string) string {
	if n, there := list[name]; there {
		return Amount(name, n)
	}
	return ""
}

func otherAmounts(list map[string]int64) string {
	var texts []string
	for _, name := range resourceNames(list) {
		if name != "cpu" && name != "memory" {
			texts = append(texts, name+" "+Amount(name, list[name]))
		}
	}
	return strings.Join(texts, ", ")
}

func (p *PoolExplanation) sections() []Section {
	var d Document
	facts := Section{Title: "NodePool"}
	if p.Policy != "" {
		facts.Lines = append(facts.Lines, "consolidationPolicy "+p.Policy)
	}
	if p.Static {
		facts.Lines = append(facts.Lines, fmt.Sprintf("static, with %d replicas", p.Replicas))
	}
	for _, l := range p.Pool.Limits {
		facts.Lines = append(facts.Lines, fmt.Sprintf("limit on %s: %s left", l.Resource, Amount(l.Resource, l.Remaining)))
	}
	d.add(facts)
	d.add(launchSection("What it would launch for pending pods", p.Launch))
	refused := Section{Title: "Pending pods that it launches nothing for", Columns: []string{"Pods", "For example", "Code", "Why", "What to do"}, Wide: 1}
	for _, f := range p.Refused {
		for i, why := range f.Why {
			pods, pod := strconv.Itoa(f.Pods), f.Pod
			if i > 0 {
				pods, pod = "", "" // the same ones
			}
			refused.Rows = append(refused.Rows, []string{pods, pod, string(why.Code), why.Text, why.Fix})
		}
	}
	d.add(refused)
	d.add(nodesSection("Its nodes", p.Nodes))
	d.add(p.budgets())
	return d.Sections
}

func (p *PoolExplanation) budgets() Section {
	s := Section{Title: "Disruption budgets", Columns: []string{"Reason", "Nodes allowed", "In use"}}
	for _, b := range p.Budgets {
		text := "nodes: " + b.Nodes
		if len(b.Reasons) > 0 {
			text += " for " + sentence(b.Reasons)
		}
		if b.Schedule != "" {
			text += fmt.Sprintf(" at %q for %s", b.Schedule, b.Duration)
		}
		switch {
		case b.Invalid != "":
			text += ", cannot be read: " + b.Invalid
		case !b.Active:
			text += ", not now"
		}
		s.Lines = append(s.Lines, text)
	}
	for _, a := range p.Allowed {
		if p.Pool.Totals.Nodes == 0 {
			break
		}
		allowed := strconv.Itoa(a.Allowed)
		if a.Allowed < 0 {
			allowed = "any number"
		}
		s.Rows = append(s.Rows, []string{a.Reason, allowed, strconv.Itoa(a.Busy)})
	}
	return s
}
