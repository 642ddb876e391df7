package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/demo"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// Values of --controller.
const (
	controllerDovetail = "dovetail"
	controllerNone     = "none"
)

type upFlags struct {
	world.Options

	controller string
	binary     string
}

func newUp() *cobra.Command {
	flags := upFlags{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a sandbox until Ctrl-C",
		Long: "Runs in the foreground until Ctrl-C. With --dir the state stays in that folder, and the next up on\n" +
			"it goes on from there; without, it lives in a temporary folder that is removed at the end.\n\n" +
			"Beside the control plane there are an AWS on a loopback port, nodes for its instances, and a\n" +
			"bootstrap group of nodes that nobody manages. --controller dovetail runs bin/dovetail on it;\n" +
			"with none, run any controller by hand after sourcing aws.env.",
		Example: "  # something to throw away\n  sandbox up\n\n" +
			"  # something to keep, at an address that does not change\n  sandbox up --dir ~/.dovetail --port 6443\n\n" +
			"  # instances boot ten times as fast\n  sandbox up --speed 10",
		Args: func(cmd *cobra.Command, args []string) error {
			if flags.controller != controllerDovetail && flags.controller != controllerNone {
				return fmt.Errorf("--controller %q is not known; want %s or %s", flags.controller, controllerDovetail, controllerNone)
			}
			if flags.Speed <= 0 {
				return fmt.Errorf("--speed must be above 0")
			}
			if flags.Nodes < 0 {
				return fmt.Errorf("--nodes may not be negative")
			}
			return cobra.NoArgs(cmd, args)
		},
		RunE: running(func(ctx context.Context, out io.Writer) error { return up(ctx, flags, out) }),
	}
	cmd.Flags().StringVar(&flags.Dir, "dir", "", "folder for state, kubeconfig and logs (default: a temporary one)")
	cmd.Flags().IntVar(&flags.Port, "port", 0, "port of the API server on 127.0.0.1 (default: a free one)")
	cmd.Flags().IntVar(&flags.AWSPort, "aws-port", 0, "port of the emulated AWS on 127.0.0.1 (default: a free one)")
	cmd.Flags().StringVar(&flags.controller, "controller", controllerNone, "controller to run: dovetail or none")
	cmd.Flags().StringVar(&flags.binary, "binary", filepath.Join("bin", "dovetail"), "the dovetail binary, for --controller dovetail")
	cmd.Flags().Float64Var(&flags.Speed, "speed", 1, "speed of the emulated clock of instances and notices; Kubernetes keeps its own")
	cmd.Flags().IntVar(&flags.Nodes, "nodes", 2, "nodes of the bootstrap group")
	return cmd
}

func up(ctx context.Context, flags upFlags, out io.Writer) (err error) {
	began, left := time.Now(), "the state stays in "+flags.Dir
	if flags.Dir == "" {
		if flags.Dir, err = os.MkdirTemp("", "dovetail-sandbox-"); err != nil {
			return err
		}
		left = "the temporary folder is removed"
		defer func() { err = errors.Join(err, os.RemoveAll(flags.Dir)) }()
	}
	fmt.Fprintf(out, "starting Kubernetes %s in %s\n", demo.Version("k8s.io/kubernetes"), flags.Dir)
	flags.Progress = func(step string, took time.Duration) { fmt.Fprintf(out, "  %-26s%.1f s\n", step, took.Seconds()) }
	w, err := world.Start(ctx, flags.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()

	failed := make(chan error, 1)
	stopController := func() {}
	if flags.controller == controllerDovetail {
		if stopController, err = startController(ctx, flags, w, failed); err != nil {
			return err
		}
	}
	defer func() { stopController() }() // before the world it lives in
	fmt.Fprintf(out, "ready in %.1f s at %s, AWS at %s\n", time.Since(began).Seconds(), w.ControlPlane.Config.Host, w.AWSEndpoint)
	fmt.Fprintf(out, "\nIn another terminal, from the root of the repository:\n  . %s\n  kubectl apply -f examples/seeds/s-079.yaml\n  kubectl get nodepools,nodes\n", w.EnvFile)
	fmt.Fprintf(out, "  aws ec2 describe-subnets\n  bin/sandbox fault --help\n")
	fmt.Fprintf(out, "\nThe components log to %s. Ctrl-C stops everything.\n", w.ControlPlane.Log)
	select {
	case <-ctx.Done():
		stopped := time.Now()
		fmt.Fprintf(out, "stopping; %s\n", left)
		stopController()
		err := w.Stop()
		fmt.Fprintf(out, "stopped in %.1f s\n", time.Since(stopped).Seconds())
		return err
	case err := <-w.ControlPlane.Err():
		return err
	case err := <-w.Err():
		return err
	case err := <-failed:
		return err
	}
}

// startController runs the binary that users run, with the environment that users source.
func startController(ctx context.Context, flags upFlags, w *world.World, failed chan<- error) (stop func(), err error) {
	log, err := os.Create(filepath.Join(flags.Dir, "controller.log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), flags.binary, "controller", "--disable-leader-election=true", "--metrics-port=0", "--health-probe-port=0")
	cmd.Env = append(os.Environ(), w.Environment()...)
	cmd.Stdout, cmd.Stderr = log, log
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; make build makes it", err), log.Close())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := cmd.Wait(); err != nil {
			failed <- fmt.Errorf("the controller ended: %w; see %s", err, log.Name())
		} else {
			failed <- fmt.Errorf("the controller ended; see %s", log.Name())
		}
	}()
	return sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
		<-done
		_ = log.Close()
	}), nil
}
