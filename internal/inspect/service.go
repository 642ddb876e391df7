package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Service responds to queries about one cluster. Local does so for a Cluster in memory; the client of a controller
// (internal/inspect/api) requests the same of the leader.
type Service interface {
	Fleet(ctx context.Context) (Fleet, error)
	Explain(ctx context.Context, about Subject) (Explanation, error)
	Plan(ctx context.Context, change WhatIf) (Changes, error)
	History(ctx context.Context, query HistoryQuery) (History, error)
	Savings(ctx context.Context, query SavingsQuery) (Savings, error) // may fail with an UnrecordedError
}

// UnrecordedError says that what is requested is not recorded where it was requested.
type UnrecordedError struct {
	Why string
	Fix string // what to do about it
}

// Error is both.
func (e UnrecordedError) Error() string { return e.Why + "; " + e.Fix }

// Adviser is a Service that can advise. A controller is none: dozens of plans would keep it from its own, so that a client makes
// them for a snapshot of it.
type Adviser interface {
	Service

	Advise(ctx context.Context) (Advice, error)
}

// Lister is a Service that can name what it explains, for completion.
type Lister interface {
	// Subjects names the objects of a kind: of pods, those of a namespace.
	Subjects(ctx context.Context, kind Kind, namespace string) ([]string, error)
}

// Historian knows what was decided before: the ledger, or events where there is none.
type Historian interface {
	History(ctx context.Context, query HistoryQuery) (History, error)
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

// Subject is the object of a request.
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
	Subject Subject  `json:"subject"`
	Similar []string `json:"similar,omitempty"` // names that were perhaps meant
}

// Error names the object, and similar names.
func (e NotFoundError) Error() string {
	text := e.Subject.String() + " was not found"
	switch {
	case len(e.Similar) > 0:
		text += "; did you mean " + strings.Join(e.Similar, " or ") + "?"
	case e.Subject.Kind == KindPod:
		text += " among the pods on nodes and those that kube-scheduler has found no node for"
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
	Wide    int        `json:"wide,omitempty"`    // how many of the last columns are for wide output only
	Omitted string     `json:"omitted,omitempty"` // rows that the table leaves out, such as "12 more nodes"; the response has them
}

// Local is the Service of a Cluster in memory, without a WhatIf.
type Local struct {
	Cluster *Cluster
	Past    Historian // nil: nothing is known of what was before
}

// Fleet implements Service.
func (l Local) Fleet(context.Context) (Fleet, error) { return FleetOf(l.Cluster), nil }

// Explain implements Service.
func (l Local) Explain(ctx context.Context, about Subject) (Explanation, error) {
	e, err := ExplainWithin(l.Cluster, about, func() bool { return ctx.Err() != nil })
	if errors.Is(ctx.Err(), context.Canceled) { // after a deadline, what was found until then is better than nothing
		return Explanation{}, ctx.Err()
	}
	if l.Past == nil {
		return e, err
	}
	past, unread := l.Past.History(ctx, HistoryQuery{Object: about})
	switch {
	case err == nil:
	case unread == nil && slices.ContainsFunc(past.Events, isRecorded):
		e = removed(about, l.Cluster.View.Now, past.Events)
	default:
		return Explanation{}, err
	}
	if unread != nil { // an explanation without history is better than none
		past.Notes = []string{"earlier decisions cannot be read: " + unread.Error()}
	}
	e.History, e.Notes = past.Events, append(e.Notes, past.Notes...)
	return e, nil
}

// isRecorded reports whether an event is an entry of the ledger. An object with events of Kubernetes alone may exist, and not be
// readable for the user.
func isRecorded(e Event) bool { return e.Source == SourceLedger }

// removed explains an object that the cluster does not have any more by what was decided about it.
func removed(about Subject, now time.Time, events []Event) Explanation {
	last := events[len(events)-1]
	for _, e := range slices.Backward(events) {
		if e.Saves != 0 || e.Kind == "command" || e.Kind == "removal" { // says why; an outcome says how far it got
			last = e
			break
		}
	}
	return Explanation{Subject: about, At: now, Answer: fmt.Sprintf("The cluster does not have %s any more. At %s: %s.", about, last.At.UTC().Format(time.RFC3339), strings.TrimSuffix(last.Text, "."))}
}

// Subjects implements Lister.
func (l Local) Subjects(_ context.Context, kind Kind, namespace string) ([]string, error) {
	return Names(Subjects(l.Cluster), kind, namespace), nil
}

// Plan implements Service.
func (l Local) Plan(ctx context.Context, change WhatIf) (Changes, error) {
	if !change.IsZero() {
		return Changes{}, errors.New("a cluster in memory cannot be changed; take a snapshot and change that instead")
	}
	out := PlanOf(l.Cluster, func() bool { return ctx.Err() != nil })
	if errors.Is(ctx.Err(), context.Canceled) { // after a deadline, what was found until then is better than nothing
		return Changes{}, ctx.Err()
	}
	return out, nil
}

// Savings implements Service.
func (l Local) Savings(ctx context.Context, query SavingsQuery) (Savings, error) {
	books, keeps := l.Past.(Accountant)
	if !keeps {
		return Savings{}, UnrecordedError{Why: "what the nodes cost before is not known here", Fix: "ask a live cluster whose nodes Dovetail manages"}
	}
	return books.Savings(ctx, query)
}

// History implements Service.
func (l Local) History(ctx context.Context, query HistoryQuery) (History, error) {
	if l.Past == nil {
		return History{Notes: []string{"nothing is recorded of earlier decisions"}}, nil
	}
	return l.Past.History(ctx, query)
}
