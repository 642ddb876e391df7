package journal

import (
	"fmt"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// mostNamed is how many objects a sentence names.
const mostNamed = 3

// summary is an entry in words: what happened, to which objects, and what that saves an hour.
type summary struct {
	text    string
	objects []string
	saves   float64
}

// shownCommand is what is shown of a command.
type shownCommand struct {
	Reason string              `json:"reason"`
	Remove []disrupt.Candidate `json:"remove"`
	Create []struct {
		Pool  string           `json:"pool"`
		Offer cluster.Offer    `json:"offer"`
		Pods  []cluster.PodKey `json:"pods"`
	} `json:"create"`
	Bind     []cluster.Bind `json:"bind"`
	Template []string       `json:"template"`
	Saves    float64        `json:"saves"`
	Because  string         `json:"because"`
}

func (c *shownCommand) summarize() summary {
	if len(c.Remove) == 0 {
		return summary{}
	}
	s := summary{saves: c.Saves}
	var nodes []string
	pods := 0
	for i := range c.Remove {
		n := &c.Remove[i]
		name := n.Node
		if n.InstanceType != "" {
			name += " (" + n.InstanceType + ", " + n.CapacityType + ", " + n.Zone + ")"
		}
		nodes = append(nodes, name)
		pods += len(n.Pods)
		s.objects = append(s.objects, subject(inspect.KindNodePool, n.Pool))
		for _, p := range n.Pods {
			s.objects = append(s.objects, subject(inspect.KindPod, p))
		}
	}
	s.text = "removes " + count(len(nodes), strings.ToLower(c.Reason)+" node") + ": " + names(nodes)
	if c.Because != "" {
		s.text += " [" + c.Because + "]"
	}
	switch {
	case pods == 1:
		s.text += "; 1 pod moves"
	case pods > 1:
		s.text += "; " + count(pods, "pod") + " move"
	}
	var offers []string
	for i := range c.Create {
		o := &c.Create[i].Offer
		offers = append(offers, o.Type+" ("+o.CapacityType+", "+o.Zone+")")
		s.objects = append(s.objects, subject(inspect.KindNodePool, c.Create[i].Pool))
	}
	if n := len(c.Template); n > 0 {
		offers = append(offers, count(n, "node")+" of the static pool")
	}
	if len(offers) > 0 {
		s.text += "; replaced by " + names(offers)
	}
	for i := range c.Bind {
		s.objects = append(s.objects, subject(inspect.KindPod, c.Bind[i].Pod.String()), subject(inspect.KindNode, c.Bind[i].Node))
	}
	if c.Saves > 0 {
		s.text += fmt.Sprintf("; saves $%.4f an hour", c.Saves)
	}
	return s
}

func (r *removal) summarize() summary {
	name := r.Node
	if name == "" {
		name = r.Claim
	}
	if name == "" {
		return summary{}
	}
	return summary{text: "NodeClaim " + r.Claim + " was deleted: " + strings.ReplaceAll(r.Reason, "_", " "), objects: []string{subject(inspect.KindNode, r.Node), subject(inspect.KindNodeClaim, r.Claim)}}
}

// shownPlan is what is shown of a plan.
type shownPlan plan

func (p *shownPlan) summarize() summary {
	if p.NodeCount+p.Existing+p.UnplacedCount == 0 {
		return summary{}
	}
	var s summary
	var parts, offers []string
	for i := range p.Nodes {
		n := &p.Nodes[i]
		offers = append(offers, n.Offer.Type+" ("+n.Offer.CapacityType+", "+n.Offer.Zone+")")
		s.objects = append(s.objects, subject(inspect.KindNodePool, n.Pool))
	}
	if p.NodeCount > 0 {
		parts = append(parts, fmt.Sprintf("launches %s for %s at $%.4f an hour: %s", count(p.NodeCount, "node"), count(p.Pods, "pod"), p.Price, names(offers)))
	}
	if p.Existing > 0 {
		parts = append(parts, "nodes that exist or are on their way have room for "+count(p.Existing, "pod"))
	}
	for i := range p.Unplaced {
		s.objects = append(s.objects, subject(inspect.KindPod, p.Unplaced[i].Pod))
	}
	if p.UnplacedCount > 0 && len(p.Unplaced) > 0 {
		parts = append(parts, fmt.Sprintf("%s cannot be placed, such as %s: %s", count(p.UnplacedCount, "pod"), p.Unplaced[0].Pod, p.Unplaced[0].Why))
	}
	s.text = strings.Join(parts, "; ")
	return s
}

func (d *Drain) summarize() summary {
	if d.Node == "" {
		return summary{}
	}
	s := summary{objects: []string{subject(inspect.KindNode, d.Node), subject(inspect.KindNodeClaim, d.Claim)}}
	if len(d.Waits) == 0 {
		s.text = "node " + d.Node + " waits for nothing any longer"
		return s
	}
	var waits []string
	for i := range d.Waits {
		waits = append(waits, d.Waits[i].Text())
	}
	s.text = "node " + d.Node + " is terminating and waits: " + names(waits)
	return s
}

func (d *decision) summarize() summary {
	return summary{
		text: fmt.Sprintf("a pass found %s to carry out and refused %d; the nodes cost $%.4f an hour, and $%.4f afterwards", count(len(d.Commands), "command"), d.Refusals, d.Before, d.After),
	}
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// names joins the first of some names.
func names(list []string) string {
	text := strings.Join(list[:min(mostNamed, len(list))], ", ")
	if more := len(list) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
