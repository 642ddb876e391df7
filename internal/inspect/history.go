package inspect

import (
	"encoding/json"
	"time"
)

// Sources of events.
const (
	SourceLedger = "ledger"
	SourceEvents = "event" // of Kubernetes
)

// Event is something that happened: an entry of the ledger, or an event of Kubernetes.
type Event struct {
	At      time.Time       `json:"at"`
	Kind    string          `json:"kind"`              // of the entry (internal/journal), or the reason of the event
	Text    string          `json:"text"`              // a sentence
	Source  string          `json:"source"`            // ledger or event
	ID      string          `json:"id,omitempty"`      // of the command that it belongs to
	Objects []string        `json:"objects,omitempty"` // that it is about, in the form of Subject.String
	Saves   float64         `json:"saves,omitempty"`   // USD an hour
	Detail  json.RawMessage `json:"detail,omitempty"`  // the decision with its reasons, as it was recorded
}

// AllEvents as a limit requests all events that match.
const AllEvents = -1

// HistoryQuery selects what is returned. The zero HistoryQuery requests the latest events.
type HistoryQuery struct {
	Object Subject   `json:"object,omitzero"` // zero: all
	Since  time.Time `json:"since,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Kinds  []string  `json:"kinds,omitempty"` // none: all
	Limit  int       `json:"limit,omitempty"` // of events; 0: 100; AllEvents: no limit
}

// History is what happened, and what the cluster cost meanwhile.
type History struct {
	Events []Event  `json:"events"`          // oldest first
	Costs  []Cost   `json:"costs,omitempty"` // in order of time
	Notes  []string `json:"notes,omitempty"` // what is missing, and why
}

// Cost is what a cluster cost at a time.
type Cost struct {
	At        time.Time `json:"at"`
	Hourly    float64   `json:"hourly"`              // USD
	Bound     float64   `json:"bound,omitempty"`     // USD an hour; no nodes that hold its pods cost less; 0: not known
	Nodes     int       `json:"nodes"`               // managed by Dovetail
	Pods      int       `json:"pods"`                // on them
	Evictions int       `json:"evictions,omitempty"` // since the time before
	Saved     float64   `json:"saved,omitempty"`     // USD an hour that consolidation saves at this time, compared with never having consolidated
}
