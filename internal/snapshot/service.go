package snapshot

import (
	"context"
	"errors"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// Service answers questions about a File. It can change the cluster before it plans for it.
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
	f.Notes = append(f.Notes, s.missing()...)
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
		e.Notes = append(e.Notes, s.missing()...)
	}
	return e, err
}

// missing is what the File lacks, as notes.
func (s *Service) missing() (notes []string) {
	for _, m := range s.File.Missing {
		notes = append(notes, m.What+" could not be read: "+m.Why+"; "+m.Then)
	}
	return notes
}

// Subjects implements inspect.Lister.
func (s *Service) Subjects(ctx context.Context) ([]inspect.Subject, error) {
	l, err := s.local()
	if err != nil {
		return nil, err
	}
	return l.Subjects(ctx)
}

// Plan implements inspect.Service.
func (s *Service) Plan(ctx context.Context, change inspect.WhatIf) (inspect.Changes, error) {
	if !change.IsZero() {
		return inspect.Changes{}, errors.New("what-if is not supported yet")
	}
	l, err := s.local()
	if err != nil {
		return inspect.Changes{}, err
	}
	return l.Plan(ctx, change)
}

// History implements inspect.Service.
func (s *Service) History(ctx context.Context, query inspect.HistoryQuery) (inspect.History, error) {
	return inspect.Local{Past: s.Past}.History(ctx, query)
}
