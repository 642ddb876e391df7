package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane/embedded"
	"github.com/dovetail-sh/dovetail/sandbox/demo"
)

func newDemo() *cobra.Command {
	options := demo.Options{ControlPlane: embedded.Start}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the main job: pods that wait get nodes",
		Long: "Starts a sandbox in a temporary folder with the controller in it, applies a NodePool and an\n" +
			"EC2NodeClass, scales a workload up, interrupts a spot node, consolidates, scales to zero, and shows what\n" +
			"happens and why. Then everything is removed again. It fails when a step does not hold, and says why. Less than\n" +
			"three minutes.",
		Example: "  # from the root of the repository\n  sandbox demo\n\n" +
			"  # more of it\n  sandbox demo --replicas 100\n\n" +
			"  # look around afterwards, with the web page\n  sandbox demo --open",
		Args: func(cmd *cobra.Command, args []string) error {
			if options.Replicas < 1 {
				return fmt.Errorf("--replicas must be above 0")
			}
			return cobra.NoArgs(cmd, args)
		},
		RunE: markFailures(func(ctx context.Context, out io.Writer) error {
			options.Out = out
			return demo.Run(ctx, options)
		}),
	}
	cmd.Flags().StringVar(&options.Controller, "controller", filepath.Join("bin", "dovetail"), "the dovetail binary")
	cmd.Flags().BoolVar(&options.Open, "open", false, "leave the sandbox running at the end, with the web page, until Ctrl-C")
	cmd.Flags().IntVar(&options.Replicas, "replicas", 12, "pods of the workload, of one core and 1.5Gi each")
	return cmd
}
