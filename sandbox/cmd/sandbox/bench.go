package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/bench"
	"github.com/dovetail-sh/dovetail/sandbox/controlplane/embedded"
)

func newBench() *cobra.Command {
	options, asJSON := bench.Options{ControlPlane: embedded.Start}, false
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how large a cluster the sandbox holds, or the controller in it",
		Long: "Starts a sandbox, launches nodes through the emulated AWS, runs pods on them through the real\n" +
			"scheduler, and takes all away again. Prints what each phase took in time, processor and memory, and\n" +
			"which part took it. A thousand nodes and ten thousand pods take minutes and some GB of memory.",
		Example: "  # the size that two cores hold\n  sandbox bench\n\n" +
			"  # half a minute\n  sandbox bench --nodes 50 --pods 500\n\n" +
			"  # one line for a machine to read; progress goes to standard error\n  sandbox bench --json",
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(options.Check(), cobra.NoArgs(cmd, args))
		},
	}
	cmd.RunE = markFailures(func(ctx context.Context, out io.Writer) error {
		options.Out = out
		if asJSON {
			options.Out = cmd.ErrOrStderr()
		}
		return runBench(ctx, options, asJSON, out)
	})
	cmd.Flags().StringVar(&options.Dir, "dir", "", "folder for state and logs (default: a temporary one)")
	cmd.Flags().IntVar(&options.Nodes, "nodes", 1000, "nodes to launch")
	cmd.Flags().IntVar(&options.Pods, "pods", 10000, "pods to run on them")
	cmd.Flags().DurationVar(&options.Idle, "idle", 20*time.Second, "how long to measure the cluster doing nothing")
	cmd.Flags().Float64Var(&options.Speed, "speed", 60, "how much faster than in AWS instances boot: it takes them 25 s at speed 1")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one line of JSON")
	cmd.AddCommand(newBars())
	return cmd
}

// runBench prints what was measured, also before a failure.
func runBench(ctx context.Context, options bench.Options, asJSON bool, out io.Writer) error {
	report, err := bench.Run(ctx, options)
	switch {
	case asJSON && err == nil:
		var text []byte
		if text, err = json.Marshal(report); err == nil {
			_, err = fmt.Fprintln(out, string(text))
		}
	case !asJSON && len(report.Phases) > 0:
		err = errors.Join(err, report.Print(out))
	}
	return err
}
