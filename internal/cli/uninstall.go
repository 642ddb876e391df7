package cli

import (
	"context"
	"fmt"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/app"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/drivers"
	"github.com/dovetail-sh/dovetail/internal/uninstall"
)

// uninstallTimeout is a little shorter than helm waits for a hook.
const uninstallTimeout = 4 * time.Minute

func newUninstall(s Streams) *cobra.Command {
	var nodes string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Clean up before the controller is uninstalled",
		Long: "Removes what only a controller can remove, so that nothing hangs once none runs. The chart runs it before helm\n" +
			"uninstall. For each EC2NodeClass that no NodeClaim uses, the instance profiles and launch templates that were made for it\n" +
			"are deleted and its finalizer is removed; the class itself stays. The work is done under the lease of the controller, which\n" +
			"stops to lead. --nodes says what happens to nodes: Keep lets them run with their finalizers for the next installation,\n" +
			"Delete deletes all NodePools first and waits until their nodes are drained and terminated, and Release removes the\n" +
			"finalizers of Nodes, NodeClaims and all classes and lets the instances run. The other flags are those of the controller.",
		Example: "  # as the chart does, with the settings of the controller\n  dovetail uninstall --cluster-name=my-cluster --leader-election-namespace=kube-system",
		Args:    noArgs,
	}
	loader := config.Bind(cmd.Flags(), drivers.Driver().Settings)
	cmd.Flags().StringVar(&nodes, "nodes", string(uninstall.Keep), "what happens to nodes: Keep, Delete or Release")
	cmd.Flags().DurationVar(&timeout, "timeout", uninstallTimeout, "how long it may take")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		choice := uninstall.Nodes(nodes)
		if !slices.Contains(uninstall.Choices(), choice) {
			return usagef("--nodes %q is not known; want Keep, Delete or Release", nodes)
		}
		cfg, kube, log, err := connect(s, loader)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(contextOf(cmd.Context()), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		if err := app.Uninstall(ctx, drivers.Driver(), cfg, kube, log, choice); err != nil {
			return fmt.Errorf("not all is cleaned up: %w", err)
		}
		return nil
	}
	return cmd
}
