package browser

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/console"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

const goodToken = "good-token"

// service answers from a snapshot; a test replaces what it is about.
type service struct {
	snapshot.Service

	mu      sync.Mutex
	fleet   func(*inspect.Fleet)                          // changes what is shown
	explain func(inspect.Subject) inspect.Document        // nil: of the snapshot
	plan    func(inspect.WhatIf) (inspect.Changes, error) // nil: of the snapshot
	past    inspect.History
	savings inspect.Savings
	fail    error // of every request
}

func newService(file *snapshot.File) *service {
	return &service{
		Service: snapshot.Service{File: file, Words: awsv1.Vocabulary()},
		plan:    func(inspect.WhatIf) (inspect.Changes, error) { return inspect.Changes{}, nil },
	}
}

func (s *service) set(change func(*service)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *service) Fleet(ctx context.Context) (inspect.Fleet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.Service.Fleet(ctx)
	f.At, f.Source = time.Now(), "leader dovetail-0"
	if s.fleet != nil {
		s.fleet(&f)
	}
	return f, errors.Join(err, s.fail)
}

func (s *service) History(_ context.Context, q inspect.HistoryQuery) (inspect.History, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.past
	h.Events = h.Events[max(0, len(h.Events)-q.Limit):]
	return h, s.fail
}

func (s *service) Savings(context.Context, inspect.SavingsQuery) (inspect.Savings, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.savings.Days == nil {
		return s.savings, inspect.UnrecordedError{Why: "what the nodes cost before is not known here", Fix: "ask a live cluster"}
	}
	return s.savings, s.fail
}

func (s *service) Plan(ctx context.Context, change inspect.WhatIf) (inspect.Changes, error) {
	s.mu.Lock()
	plan := s.plan
	s.mu.Unlock()
	if plan != nil {
		return plan(change)
	}
	return s.Service.Plan(ctx, change)
}

// serve serves the page with its endpoints, and counts what is requested.
func serve(t *testing.T, s *service) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(console.Path, console.Handler())
	mux.Handle(api.Prefix, guarded(endpoints(s)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + console.Path
}

func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.Header.Get("Authorization") {
		case "Bearer " + goodToken:
			next.ServeHTTP(w, req)
		case "Bearer forbidden":
			http.Error(w, "the owner of the token may not read this", http.StatusForbidden)
		default:
			http.Error(w, "a bearer token of this cluster is needed", http.StatusUnauthorized)
		}
	})
}

// endpoints are the real ones, but for the documents that a case makes up.
func endpoints(s *service) http.Handler {
	responses := api.Handler(s)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		explain := s.explain
		s.mu.Unlock()
		if explain == nil || req.URL.Path != api.Prefix+"explain" {
			responses.ServeHTTP(w, req)
			return
		}
		q := req.URL.Query()
		about := inspect.Subject{Kind: inspect.Kind(q.Get("kind")), Namespace: q.Get("namespace"), Name: q.Get("name")}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"document": explain(about)})
	})
}
