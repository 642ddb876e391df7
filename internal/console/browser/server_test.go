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
	fail    error // of every request
}

func newService(file *snapshot.File) *service {
	return &service{Service: snapshot.Service{File: file, Words: awsv1.Vocabulary()}}
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
	f.At = time.Now()
	if s.fleet != nil {
		s.fleet(&f)
	}
	return f, errors.Join(err, s.fail)
}

func (s *service) History(context.Context, inspect.HistoryQuery) (inspect.History, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.past, s.fail
}

// serve serves the page with its endpoints, and counts what is requested.
func serve(t *testing.T, s *service) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(console.Path, console.Handler())
	mux.Handle("/debug/inspect/", guarded(endpoints(s)))
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

func endpoints(s *service) http.Handler {
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, v any, err error) {
		if err != nil {
			code := http.StatusInternalServerError
			if _, missing := errors.AsType[inspect.NotFoundError](err); missing {
				code = http.StatusNotFound
			}
			http.Error(w, err.Error(), code)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /debug/inspect/fleet", func(w http.ResponseWriter, req *http.Request) {
		f, err := s.Fleet(req.Context())
		reply(w, f, err)
	})
	mux.HandleFunc("GET /debug/inspect/history", func(w http.ResponseWriter, req *http.Request) {
		h, err := s.History(req.Context(), inspect.HistoryQuery{})
		reply(w, h, err)
	})
	mux.HandleFunc("GET /debug/inspect/explain", func(w http.ResponseWriter, req *http.Request) {
		q := req.URL.Query()
		about := inspect.Subject{Kind: inspect.Kind(q.Get("kind")), Namespace: q.Get("namespace"), Name: q.Get("name")}
		if s.explain != nil {
			reply(w, map[string]any{"document": s.explain(about)}, nil)
			return
		}
		e, err := s.Explain(req.Context(), about)
		reply(w, map[string]any{"explanation": e, "document": e.Document()}, err)
	})
	mux.HandleFunc("POST /debug/inspect/plan", func(w http.ResponseWriter, req *http.Request) {
		var change inspect.WhatIf
		if err := json.NewDecoder(req.Body).Decode(&change); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		plan := s.Plan
		if s.plan != nil {
			plan = func(_ context.Context, w inspect.WhatIf) (inspect.Changes, error) { return s.plan(w) }
		}
		c, err := plan(req.Context(), change)
		reply(w, map[string]any{"changes": c, "document": c.Document()}, err)
	})
	return mux
}
