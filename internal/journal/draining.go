package journal

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/drain"
)

const (
	mostDrains = 2000
	mostWaits  = 50 // of a node
)

// Drain is a terminating node and what it waits for now.
type Drain struct {
	Node  string       `json:"node"`
	Claim string       `json:"claim,omitempty"`
	Waits []drain.Wait `json:"waits"`

	seen time.Time
	text string
}

// Draining records what a terminating node waits for; nothing means that it waits no longer. It is an
// entry when it is news.
func (j *Journal) Draining(node, claim string, waits []drain.Wait, at time.Time) {
	if j == nil {
		return
	}
	d := Drain{Node: node, Claim: claim, Waits: first(waits, mostWaits, new(bool)), seen: at}
	for i := range d.Waits {
		w := &d.Waits[i]
		d.text += string(w.Cause) + " " + w.Object + "\n"
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	known, found := j.drains[node]
	switch {
	case len(waits) == 0:
		delete(j.drains, node)
	case found || len(j.drains) < mostDrains:
		j.drains[node] = d
	}
	if d.text != known.text {
		j.add(Entry{At: at, Kind: Draining, Value: j.encoded(d), nodes: []string{node, claim}})
	}
}

// draining returns what a node, or all nodes, wait for, longest first. Those that were not reported for a
// while have gone. The caller holds the lock.
func (j *Journal) draining(node string, now time.Time) []Drain {
	var out []Drain
	for name := range j.drains {
		d := j.drains[name]
		if now.Sub(d.seen) > forgetAfter {
			delete(j.drains, name)
			continue
		}
		if node == "" || d.Node == node || d.Claim == node {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Drain) int {
		if c := a.Waits[0].Since.Compare(b.Waits[0].Since); c != 0 {
			return c
		}
		return strings.Compare(a.Node, b.Node)
	})
	return out
}
