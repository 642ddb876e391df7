package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Service responds to queries about a File. It can change the cluster before it plans for it.
type Service struct {
	File  *File
	Words reqs.Vocabulary
	Past  inspect.Historian // nil: nothing is known of what was before
}

// local is the Service of the cluster as it is in the File.
func (s *Service) local() (inspect.Local, error) {
	c, err := s.File.Cluster(s.Words)
	if err != nil {
		return inspect.Local{}, err
	}
	return inspect.Local{Cluster: c, Past: s.Past}, nil
}

// Fleet implements inspect.Service.
func (s *Service) Fleet(ctx context.Context) (inspect.Fleet, error) {
	l, err := s.local()
	if err != nil {
		return inspect.Fleet{}, err
	}
	f, err := l.Fleet(ctx)
	f.Source = "snapshot " + s.File.Name
	if s.File.adoptedGroups() {
		for i := range f.Nodes {
			f.Nodes[i].Claim = ""
		}
	}
	f.Notes = append(f.Notes, s.File.notes()...)
	return f, err
}

// Explain implements inspect.Service.
func (s *Service) Explain(ctx context.Context, about inspect.Subject) (inspect.Explanation, error) {
	l, err := s.local()
	if err != nil {
		return inspect.Explanation{}, err
	}
	e, err := l.Explain(ctx, about)
	if err == nil {
		e.Notes = append(e.Notes, s.File.notes()...)
		if s.File.adoptedGroups() {
			forgetClaims(&e)
		}
		if by := s.File.Controller; by == ByKarpenter || by == ByClusterAutoscaler {
			e.Notes = append(e.Notes, controllerTitle(by)+" manages the nodes: this is what Dovetail would decide")
		}
	}
	return e, err
}

// Subjects implements inspect.Lister.
func (s *Service) Subjects(ctx context.Context, kind inspect.Kind, namespace string) ([]string, error) {
	if kind == inspect.KindNodeClaim && s.File.adoptedGroups() {
		return nil, nil
	}
	l, err := s.local()
	if err != nil {
		return nil, err
	}
	return l.Subjects(ctx, kind, namespace)
}

// forgetClaims removes the names of NodeClaims that stand for nodes of node groups.
func forgetClaims(e *inspect.Explanation) {
	if e.Node != nil {
		e.Node.Node.Claim = ""
	}
	if e.Pod == nil {
		return
	}
	for _, n := range []*inspect.Node{e.Pod.Node, e.Pod.Expected} {
		if n != nil {
			n.Claim = ""
		}
	}
}

// Plan implements inspect.Service.
func (s *Service) Plan(ctx context.Context, change inspect.WhatIf) (inspect.Changes, error) {
	if err := s.complete(); err != nil {
		return inspect.Changes{}, err
	}
	file, err := s.File.With(change, s.Words)
	if err != nil {
		return inspect.Changes{}, err
	}
	l, err := (&Service{File: file, Words: s.Words}).local()
	if err != nil {
		return inspect.Changes{}, err
	}
	changes, err := l.Plan(ctx, inspect.WhatIf{})
	changes.Notes = append(changes.Notes, file.notes()...)
	if file.adoptedGroups() {
		for i := range changes.Remove {
			changes.Remove[i].Claim = ""
		}
	}
	return changes, err
}

// Advise implements inspect.Adviser.
func (s *Service) Advise(ctx context.Context) (inspect.Advice, error) {
	if err := s.complete(); err != nil {
		return inspect.Advice{}, err
	}
	l, err := s.local()
	if err != nil {
		return inspect.Advice{}, err
	}
	a := inspect.Advise(l.Cluster, func() bool { return ctx.Err() != nil })
	if errors.Is(ctx.Err(), context.Canceled) { // after a deadline, what was found until then is better than nothing
		return inspect.Advice{}, ctx.Err()
	}
	a.Notes = append(a.Notes, s.File.notes()...)
	return a, nil
}

// complete refuses a File without which every plan would be false.
func (s *Service) complete() error {
	for _, what := range []string{"nodes", "pods"} {
		if m, lacks := s.File.Lacks(what); lacks {
			return fmt.Errorf("%s could not be read (%s): %s", what, m.Why, m.Then)
		}
	}
	return nil
}

// notes are what the File lacks.
func (f *File) notes() []string {
	var out []string
	for _, m := range f.Missing {
		out = append(out, m.String())
	}
	return out
}

// History implements inspect.Service.
func (s *Service) History(ctx context.Context, query inspect.HistoryQuery) (inspect.History, error) {
	return inspect.Local{Past: s.Past}.History(ctx, query)
}

// Savings implements inspect.Service.
func (s *Service) Savings(ctx context.Context, query inspect.SavingsQuery) (inspect.Savings, error) {
	return inspect.Local{Past: s.Past}.Savings(ctx, query)
}
