package cli

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

type adviseFlags struct {
	live

	scenario string
	format   responseFormat
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
			"It reads the cluster of the kubeconfig, or a snapshot, and writes nothing. The cluster may be managed by Dovetail,\n" +
			"Karpenter or Cluster Autoscaler. Every amount is the difference between two plans of the solver that the controller uses.",
		Example: "  # the cluster of the current context\n  dovetail advise\n\n" +
			"  # a snapshot, as JSON\n  dovetail advise --scenario cluster.json.gz -o json",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(contextOf(cmd.Context()), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return runAdvise(ctx, f, s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.scenario, "scenario", "", "advise about the cluster in this snapshot file, or - for standard input, instead of a live one")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; if empty, KUBECONFIG, then ~/.kube/config")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig; if empty, the current one")
	f.format.bind(cmd)
	return cmd
}

func (f *adviseFlags) validate() error {
	if f.scenario != "" && f.kubeconfig+f.context != "" {
		return usagef("--scenario names a file, and --kubeconfig and --context a live cluster: give one of them")
	}
	return nil
}

func runAdvise(ctx context.Context, f *adviseFlags, s Streams) error {
	service, err := f.open(ctx, s)
	if err != nil {
		return err
	}
	advice, err := service.Advise(ctx)
	if err != nil {
		return fmt.Errorf("advise on cluster %s: %w", service.File.Name, err)
	}
	return writeResponse(s.Out, f.format, &advice, advice.Document(), advice.Notes)
}

func (f *adviseFlags) open(ctx context.Context, s Streams) (*snapshot.Service, error) {
	if f.scenario != "" {
		return openScenario(f.scenario, s)
	}
	f.progress = progressTo(s)
	file, err := readLive(ctx, s.LookupEnv, f.live)
	if err != nil {
		return nil, err
	}
	return &snapshot.Service{File: file, Words: cloudWords()}, nil
}
