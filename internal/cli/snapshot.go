package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

type snapshotFlags struct {
	live

	output    string
	scenario  string
	anonymize bool
	withPlan  bool
}

func newSnapshot(s Streams) *cobra.Command {
	f := &snapshotFlags{}
	cmd := &cobra.Command{
		Use:   "snapshot [-o FILE]",
		Short: "Write a cluster to a file that can be planned for",
		Long: "Reads what decisions depend on (pods, nodes, NodePools, volumes, PodDisruptionBudgets and so on, and instance types\n" +
			"with prices from AWS) from the cluster of the kubeconfig, and writes one file. dovetail plan --scenario FILE plans for\n" +
			"it: the same on every machine and at any later time. The cluster may be managed by Dovetail, Karpenter or Cluster\n" +
			"Autoscaler. Nothing is written to the cluster or to AWS.\n\n" +
			"The file has no environment variables, images, Secrets or ConfigMaps. --anonymize replaces names of objects,\n" +
			"namespaces and labels too, so that it can be attached to a bug report: the plan stays the same except for names.",
		Example: "  # the cluster of the current context\n  dovetail snapshot -o cluster.json.gz\n\n" +
			"  # without names, for a bug report\n  dovetail snapshot --anonymize -o cluster.json.gz\n\n" +
			"  # of a snapshot that was taken before\n  dovetail snapshot --scenario cluster.json.gz --anonymize -o anonymous.json.gz\n\n" +
			"  # a record, to test the next version with\n  dovetail snapshot --with-plan -o records/$(date +%F).json.gz",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(contextOf(cmd.Context()), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return runSnapshot(ctx, f, s)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "-", "file to write, compressed if its name ends in .gz; - is standard output")
	flags.BoolVar(&f.withPlan, "with-plan", false, "also record what this version would do, which dovetail replay compares with what another version would do")
	flags.BoolVar(&f.anonymize, "anonymize", false, "replace names: of objects, namespaces, labels, instances and volumes")
	flags.StringVar(&f.scenario, "scenario", "", "read this snapshot instead of a cluster, or - for standard input")
	f.bind(flags)
	return cmd
}

func runSnapshot(ctx context.Context, f *snapshotFlags, s Streams) error {
	if f.output == "-" && isTerminal(s.Out) {
		return usagef("a snapshot is not for reading: name a file with -o")
	}
	file, err := f.read(ctx, s)
	if err != nil {
		return err
	}
	if f.anonymize {
		if file, err = file.Anonymize(cloudWords()); err != nil {
			return fmt.Errorf("anonymize: %w", err)
		}
	}
	for _, m := range file.Missing {
		_, _ = fmt.Fprintln(s.Err, "dovetail: note:", m)
	}
	if f.withPlan {
		if err := file.Record(cloudWords(), toolName(), func() bool { return ctx.Err() != nil }); err != nil {
			return fmt.Errorf("plan: %w", err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if f.output == "-" {
		return file.Encode(s.Out)
	}
	if err := writeSnapshot(f.output, file); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	o := &file.Objects
	_, err = fmt.Fprintf(s.Err, "%s: %s, %s and %s of cluster %s\n", f.output,
		count(len(o.Nodes), "node", "nodes"), count(len(o.Pods), "pod", "pods"), count(len(o.NodePools), "NodePool", "NodePools"), file.Name)
	return err
}

// read reads the cluster, or the file that is given instead.
func (f *snapshotFlags) read(ctx context.Context, s Streams) (*snapshot.File, error) {
	if f.scenario == "" {
		f.progress = progressTo(s)
		return takeSnapshot(ctx, s.LookupEnv, f.live)
	}
	if f.kubeconfig+f.context+f.namespace+f.address+f.account+f.types != "" {
		return nil, usagef("--scenario names a file, and --%s a cluster: give one of them", strings.Join(liveNames(), ", --"))
	}
	return readSnapshot(f.scenario, s.In)
}

// writeSnapshot writes a file as a whole or not at all. Others may not read it.
func writeSnapshot(name string, file *snapshot.File) error {
	var text bytes.Buffer
	out, end := io.Writer(&text), func() error { return nil }
	if strings.HasSuffix(name, ".gz") {
		packed := gzip.NewWriter(&text)
		out, end = packed, packed.Close
	}
	if err := file.Encode(out); err != nil {
		return err
	}
	if err := end(); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(text.Bytes())
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
	}
	return err
}
