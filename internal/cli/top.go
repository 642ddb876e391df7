package cli

import (
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/dovetail-sh/dovetail/internal/top"
)

type topFlags struct {
	source   sourceFlags
	interval time.Duration
	noColor  bool
}

// leastInterval protects the API server.
const leastInterval = time.Second

func newTop(s Streams) *cobra.Command {
	f := &topFlags{}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch nodes, their cost and their pods on a full screen",
		Long: "Shows the nodes of a cluster with what pods request of them and what they cost, NodePools, pending pods with\n" +
			"reasons, nodes that are launched or removed, and what would be done next. Enter explains the selected object.\n" +
			"It changes nothing. The key ? lists the keys.\n\n" +
			"Without a terminal, for example in a pipe, it prints the nodes and pending pods once and exits.",
		Example: "  # the cluster of the current context\n  dovetail top\n\n" +
			"  # the cluster in a snapshot file\n  dovetail top --scenario cluster.json.gz\n\n" +
			"  # once, as text\n  dovetail top | grep spot",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runTop(cmd, f, s) },
	}
	f.source.bind(cmd.Flags())
	cmd.Flags().DurationVar(&f.interval, "interval", 2*time.Second, "time between a response and the next request; longer if responses are slow")
	cmd.Flags().BoolVar(&f.noColor, "no-color", false, "use no colors; the environment variable NO_COLOR does the same")
	return cmd
}

func runTop(cmd *cobra.Command, f *topFlags, s Streams) error {
	if f.interval < leastInterval {
		return usagef("--interval %v is too short; want %v or more", f.interval, leastInterval)
	}
	term, _ := s.LookupEnv("TERM")
	fullScreen := isTerminal(s.Out) && term != "dumb"
	if fullScreen { // nothing else may write to it
		s.Err = nil
		klog.SetLogger(logr.Discard())
	}
	service, err := f.source.open(cmd.Context(), s)
	if err != nil {
		return err
	}
	if !fullScreen {
		return top.Print(cmd.Context(), service, s.Out)
	}
	options := top.Options{
		Interval: f.interval, Timeout: f.source.timeout, In: terminalOf(s.In), Out: s.Out, Environment: terminalSettings(s.LookupEnv, f.noColor),
	}
	if f.source.scenario != "" {
		options.Interval = 0 // a file does not change
	}
	return top.Run(cmd.Context(), service, options)
}

// terminalOf is the input if that is a terminal: a snapshot may come from standard input, while keys come from the terminal.
func terminalOf(in io.Reader) io.Reader {
	if file, ok := in.(*os.File); ok && isTerminal(file) {
		return file
	}
	return nil
}

// terminalSettings are the variables of the environment that say what a terminal can do.
func terminalSettings(lookup func(string) (string, bool), noColor bool) []string {
	var out []string
	for _, name := range []string{"TERM", "TERM_PROGRAM", "COLORTERM", "CLICOLOR", "CLICOLOR_FORCE", "SSH_TTY", "WT_SESSION"} {
		if value, set := lookup(name); set {
			out = append(out, name+"="+value)
		}
	}
	if value, _ := lookup("NO_COLOR"); noColor || value != "" { // any value counts
		out = append(out, "NO_COLOR=1")
	}
	return out
}
