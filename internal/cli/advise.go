package cli

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

type adviseFlags struct {
	source sourceFlags
	format responseFormat
}

func newAdvise(s Streams) *cobra.Command {
	f := &adviseFlags{}
	cmd := &cobra.Command{
		Use:   "advise",
		Short: "Say what you could change so that a cluster costs less",
		Long: "Looks for what makes a cluster more expensive than it has to be and that only you can change, with the difference in\n" +
			"USD: requirements of NodePools, requests that waste a part of each node, do-not-disrupt annotations and\n" +
			"PodDisruptionBudgets that keep nodes, limits that keep pods pending, and pods without requests. What saves most comes\n" +
			"first.\n\n" +
			"The cluster is read from its controller, the leader, which is found by its Lease; if that cannot be reached or is\n" +
			"Karpenter, from the objects of the cluster; or from a snapshot. The plans are made on this machine. Every amount is the\n" +
			"difference between two plans of the solver that the controller uses. Nothing is written.",
		Example: "  # the cluster of the current context\n  dovetail advise\n\n" +
			"  # a snapshot, as JSON\n  dovetail advise --scenario cluster.json.gz -o json\n\n" +
			"  # a large cluster\n  dovetail advise --timeout 5m",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(contextOf(cmd.Context()), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return runAdvise(ctx, f, s)
		},
	}
	f.source.bind(cmd.Flags())
	f.format.bind(cmd)
	return cmd
}

func runAdvise(ctx context.Context, f *adviseFlags, s Streams) error {
	service, err := f.source.open(ctx, s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.source.timeout)
	defer cancel()
	advice, err := service.Advise(ctx)
	if err != nil {
		return fmt.Errorf("advise: %w", err)
	}
	return writeResponse(s.Out, f.format, &advice, advice.Document(), advice.Notes)
}

// remote is a controller. Advice takes dozens of plans: they are made here, for the snapshot that it sends.
type remote struct{ *api.Client }

// Advise implements inspect.Adviser.
func (r remote) Advise(ctx context.Context) (inspect.Advice, error) {
	file, err := r.Snapshot(ctx)
	if err != nil {
		return inspect.Advice{}, err
	}
	return (&snapshot.Service{File: file, Words: cloudWords()}).Advise(ctx)
}
