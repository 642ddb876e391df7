package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/dovetail-sh/dovetail/internal/inspect"
)

// laidOut is a response with its document, for pages that show it.
type laidOut struct {
	Response any              `json:"response"`
	Document inspect.Document `json:"document"`
}

// Handler serves the requests of the web page from any Service. It has no limits, so it is for a single user.
func Handler(s inspect.Service) http.Handler {
	routes := http.NewServeMux()
	// any order: each has its own path
	for path, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET " + pathFleet: func(w http.ResponseWriter, req *http.Request) error {
			f, err := s.Fleet(req.Context())
			return respond(w, f, err)
		},
		"GET " + pathExplain: func(w http.ResponseWriter, req *http.Request) error { return handleExplain(w, req, s.Explain) },
		"GET " + pathHistory: func(w http.ResponseWriter, req *http.Request) error { return handleHistory(w, req, s.History) },
		"GET " + pathSavings: func(w http.ResponseWriter, req *http.Request) error { return answerSavings(w, req, s.Savings) },
		"POST " + pathPlan:   func(w http.ResponseWriter, req *http.Request) error { return handlePlan(w, req, s.Plan) },
	} {
		routes.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) {
			protect(w)
			if err := serve(w, req); err != nil {
				refuse(w, err)
			}
		})
	}
	return routes
}

// protect keeps responses out of caches, and their types as they are.
func protect(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

func handleExplain(w http.ResponseWriter, req *http.Request, load func(context.Context, inspect.Subject) (inspect.Explanation, error)) error {
	about, document, err := parseExplain(req.URL.RawQuery)
	if err != nil {
		return problem{http.StatusBadRequest, err.Error()}
	}
	ctx, cancel := context.WithTimeout(req.Context(), fleetWithin)
	defer cancel()
	e, err := load(ctx, about)
	if err == nil && document {
		return respond(w, laidOut{Response: e, Document: e.Document()}, nil)
	}
	return respond(w, e, err)
}

func handleHistory(w http.ResponseWriter, req *http.Request, load func(context.Context, inspect.HistoryQuery) (inspect.History, error)) error {
	query, err := parseHistory(req.URL.RawQuery)
	if err != nil {
		return problem{http.StatusBadRequest, err.Error()}
	}
	ctx, cancel := context.WithTimeout(req.Context(), fleetWithin)
	defer cancel()
	h, err := load(ctx, query)
	return respond(w, h, err)
}

func answerSavings(w http.ResponseWriter, req *http.Request, load func(context.Context, inspect.SavingsQuery) (inspect.Savings, error)) error {
	query, err := parseSavings(req.URL.RawQuery)
	if err != nil {
		return problem{http.StatusBadRequest, err.Error()}
	}
	ctx, cancel := context.WithTimeout(req.Context(), fleetWithin)
	defer cancel()
	s, err := load(ctx, query)
	return respond(w, s, err)
}

func handlePlan(w http.ResponseWriter, req *http.Request, load func(context.Context, inspect.WhatIf) (inspect.Changes, error)) error {
	document, err := parsePlan(req.URL.RawQuery)
	if err != nil {
		return problem{http.StatusBadRequest, err.Error()}
	}
	change, err := readWhatIf(w, req)
	if err != nil {
		return err
	}
	changes, err := load(req.Context(), change)
	if err == nil && document {
		return respond(w, laidOut{Response: changes, Document: changes.Document()}, nil)
	}
	return respond(w, changes, err)
}

func readWhatIf(w http.ResponseWriter, req *http.Request) (change inspect.WhatIf, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, mostBody))
	if err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return change, problem{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes; use dovetail snapshot, and plan for the file", mostBody)}
		}
		return change, problem{http.StatusBadRequest, err.Error()}
	}
	if body = bytes.TrimSpace(body); len(body) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&change); err != nil {
			return change, problem{http.StatusBadRequest, "the body is not a what-if: " + err.Error()}
		}
	}
	return change, nil
}
