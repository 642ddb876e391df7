package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/bench/bars"
	"github.com/dovetail-sh/dovetail/sandbox/controlplane/embedded"
)

// Values of --format.
const (
	formatTable = "table"
	formatJSON  = "json"
)

func newBars() *cobra.Command {
	options, format := bars.Options{ControlPlane: embedded.Start}, formatTable
	cmd := &cobra.Command{
		Use:   "controller [SCENARIO ...]",
		Short: "Measure the controller against its bars",
		Long: "Runs the dovetail binary as a process of its own against a sandbox, and prints what it needs beside\n" +
			"what it may need. A bar that is missed is printed, and is no failure: times depend on the machine.\n\n" +
			"  small      a small cluster that does nothing: CPU and memory\n" +
			"  reaction   one pod that waits: time from Unschedulable to its NodeClaim\n" +
			"  ice        every first choice out of capacity: time until the next is requested\n" +
			"  burst      10,000 pods and 100 NodePools: decision, memory, requests to the API server, calls of AWS\n" +
			"  backlog    15,000 pods under a memory limit of 512 MiB\n" +
			"  shrink     300 nodes, a third used, are consolidated: cost, waves, decisions, evictions, CPU, memory\n\n" +
			"All run one after the other when none is named, which takes about 25 minutes on two cores.",
		Example: "  # two of them\n  sandbox bench controller reaction ice\n\n" +
			"  # a tenth of the large ones, with profiles\n  sandbox bench controller burst --scale 0.1 --profiles /tmp/profiles\n\n" +
			"  # for a machine to read; progress goes to standard error\n  sandbox bench controller --format json",
		ValidArgs: bars.Names(),
		Args: func(_ *cobra.Command, args []string) error {
			options.Scenarios = args
			if format != formatTable && format != formatJSON {
				return fmt.Errorf("--format %q is not known; want %s or %s", format, formatTable, formatJSON)
			}
			return options.Check()
		},
	}
	cmd.RunE = markFailures(func(ctx context.Context, out io.Writer) error {
		options.Out = out
		if format == formatJSON {
			options.Out = cmd.ErrOrStderr()
		}
		report, err := bars.Run(ctx, options)
		return errors.Join(err, printBars(report, format, out))
	})
	cmd.Flags().StringVar(&options.Binary, "binary", filepath.Join("bin", "dovetail"), "the dovetail binary")
	cmd.Flags().StringVar(&format, "format", formatTable, strings.Join([]string{formatTable, formatJSON}, " or "))
	cmd.Flags().Float64Var(&options.Scale, "scale", 1, "of the pods and NodePools of burst, backlog and shrink")
	cmd.Flags().DurationVar(&options.Watch, "watch", time.Minute, "how long the small cluster is watched")
	cmd.Flags().IntVar(&options.Samples, "samples", 7, "pods of reaction and ice")
	cmd.Flags().DurationVar(&options.Patience, "patience", 15*time.Minute, "how long a scenario may take")
	cmd.Flags().StringArrayVar(&options.Flags, "controller-flag", nil, "flag for the controller, such as --controller-flag=--log-level=debug; may be repeated")
	cmd.Flags().StringVar(&options.Profiles, "profiles", "", "folder for profiles of the controller (default: none)")
	cmd.Flags().StringVar(&options.Dir, "dir", "", "folder for state and logs, one below it for each scenario (default: a temporary one)")
	return cmd
}

// printBars prints what was measured, also before a failure.
func printBars(report bars.Report, format string, out io.Writer) error {
	if len(report.Results) == 0 {
		return nil
	}
	if format == formatTable {
		return report.Print(out)
	}
	text, err := json.Marshal(report)
	if err == nil {
		_, err = fmt.Fprintln(out, string(text))
	}
	return err
}
