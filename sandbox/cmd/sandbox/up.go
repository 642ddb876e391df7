package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/demo"
	"github.com/dovetail-sh/dovetail/sandbox/kubectl"
)

type upFlags struct {
	dir  string
	port int
}

func newUp() *cobra.Command {
	flags := upFlags{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a control plane until Ctrl-C",
		Long: "Runs in the foreground until Ctrl-C. With --dir the state stays in that folder, and the next up on\n" +
			"it goes on from there; without, it lives in a temporary folder that is removed at the end.",
		Example: "  # something to throw away\n  sandbox up\n\n" +
			"  # something to keep, at an address that does not change\n  sandbox up --dir ~/.dovetail --port 6443",
		Args: cobra.NoArgs,
		RunE: running(func(ctx context.Context, out io.Writer) error { return up(ctx, flags, out) }),
	}
	cmd.Flags().StringVar(&flags.dir, "dir", "", "folder for state, kubeconfig and log (default: a temporary one)")
	cmd.Flags().IntVar(&flags.port, "port", 0, "port of the API server on 127.0.0.1 (default: a free one)")
	return cmd
}

func up(ctx context.Context, flags upFlags, out io.Writer) (err error) {
	began, left := time.Now(), "the state stays in "+flags.dir
	if flags.dir == "" {
		if flags.dir, err = os.MkdirTemp("", "dovetail-sandbox-"); err != nil {
			return err
		}
		left = "the temporary folder is removed"
		defer func() { err = errors.Join(err, os.RemoveAll(flags.dir)) }()
	}
	fmt.Fprintf(out, "starting Kubernetes %s in %s\n", demo.Version("k8s.io/kubernetes"), flags.dir)
	progress := func(step string, took time.Duration) { fmt.Fprintf(out, "  %-26s%.1f s\n", step, took.Seconds()) }
	cp, err := controlplane.Start(ctx, controlplane.Options{Dir: flags.dir, Port: flags.port, Progress: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()

	crdsBegan := time.Now()
	client, err := kubectl.New(cp.Config)
	if err != nil {
		return err
	}
	if _, err := client.InstallCRDs(ctx); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted while installing the CRDs")
		}
		return err
	}
	progress("CRDs", time.Since(crdsBegan))
	fmt.Fprintf(out, "ready in %.1f s at %s\n\n", time.Since(began).Seconds(), cp.Config.Host)
	fmt.Fprintf(out, upNext, cp.Kubeconfig, cp.Log)

	select {
	case <-ctx.Done():
	case err := <-cp.Err():
		return err
	}
	stopBegan := time.Now()
	if err := cp.Stop(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nstopped in %.1f s; %s\n", time.Since(stopBegan).Seconds(), left)
	return nil
}

const upNext = `In another terminal, from the root of the repository:
  export KUBECONFIG=%s
  kubectl apply --server-side -f examples/seeds/s-079.yaml
  kubectl get nodepools

The components log to %s. Ctrl-C stops everything.
`
