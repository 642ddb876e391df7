package cli

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/console"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
)

type consoleFlags struct {
	source sourceFlags
	port   int
}

func newConsole(s Streams) *cobra.Command {
	f := &consoleFlags{}
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the web page of a cluster on this machine",
		Long: "Serves the page that the controller serves with --serve-console: the fleet, its costs, decisions with their\n" +
			"reasons, pending pods and what-if plans. It shows what you may read, and changes nothing. The page can be reached\n" +
			"from this machine alone, and only with the token in the address that is printed. It ends with Ctrl-C.",
		Example: "  # the cluster of your kubeconfig\n  dovetail console\n\n" +
			"  # the cluster in a snapshot file\n  dovetail console --scenario cluster.json.gz\n\n" +
			"  # always at the same port\n  dovetail console --scenario cluster.json.gz --port 8090",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(contextOf(cmd.Context()), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return runConsole(ctx, f, s)
		},
	}
	f.source.bind(cmd.Flags())
	cmd.Flags().IntVar(&f.port, "port", 0, "port to serve the page at; 0 takes any free one")
	return cmd
}

func runConsole(ctx context.Context, f *consoleFlags, s Streams) error {
	if f.port < 0 || f.port > 65535 {
		return usagef("--port %d is no port; want 1 to 65535, or 0 for any free one", f.port)
	}
	service, err := f.source.open(ctx, s)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port)))
	if err != nil {
		return fmt.Errorf("the page cannot be served: %w; choose another port with --port", err)
	}
	token := rand.Text()
	pages := http.NewServeMux()
	pages.Handle(console.Path, console.Handler())
	pages.Handle(api.Prefix, requireToken(token, api.Handler(service)))
	pages.Handle("GET /{$}", http.RedirectHandler(console.Path, http.StatusFound))
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // the context says why
	if _, err := fmt.Fprintf(s.Out, "Open http://%s%s#token=%s\nThe address gives access to what you may read; it ends with Ctrl-C.\n", listener.Addr(), console.Path, token); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// requireToken lets requests through that have the token: other users of this machine can reach the port too.
func requireToken(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		given := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the token is missing, or not that of this run; open the address that dovetail console printed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, req)
	})
}
