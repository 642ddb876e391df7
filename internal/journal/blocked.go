package journal

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

const (
	mostBlocked = 5000
	forgetAfter = 2 * time.Minute // a pass that ends early does not check everything,
	forgetPass  = 12              // and between two of them much time may pass
)

// blocked records since when nodes are refused for a reason.
type blocked struct {
	known  map[string]*openRefusal
	passes int
}

// openRefusal is a refusal that holds.
type openRefusal struct {
	refusal Refusal
	seen    time.Time
	pass    int
	kept    bool // one of those that every pass has all of
}

// recordPass takes the refusals of a pass in and returns them with the time since when they hold.
func (b *blocked) recordPass(d *disrupt.Decision) []Refusal {
	b.passes++
	now := d.At
	out := make([]Refusal, 0, len(d.Refused))
	for i := range d.Refused {
		r := &d.Refused[i]
		refusal := Refusal{
			Reason: r.Reason, Nodes: first(r.Nodes, mostNodes, new(bool)), Why: r.Why, Text: r.Why.Text(), Saves: finite(r.Saves), Cost: finite(r.Cost), Since: now,
		}
		// By nodes first: those that hold since the same time are listed in this order.
		key := strings.Join(append(slices.Clone(r.Nodes), "", string(r.Reason), string(r.Why.Code)), "\x00")
		known, found := b.known[key]
		switch {
		case found:
			refusal.Since = known.refusal.Since
			known.refusal, known.seen, known.pass, known.kept = refusal, now, b.passes, i < d.Kept
		case len(b.known) < mostBlocked:
			b.known[key] = &openRefusal{refusal: refusal, seen: now, pass: b.passes, kept: i < d.Kept}
		}
		out = append(out, refusal)
	}
	outdated := passResultOf(d)
	maps.DeleteFunc(b.known, func(_ string, s *openRefusal) bool {
		old := now.Sub(s.seen) > forgetAfter && b.passes-s.pass > forgetPass
		return s.pass < b.passes && (old || s.kept || outdated.endsRefusal(&s.refusal))
	})
	return out
}

// passResult is what a pass says about nodes that earlier refusals speak of.
type passResult struct {
	there   map[string]bool // nil: not known
	settled map[string]bool // is terminating, or is kept by what every method respects
	judged  map[string]bool // a method, and a node that it said something else about
}

func passResultOf(d *disrupt.Decision) passResult {
	n := passResult{settled: map[string]bool{}, judged: map[string]bool{}}
	if d.Nodes != nil {
		n.there = make(map[string]bool, len(d.Nodes))
		for _, name := range d.Nodes {
			n.there[name] = true
		}
	}
	for i := range d.Commands {
		for j := range d.Commands[i].Remove {
			n.settled[d.Commands[i].Remove[j].Node] = true
		}
	}
	for i := range d.Refused {
		r := &d.Refused[i]
		for _, name := range r.Nodes {
			n.settled[name] = n.settled[name] || i < d.Kept
		}
		if len(r.Nodes) == 1 {
			n.judged[string(r.Reason)+" "+r.Nodes[0]] = true
		}
	}
	return n
}

// endsRefusal reports whether a refusal that the pass did not repeat holds no more: one of its nodes is gone, terminating or is
// kept by something else. A pass that ended before it came to a node says nothing about it.
func (n passResult) endsRefusal(r *Refusal) bool {
	return slices.ContainsFunc(r.Nodes, func(name string) bool {
		return n.there != nil && !n.there[name] || n.settled[name] || len(r.Nodes) == 1 && n.judged[string(r.Reason)+" "+name]
	})
}

// list returns what keeps a node, or all nodes, longest first.
func (b *blocked) list(node string) []Refusal {
	var out []Refusal
	keys := slices.SortedFunc(maps.Keys(b.known), func(x, y string) int {
		return cmp.Or(b.known[x].refusal.Since.Compare(b.known[y].refusal.Since), cmp.Compare(x, y))
	})
	for _, key := range keys {
		if refusal := b.known[key].refusal; node == "" || slices.Contains(refusal.Nodes, node) {
			out = append(out, refusal)
		}
	}
	return out
}
