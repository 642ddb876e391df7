package main

import (
	"context"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/demo"
)

func newDemo() *cobra.Command {
	options := demo.Options{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what works today",
		Long: "Starts a control plane in a temporary folder, installs the CRDs, applies manifests as users write\n" +
			"them, says what Dovetail reads into each, shows how wrong ones are refused, runs the controller on\n" +
			"them, and removes everything again. It fails when a step does not hold.",
		Example: "  # from the root of the repository\n  sandbox demo\n\n" +
			"  # your own manifests\n  sandbox demo --manifests ~/cluster/nodepools",
		Args: cobra.NoArgs,
		RunE: running(func(ctx context.Context, out io.Writer) error {
			options.Out = out
			return demo.Run(ctx, options)
		}),
	}
	cmd.Flags().StringVar(&options.Controller, "controller", filepath.Join("bin", "dovetail"), "the dovetail binary")
	cmd.Flags().StringVar(&options.Manifests, "manifests", filepath.Join("examples", "seeds"), "folder of the manifests to apply")
	return cmd
}
