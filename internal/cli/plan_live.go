package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

// whatIfFlags change a cluster before it is planned for. All commands that plan for a changed cluster share them.
type whatIfFlags struct {
	set       []string
	without   []string
	addPods   string
	priceFile string
}

func (f *whatIfFlags) bind(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.set, "set", nil, "what if a field of a NodePool were another: nodepool/NAME.PATH=VALUE, with a path below spec and a value in YAML; requirements stands for template.spec.requirements")
	flags.StringVar(&f.addPods, "add-pods", "", "what if the pods of these manifests (Pod, Deployment, StatefulSet, Job and so on) were there too: a YAML file, or - for standard input")
	flags.StringArrayVar(&f.without, "without", nil, "what if some instances could not be launched: zone=ZONE, capacity-type=spot, instance-type=TYPE or LABEL=VALUE")
	flags.StringVar(&f.priceFile, "price-file", "", "what if instances cost this: a CSV or YAML file, see docs/reference/price-file.md")
}

func whatIfNames() []string { return []string{"set", "add-pods", "without", "price-file"} }

// read reads the files that the flags name.
func (f *whatIfFlags) read(s Streams) (inspect.WhatIf, error) {
	w := inspect.WhatIf{Set: f.set, Without: f.without}
	if f.addPods != "" {
		text, err := readFile(f.addPods, s.In)
		if err != nil {
			return w, usagef("--add-pods: %w", err)
		}
		if w.AddPods = string(text); strings.TrimSpace(w.AddPods) == "" {
			return w, usagef("--add-pods: %s is empty", f.addPods)
		}
	}
	if f.priceFile != "" {
		text, err := os.ReadFile(f.priceFile)
		if err != nil {
			return w, usagef("--price-file: %w", err)
		}
		if w.Prices, err = snapshot.ReadPrices(text); err != nil {
			return w, usagef("--price-file: %s is not a price file:\n%w", f.priceFile, err)
		}
	}
	return w, nil
}

// clusterFlags are those of a plan for a cluster: a live one, or its snapshot.
type clusterFlags struct {
	live
	whatIfFlags

	fromLive bool
	output   responseFormat
}

func (f *clusterFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.fromLive, "live", false, "plan for the cluster of the kubeconfig; nothing is written to it")
	f.live.bind(flags)
	f.whatIfFlags.bind(flags)
	f.output.bind(cmd)
}

// ofClusters and ofScenarios are the flags that belong to plans for the one or the other alone.
func ofClusters() []string { return append([]string{"output"}, whatIfNames()...) }

func ofScenarios() []string {
	return []string{"out", "mode", "format", "explain", "greedy", "first-look", "workers", "node-fee", "spot-pool-share", "spot-spread-max-cost", "timeout"}
}

// refuseFlags refuses flags that were given and have no meaning.
func refuseFlags(given *pflag.FlagSet, names []string, why string) error {
	var refused error
	given.Visit(func(f *pflag.Flag) {
		if refused == nil && slices.Contains(names, f.Name) {
			refused = usagef("--%s %s", f.Name, why)
		}
	})
	return refused
}

// planLive plans for the cluster of the kubeconfig.
func planLive(cmd *cobra.Command, f *clusterFlags, s Streams) error {
	if err := refuseFlags(cmd.Flags(), append(ofScenarios(), "scenario"), "has no meaning with --live; for a cluster, use -o for the form of the report"); err != nil {
		return err
	}
	change, err := f.read(s) // before the cluster is read, which takes longer
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(contextOf(cmd.Context()), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	f.progress = progressTo(s)
	file, err := takeSnapshot(ctx, s.LookupEnv, f.live)
	if err != nil {
		return err
	}
	return planFile(ctx, f, file, change, s)
}

// planSnapshot plans for a snapshot.
func planSnapshot(cmd *cobra.Command, f *clusterFlags, name string, data []byte, s Streams) error {
	if err := refuseFlags(cmd.Flags(), append(ofScenarios(), liveNames()...), "has no meaning for a snapshot of a cluster; use -o for the form of the report"); err != nil {
		return err
	}
	change, err := f.read(s)
	if err != nil {
		return err
	}
	file, err := decodeSnapshot(name, data)
	if err != nil {
		return err
	}
	return planFile(contextOf(cmd.Context()), f, file, change, s)
}

func planFile(ctx context.Context, f *clusterFlags, file *snapshot.File, change inspect.WhatIf, s Streams) error {
	service := &snapshot.Service{File: file, Words: cloudWords()}
	changes, err := service.Plan(ctx, change)
	if bad, is := errors.AsType[snapshot.ChangeError](err); is {
		return usageError{bad}
	}
	if err != nil {
		return fmt.Errorf("plan for cluster %s: %w", file.Name, err)
	}
	return writeResponse(s.Out, f.output, changes, changes.Document(), changes.Notes)
}
