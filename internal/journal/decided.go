package journal

import (
	"math"
	"slices"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// How much of a decision is kept. A value that was shortened says so.
const (
	mostNodes    = 200
	mostPods     = 30 // of a node
	mostTypes    = 5
	mostBinds    = 300
	mostRefusals = 100
)

// command is a command as it is kept.
type command struct {
	disrupt.Command

	Cut bool `json:"cut,omitempty"`
}

// decision is what a pass found beyond its commands.
type decision struct {
	Commands []string                        `json:"commands,omitempty"` // ids
	Eligible map[karpv1.DisruptionReason]int `json:"eligible,omitempty"`
	Refused  []Refusal                       `json:"refused,omitempty"`
	Refusals int                             `json:"refusals"` // all of them
	Scores   []disrupt.Score                 `json:"scores,omitempty"`
	Limited  bool                            `json:"limited,omitempty"`
	Before   float64                         `json:"before"`
	After    float64                         `json:"after"`
	Bound    float64                         `json:"bound,omitempty"`
}

// Refusal is a node or a set of nodes that stays, why, and since when that is so.
type Refusal struct {
	Reason karpv1.DisruptionReason `json:"reason"`
	Nodes  []string                `json:"nodes"`
	Why    reason.Reason           `json:"why"`
	Text   string                  `json:"text"`
	Saves  float64                 `json:"saves,omitempty"`
	Cost   float64                 `json:"cost,omitempty"`
	Since  time.Time               `json:"since"`
}

// Decided takes a decision in. Every command is kept; the rest only if it differs from the last one.
func (j *Journal) Decided(d disrupt.Decision) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	found := decision{Eligible: d.Eligible, Refusals: len(d.Refused), Limited: d.Limited, Before: finite(d.Before), After: finite(d.After), Bound: finite(d.Bound)}
	var concerned []string
	for i := range d.Commands {
		c, nodes := storedCommand(d.Commands[i])
		j.add(Entry{At: d.At, Kind: Command, Value: j.encoded(c), id: c.ID, nodes: nodes})
		found.Commands = append(found.Commands, c.ID)
		concerned = append(concerned, nodes...)
	}
	for _, refused := range j.blocked.recordPass(&d) {
		if len(found.Refused) < mostRefusals {
			found.Refused = append(found.Refused, refused)
			concerned = append(concerned, refused.Nodes...)
		}
	}
	for _, s := range first(d.Scores, mostRefusals, new(bool)) {
		s.Nodes, s.Value, s.Savings, s.Moving = first(s.Nodes, mostNodes, new(bool)), finite(s.Value), finite(s.Savings), finite(s.Moving)
		s.Saves, s.Cost, s.PoolPrice, s.PoolCost = finite(s.Saves), finite(s.Cost), finite(s.PoolPrice), finite(s.PoolCost)
		found.Scores = append(found.Scores, s)
	}
	if e := (Entry{At: d.At, Kind: Decision, Value: j.encoded(found), nodes: concerned}); !j.repeats(e) || len(d.Commands) > 0 {
		j.add(e)
	}
}

// outcome is what became of a command.
type outcome struct {
	ID   string `json:"id"` // of the command
	Text string `json:"text"`
}

// Outcome records how a command ended, or its progress.
func (j *Journal) Outcome(id, text string, at time.Time) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e := Entry{At: at, Kind: Outcome, Value: j.encoded(outcome{id, text}), id: id}
	commands := j.rings[Command].entries
	for i := range slices.Backward(commands) {
		if commands[i].id == id {
			e.nodes = commands[i].nodes
			break
		}
	}
	j.add(e)
}

// storedCommand is what is kept of a command, and the nodes that it removes.
func storedCommand(c disrupt.Command) (out command, nodes []string) {
	for i := range c.Remove {
		nodes = append(nodes, c.Remove[i].Node, c.Remove[i].Claim)
	}
	cut := false
	c.Remove = slices.Clone(first(c.Remove, mostNodes, &cut))
	for i := range c.Remove {
		c.Remove[i].Pods = first(c.Remove[i].Pods, mostPods, &cut)
		c.Remove[i].Bare = first(c.Remove[i].Bare, mostPods, &cut)
	}
	c.Create = slices.Clone(first(c.Create, mostNodes, &cut))
	for i := range c.Create {
		c.Create[i].Types = first(c.Create[i].Types, mostTypes, &cut)
		c.Create[i].Pods = first(c.Create[i].Pods, mostPods, &cut)
		c.Create[i].Needs = nil // the types and the offer say what it comes to
	}
	c.Bind = first(c.Bind, mostBinds, &cut)
	c.Saves, c.Frees, c.Cost, c.Score = finite(c.Saves), finite(c.Frees), finite(c.Cost), finite(c.Score)
	return command{Command: c, Cut: cut}, nodes
}

// first returns the start of a list and notes if something was left out.
func first[T any](list []T, most int, cut *bool) []T {
	if len(list) <= most {
		return list
	}
	*cut = true
	return list[:most]
}

// finite keeps numbers in what JSON can say: a score has no upper end.
func finite(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return 0
	case math.IsInf(x, 0):
		return math.Copysign(math.MaxFloat64, x)
	}
	return x
}

// removal is a claim that was deleted although no command removes it.
type removal struct {
	Claim  string `json:"claim"`
	Node   string `json:"node,omitempty"` // empty: it has none
	Reason string `json:"reason"`         // as the metric karpenter_nodeclaims_disrupted_total names it
}

// Removed records that a claim was deleted without a check whether it may be disrupted: it expired, was interrupted,
// failed to launch, is unhealthy, or its static pool is scaled down.
func (j *Journal) Removed(claim, node, reason string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.add(Entry{At: j.now(), Kind: Removal, Value: j.encoded(removal{claim, node, reason}), nodes: []string{claim, node}})
}
