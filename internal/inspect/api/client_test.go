package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/journal"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

func connect(t *testing.T, h http.Handler, token string) *api.Client {
	t.Helper()
	served := httptest.NewServer(h)
	t.Cleanup(served.Close)
	client, err := api.NewClient(served.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Errors about missing permissions, and about servers without these endpoints, contain the next step. Such errors let callers ask
// elsewhere.
func TestEX_36_UnavailableControllersNameTheNextStep(t *testing.T) {
	t.Parallel()
	source := newController(snapshottest.Options{Nodes: 1})
	guarded := journal.NewGuard(source.server(t), onlyUser{userToken}, time.Now)
	standby := newController(snapshottest.Options{Nodes: 1})
	standby.err = api.StandbyError{Leader: "pod kube-system/other"}
	for name, tc := range map[string]struct {
		handler http.Handler
		token   string
		says    []string
	}{
		"no token":          {guarded, "", []string{"does not accept your token", "log in again"}},
		"no right":          {guarded, "of-a-stranger", []string{"denied the request", "kubectl create clusterrole dovetail-inspect --verb=get --non-resource-url=/debug/decisions"}},
		"another program":   {http.NotFoundHandler(), userToken, []string{"does not serve this endpoint", "--serve-decisions=false", "upgrade it"}},
		"a standby":         {standby.server(t), userToken, []string{"kube-system/other"}},
		"a broken response": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }), userToken, []string{"cannot respond now"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := connect(t, tc.handler, tc.token).Fleet(t.Context())
			if _, unavailable := errors.AsType[api.UnavailableError](err); !unavailable {
				t.Fatalf("got %v, want an UnavailableError", err)
			}
			for _, part := range tc.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, want %q in it", err, part)
				}
			}
		})
	}
}

// A wrong question, and a response that cannot be read, are no reason to ask elsewhere.
func TestEX_36_OtherErrorsAreShown(t *testing.T) {
	t.Parallel()
	source := newController(snapshottest.Options{Nodes: 1})
	for name, tc := range map[string]struct {
		handler http.Handler
		query   func(context.Context, *api.Client) error
		says    string
	}{
		"a wrong what-if": {source.server(t), func(ctx context.Context, c *api.Client) error {
			_, err := c.Explain(ctx, inspect.Subject{Kind: "deployment", Name: "x"})
			return err
		}, "use pod, node, nodeclaim or nodepool"},
		"no JSON": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }), func(ctx context.Context, c *api.Client) error {
			_, err := c.Fleet(ctx)
			return err
		}, "use the same version of dovetail"},
		"an error": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) }), func(ctx context.Context, c *api.Client) error {
			_, err := c.Fleet(ctx)
			return err
		}, "status 500: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.query(t.Context(), connect(t, tc.handler, ""))
			if _, unavailable := errors.AsType[api.UnavailableError](err); err == nil || unavailable || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want an error of another kind with %q", err, tc.says)
			}
		})
	}
}

// Requests to a busy controller are repeated for a while.
func TestEX_33_ClientsComeBack(t *testing.T) {
	t.Parallel()
	var requested atomic.Int32
	busyFor := func(times int32) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if requested.Add(1) <= times {
				w.Header().Set("Retry-After", "0.001")
				http.Error(w, "another plan is made", http.StatusTooManyRequests)
				return
			}
			_, _ = w.Write([]byte("{}"))
		})
	}
	if _, err := connect(t, busyFor(2), "").Plan(t.Context(), inspect.WhatIf{}); err != nil || requested.Load() != 3 {
		t.Errorf("asked %d times, %v; want three", requested.Load(), err)
	}
	requested.Store(0)
	if _, err := connect(t, busyFor(100), "").Plan(t.Context(), inspect.WhatIf{}); err == nil || !strings.Contains(err.Error(), "is busy: another plan is made") || requested.Load() != 4 {
		t.Errorf("asked %d times, %v; want four, and what it is busy with", requested.Load(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	patient := connect(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		cancel()
	}), "")
	if _, err := patient.Plan(ctx, inspect.WhatIf{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after Ctrl-C: %v", err)
	}
}

// Addresses that mean nothing are refused, and tokens are not sent over a network that others can listen to.
func TestEX_36_Addresses(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"http://localhost:8080": true, "http://127.0.0.1:8080/": true, "http://[::1]:8080": true, "https://dovetail.example.com": true,
		"localhost:8080": false, "": false, "ftp://localhost": false, "http://": false, "http://dovetail.example.com": false, "http://10.0.0.1:8080": false,
	} {
		if _, err := api.NewClient(address, userToken); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := api.NewClient("http://10.0.0.1:8080", ""); err != nil {
		t.Errorf("without a token: %v", err)
	}
}

// Connect takes the token of the user along, in one request.
func TestEX_35_ConnectTakesTheTokenAlong(t *testing.T) {
	t.Parallel()
	source := newController(snapshottest.Options{Nodes: 2})
	c := newCluster(t, nil)
	served := httptest.NewServer(journal.NewGuard(source.server(t), onlyUser{userToken}, time.Now))
	t.Cleanup(served.Close)
	client, err := api.Connect(t.Context(), served.URL, api.Target{Kube: c.kube()})
	if err != nil {
		t.Fatal(err)
	}
	if f, err := client.Fleet(t.Context()); err != nil || f.Totals.Nodes != 2 {
		t.Errorf("got %d nodes, %v", f.Totals.Nodes, err)
	}
	if sent := c.sent(); len(sent) != 1 {
		t.Errorf("%d requests to the API server, want one: %q", len(sent), sent)
	}
}
