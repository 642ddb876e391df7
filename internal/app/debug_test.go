package app

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/console"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/journal"
)

// What is served beside the metrics follows from settings, and decisions are for no stranger.
func TestExtraHandlers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server         config.Server
		decisions, cpu bool
		page           bool
	}{
		"by default":     {config.Server{Decisions: true}, true, false, false},
		"both":           {config.Server{Decisions: true, Profiling: true}, true, true, false},
		"only profiling": {config.Server{Profiling: true}, false, true, false},
		"WP-01: page":    {config.Server{Console: true}, false, false, true},
		"nothing":        {config.Server{}, false, false, false},
		"LG-01: ledger":  {config.Server{Ledger: true}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handlers, err := extraHandlers(tc.server, &rest.Config{Host: "https://127.0.0.1:1"}, newJournal(tc.server), &questions{})
			if err != nil {
				t.Fatal(err)
			}
			if (handlers[journal.Path] != nil) != tc.decisions || (handlers[api.Prefix] != nil) != tc.decisions || (handlers["/debug/pprof/profile"] != nil) != tc.cpu || (handlers[console.Path] != nil) != tc.page {
				t.Errorf("handlers %v", handlers)
			}
			if !tc.decisions {
				return
			}
			for _, path := range []string{journal.Path, api.Prefix} {
				w := httptest.NewRecorder()
				handlers[path].ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
				if w.Code != http.StatusUnauthorized {
					t.Errorf("%s without a token: %d", path, w.Code)
				}
			}
		})
	}
}
