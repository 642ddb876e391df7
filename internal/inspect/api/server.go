package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

// Limits of the work that questions cause.
const (
	viewFor      = 3 * time.Second  // how long a view of the cluster serves
	planFor      = 10 * time.Second // the same for a plan, once it is made
	fleetWithin  = 10 * time.Second
	planWithin   = 45 * time.Second // what was found until then is the response
	retryAfter   = 5 * time.Second
	mostBody     = 1 << 20 // bytes of a WhatIf
	headerLeader = "Dovetail-Leader"
)

// Source is where a Server takes the cluster from.
type Source struct {
	Ready    func(ctx context.Context) error                   // why this replica cannot respond; may be a StandbyError
	Inspect  func(ctx context.Context) *inspect.Cluster        // as the next pass would see it
	Snapshot func(ctx context.Context) (*snapshot.File, error) // the same as a file, which can be changed
	Past     inspect.Historian                                 // what was decided before; also an inspect.Accountant if it knows what that cost; nil: not known
	Panicked func(problem string)                              // told of a defect that a question met, with the stack; nil: nobody is told
}

// StandbyError says that a replica does not lead.
type StandbyError struct {
	Leader string // empty: not known
}

// Error names the leader.
func (e StandbyError) Error() string {
	if e.Leader == "" {
		return "this replica does not lead, and no leader is known; try again once a leader is elected"
	}
	return "this replica does not lead; send the request to the leader, " + e.Leader
}

// Server responds to queries over HTTP. Its methods are safe for concurrent use.
type Server struct {
	source Source
	words  reqs.Vocabulary
	now    func() time.Time
	routes *http.ServeMux

	views cached[*inspect.Cluster]
	files cached[*snapshot.File]
	plans plans
	slot  chan struct{} // of the only explanation that is computed
}

// NewServer returns a Server for a source with the words of its cloud.
func NewServer(source Source, words reqs.Vocabulary, now func() time.Time) *Server {
	if source.Panicked == nil {
		source.Panicked = func(string) {}
	}
	s := &Server{source: source, words: words, now: now, routes: http.NewServeMux(), slot: make(chan struct{}, 1), plans: plans{now: now, panicked: source.Panicked}}
	s.views = newCached(viewFor, now, func(ctx context.Context) (*inspect.Cluster, error) {
		c := *source.Inspect(ctx)
		c.View.Policy.Workers = 1 // the others are for decisions
		return &c, nil
	})
	s.files = newCached(viewFor, now, source.Snapshot)
	// any order: each has its own path
	for path, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET " + pathFleet: s.fleet, "GET " + pathExplain: s.explain, "GET " + pathHistory: s.history, "GET " + pathSavings: s.savings,
		"POST " + pathPlan: s.plan, "GET " + pathSnapshot: s.snapshot,
	} {
		s.routes.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) {
			if err := safely(source.Panicked, func() error { return serve(w, req) }); err != nil {
				refuse(w, err)
			}
		})
	}
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	protect(w)
	if _, pattern := s.routes.Handler(req); pattern != "" {
		if err := s.source.Ready(req.Context()); err != nil {
			if standby, ok := errors.AsType[StandbyError](err); ok {
				w.Header().Set(headerLeader, standby.Leader)
			}
			refuse(w, problem{http.StatusServiceUnavailable, err.Error()})
			return
		}
	}
	s.routes.ServeHTTP(w, req)
}

func (s *Server) fleet(w http.ResponseWriter, req *http.Request) error {
	ctx, cancel := context.WithTimeout(req.Context(), fleetWithin)
	defer cancel()
	l, err := s.local(ctx)
	if err != nil {
		return err
	}
	f, err := l.Fleet(ctx)
	return respond(w, f, err)
}

func (s *Server) explain(w http.ResponseWriter, req *http.Request) error {
	return handleExplain(w, req, func(ctx context.Context, about inspect.Subject) (e inspect.Explanation, err error) {
		ctx, cancel := context.WithTimeout(ctx, planWithin)
		defer cancel()
		select {
		case s.slot <- struct{}{}:
			defer func() { <-s.slot }()
		case <-ctx.Done():
			return e, errBusy
		}
		l, err := s.local(ctx)
		if err != nil {
			return e, err
		}
		return l.Explain(ctx, about)
	})
}

func (s *Server) history(w http.ResponseWriter, req *http.Request) error {
	return handleHistory(w, req, inspect.Local{Past: s.source.Past}.History)
}

func (s *Server) savings(w http.ResponseWriter, req *http.Request) error {
	return answerSavings(w, req, inspect.Local{Past: s.source.Past}.Savings)
}

// local responds from the current view.
func (s *Server) local(ctx context.Context) (inspect.Local, error) {
	c, err := s.views.get(ctx)
	return inspect.Local{Cluster: c, Past: s.source.Past}, err
}

func (s *Server) plan(w http.ResponseWriter, req *http.Request) error {
	return handlePlan(w, req, func(ctx context.Context, change inspect.WhatIf) (inspect.Changes, error) {
		return s.plans.get(ctx, &change, func(ctx context.Context) (inspect.Changes, error) { return s.makePlan(ctx, change) })
	})
}

// makePlan plans for the cluster as it is or, with a change, for a file of it.
func (s *Server) makePlan(ctx context.Context, change inspect.WhatIf) (inspect.Changes, error) {
	if !change.IsZero() {
		file, err := s.files.get(ctx)
		if err != nil {
			return inspect.Changes{}, err
		}
		own := *file
		own.Settings.Policy.Workers = 1 // the others are for decisions
		changes, err := (&snapshot.Service{File: &own, Words: s.words, Past: s.source.Past}).Plan(ctx, change)
		if err != nil {
			return changes, problem{http.StatusUnprocessableEntity, err.Error()}
		}
		return changes, nil
	}
	c, err := s.views.get(ctx)
	if err != nil {
		return inspect.Changes{}, err
	}
	return inspect.Local{Cluster: c}.Plan(ctx, change)
}

func (s *Server) snapshot(w http.ResponseWriter, req *http.Request) error {
	ctx, cancel := context.WithTimeout(req.Context(), planWithin)
	defer cancel()
	release, err := s.plans.acquire()
	if err != nil {
		return err
	}
	defer release()
	file, err := s.files.get(ctx)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if err := errors.Join(file.Encode(zip), zip.Close()); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Length", strconv.Itoa(packed.Len()))
	_, _ = w.Write(packed.Bytes()) // the client may have disconnected
	return nil
}

// problem is why a request is rejected.
type problem struct {
	status int
	text   string
}

func (p problem) Error() string { return p.text }

// errDefect is the response to a request that panicked. The cause is only in the log, because it may contain parts of objects.
var errDefect = problem{http.StatusInternalServerError, "a defect of Dovetail ended this request; please report it with the log of the controller, and a snapshot of the cluster"}

// safely processes a request. If it panics, only this request fails: a defect in an explanation must not
// end the controller.
func safely(panicked func(problem string), do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			panicked(fmt.Sprintf("%v\n\n%s", value, debug.Stack()))
			err = errDefect
		}
	}()
	return do()
}

// errBusy is the response to a request while another one is processed.
var errBusy = problem{http.StatusTooManyRequests, "another request is being processed; try again in a few seconds"}

// refuse responds with an error. Only that of an object that does not exist is JSON: it has the names that were perhaps meant.
func refuse(w http.ResponseWriter, err error) {
	if missing, ok := errors.AsType[inspect.NotFoundError](err); ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(missing) // the client may have disconnected
		return
	}
	status := http.StatusInternalServerError
	if p, ok := errors.AsType[problem](err); ok {
		status = p.status
	} else if _, unrecorded := errors.AsType[inspect.UnrecordedError](err); unrecorded {
		status = http.StatusNotImplemented
	} else if errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusServiceUnavailable
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", seconds(retryAfter))
	}
	http.Error(w, err.Error(), status)
}

// respond writes a value as JSON, or returns the error.
func respond(w http.ResponseWriter, value any, err error) error {
	if err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client may have disconnected
	return nil
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
