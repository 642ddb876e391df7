package solve

import (
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Question asks which nodes could go. Nothing in it is pending: callers plan for pending pods first.
type Question struct {
	View       *cluster.Snapshot `json:"view"`
	Candidates []string          `json:"candidates"` // nodes that may be removed; others only take pods
	Policy     Policy            `json:"policy"`
}

// Consolidation is the answer: moves that each make the cluster cheaper, in the order in which to
// make them, most saved per disruption first.
type Consolidation struct {
	Moves    []Move    `json:"moves,omitempty"`
	Kept     []Verdict `json:"kept,omitempty"` // candidates that stay, and why, by name
	Before   float64   `json:"before"`         // USD an hour of all nodes with a price
	After    float64   `json:"after"`          // the same once every move is made
	Bound    float64   `json:"bound"`          // no cluster that holds the pods costs less; 0: not known
	Examined int       `json:"examined"`       // candidates looked at
	Partial  bool      `json:"partial,omitempty"`
}

// Move removes nodes. Their pods go to nodes that stay and to new ones; a new node takes only pods of
// its own move, so a move depends on earlier ones alone.
type Move struct {
	Remove []string  `json:"remove"`
	Bind   []Bind    `json:"bind,omitempty"`
	Create []NewNode `json:"create,omitempty"`
	Saves  float64   `json:"saves"` // USD an hour, always above zero
	Moved  int       `json:"moved"` // pods
}

// Verdict is why a candidate stays.
type Verdict struct {
	Node string        `json:"node"`
	Why  reason.Reason `json:"why"`
}

// Consolidate proposes moves. Every move lowers what the cluster costs by more than a threshold, so a
// sequence of them ends: no cluster is ever reached twice.
func Consolidate(q Question, stop func() bool) Consolidation {
	_, _ = q, stop
	return Consolidation{}
}
