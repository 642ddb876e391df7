package app

import (
	"net/http"
	"net/http/pprof"
	"time"

	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/console"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/journal"
)

// newJournal keeps what is decided if it is to be served, or to be put into words for a ledger that is stored: at most 500
// entries and 2 MiB of each kind. Else it is nil, which keeps nothing.
func newJournal(server config.Server) *journal.Journal {
	if !server.Decisions && !server.Ledger {
		return nil
	}
	return journal.New(journal.Limits{Entries: 500, Bytes: 2 << 20}, time.Now)
}

// extraHandlers is what is served beside the metrics. Callers that may read decisions may also query the cluster.
func extraHandlers(server config.Server, kube *rest.Config, record *journal.Journal, queries *questions) (map[string]http.Handler, error) {
	handlers := map[string]http.Handler{}
	if server.Profiling {
		profiles(handlers)
	}
	if server.Console {
		handlers[console.Path] = console.Handler()
	}
	if server.Decisions {
		review, err := journal.NewSelfReview(kube)
		if err != nil {
			return nil, err
		}
		served := http.NewServeMux()
		served.Handle(journal.Path, record.Handler())
		served.Handle(api.Prefix, queries)
		guard := journal.NewGuard(served, review, time.Now)
		handlers[journal.Path], handlers[api.Prefix] = guard, guard
	}
	return handlers, nil
}

// profiles adds the handlers of pprof.
func profiles(handlers map[string]http.Handler) {
	for path, handler := range map[string]http.HandlerFunc{
		"/debug/pprof/":        pprof.Index,
		"/debug/pprof/cmdline": pprof.Cmdline,
		"/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol":  pprof.Symbol,
		"/debug/pprof/trace":   pprof.Trace,
	} {
		handlers[path] = handler
	}
	for _, name := range []string{"allocs", "heap", "block", "goroutine", "threadcreate"} {
		handlers["/debug/pprof/"+name] = pprof.Handler(name)
	}
}
