package inspect

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Service answers questions about one cluster. Local does so for a Cluster in memory; the client of a controller
// (internal/inspect/api) requests the same of the leader.
type Service interface {
	Fleet(ctx context.Context) (Fleet, error)
	Explain(ctx context.Context, about Subject) (Explanation, error)
	Plan(ctx context.Context, change WhatIf) (Changes, error)
}

// Kind is a kind of objects that can be explained.
type Kind string

// Kinds of subjects.
const (
	KindPod       Kind = "pod"
	KindNode      Kind = "node"
	KindNodeClaim Kind = "nodeclaim"
	KindNodePool  Kind = "nodepool"
)

// Subject is the object that a question is about.
type Subject struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace,omitempty"` // of a pod
	Name      string `json:"name"`
}

// String is kind/name, or kind/namespace/name.
func (s Subject) String() string {
	if s.Namespace != "" {
		return fmt.Sprintf("%s/%s/%s", s.Kind, s.Namespace, s.Name)
	}
	return fmt.Sprintf("%s/%s", s.Kind, s.Name)
}

// NotFoundError says that the cluster has no such object.
type NotFoundError struct {
	Subject Subject
	Similar []string // names that were perhaps meant
}

// Error names the object, and similar names.
func (e NotFoundError) Error() string {
	text := e.Subject.String() + " was not found"
	if len(e.Similar) > 0 {
		text += "; did you mean " + strings.Join(e.Similar, " or ") + "?"
	}
	return text
}

// Document is a response laid out for reading: the terminal, the terminal view and the web page show it alike.
type Document struct {
	Title    string    `json:"title"`
	Answer   string    `json:"answer"` // the response in a sentence or two
	Sections []Section `json:"sections,omitempty"`
}

// Section is a part of a Document: lines, a table, or both.
type Section struct {
	Title   string     `json:"title"`
	Lines   []string   `json:"lines,omitempty"`
	Columns []string   `json:"columns,omitempty"`
	Rows    [][]string `json:"rows,omitempty"`
	Wide    int        `json:"wide,omitempty"` // how many of the last columns are for wide output only
}

// Explanation is why an object is as it is. Exactly one of its parts is set.
type Explanation struct {
	Subject Subject   `json:"subject"`
	At      time.Time `json:"at"`
	Answer  string    `json:"answer"`
	History []Event   `json:"history,omitempty"` // oldest first
	Notes   []string  `json:"notes,omitempty"`   // what could not be read, and what the response lacks because of it
}

// Event is something that happened to an object: an entry of the ledger, or an event of Kubernetes.
type Event struct {
	At     time.Time `json:"at"`
	Kind   string    `json:"kind"` // of the entry, or the reason of the event
	Text   string    `json:"text"`
	Source string    `json:"source"` // ledger or event
}

// Document lays an Explanation out for reading.
func (e *Explanation) Document() Document {
	return Document{Title: e.Subject.String(), Answer: e.Answer}
}

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

// Changes is what would be done next: nodes to launch, nodes to remove, and what that comes to.
type Changes struct {
	At time.Time `json:"at"`
}

// Document lays Changes out for reading.
func (c *Changes) Document() Document { return Document{Title: "plan"} }

// Local answers for a Cluster in memory, without a WhatIf.
type Local struct {
	Cluster *Cluster
}

// Fleet implements Service.
func (l Local) Fleet(context.Context) (Fleet, error) { return FleetOf(l.Cluster), nil }
