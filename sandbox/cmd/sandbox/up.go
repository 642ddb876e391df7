package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/dovetail-sh/dovetail/internal/console"
	"github.com/dovetail-sh/dovetail/sandbox/controlplane/embedded"
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
	namespace  string
	binary     string
}

func newUp() *cobra.Command {
	flags := upFlags{Options: world.Options{ControlPlane: embedded.Start}}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a sandbox until Ctrl-C",
		Long: "Runs in the foreground until Ctrl-C. With --dir the state stays in that folder, and the next up on\n" +
			"it goes on from there; without, it lives in a temporary folder that is removed at the end.\n\n" +
			"Beside the control plane there are an AWS on a loopback port, nodes for its instances, and a\n" +
			"bootstrap group of unmanaged nodes. Pods of the image that the chart installs run bin/dovetail as\n" +
			"processes; all other pods only say that they run. --controller dovetail installs what the chart makes; with\n" +
			"none, use helm, or run any controller by hand after sourcing aws.env.",
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
			if wrong := validation.IsDNS1123Label(flags.namespace); len(wrong) > 0 {
				return fmt.Errorf("--controller-namespace %q: %s", flags.namespace, strings.Join(wrong, "; "))
			}
			return cobra.NoArgs(cmd, args)
		},
		RunE: markFailures(func(ctx context.Context, out io.Writer) error { return runUp(ctx, flags, out) }),
	}
	cmd.Flags().StringVar(&flags.Dir, "dir", "", "folder for state, kubeconfig and logs (default: a temporary one)")
	cmd.Flags().IntVar(&flags.Port, "port", 0, "port of the API server on 127.0.0.1 (default: a free one)")
	cmd.Flags().IntVar(&flags.AWSPort, "aws-port", 0, "port of the emulated AWS on 127.0.0.1 (default: a free one)")
	cmd.Flags().StringVar(&flags.controller, "controller", controllerNone, "controller to run: dovetail or none")
	cmd.Flags().StringVar(&flags.binary, "binary", filepath.Join("bin", "dovetail"), "the dovetail binary, which pods of the image of the chart run")
	cmd.Flags().StringVar(&flags.namespace, "controller-namespace", "kube-system", "namespace that the controller is installed in")
	cmd.Flags().BoolVar(&flags.Metrics, "metrics", true, "serve metrics.k8s.io, for kubectl top: pods use what they request")
	cmd.Flags().BoolVar(&flags.Driver, "ebs-csi", true, "run the DaemonSet ebs-csi-node of the volume driver on every node; volumes work without it too")
	cmd.Flags().Float64Var(&flags.Speed, "speed", 1, "how much faster than in AWS instances boot and end, and notices run out; time stamps stay real")
	cmd.Flags().IntVar(&flags.Nodes, "nodes", 2, "nodes of the bootstrap group")
	return cmd
}

func runUp(ctx context.Context, flags upFlags, out io.Writer) (err error) {
	began, left := time.Now(), "the state stays in "+flags.Dir
	if flags.Dir == "" {
		if flags.Dir, err = os.MkdirTemp("", "dovetail-sandbox-"); err != nil {
			return err
		}
		left = "the temporary folder is removed"
		defer func() { err = errors.Join(err, os.RemoveAll(flags.Dir)) }()
	}
	fmt.Fprintf(out, "starting Kubernetes %s in %s\n", demo.Version("k8s.io/kubernetes"), flags.Dir)
	if flags.Program, err = filepath.Abs(flags.binary); err != nil {
		return err
	}
	if _, err := os.Stat(flags.Program); err != nil {
		if flags.controller == controllerDovetail {
			return fmt.Errorf("%w; make build makes it", err)
		}
		flags.Program = "" // it may not be needed
	}
	flags.Progress = func(step string, took time.Duration) { fmt.Fprintf(out, "  %-26s%.1f s\n", step, took.Seconds()) }
	w, err := world.Start(ctx, flags.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()

	page := ""
	if flags.controller == controllerDovetail {
		if page, err = installController(ctx, w, world.Installation{Namespace: flags.namespace, Rules: world.Stored(), Console: true}); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "ready in %.1f s at %s, AWS at %s\n", time.Since(began).Seconds(), w.ControlPlane.Config.Host, w.AWSEndpoint)
	fmt.Fprintf(out, "\nIn another terminal, from the root of the repository:\n  . %s\n  kubectl apply -f examples/seeds/s-079.yaml\n  kubectl get nodepools,nodes\n", w.EnvFile)
	fmt.Fprintf(out, "  aws ec2 describe-subnets\n  bin/sandbox fault --help\n")
	if flags.controller == controllerDovetail {
		fmt.Fprintf(out, "  kubectl logs -f -n %s -l app.kubernetes.io/name=karpenter\n", flags.namespace)
		fmt.Fprintf(out, "  bin/dovetail top --controller-namespace %s --as-service-account %s\n\nThe web page:\n  %s\n", flags.namespace, world.ReaderAccount, page)
	}
	fmt.Fprintf(out, "\nThe components log to %s. Ctrl-C stops everything.\n", w.ControlPlane.Log)
	select {
	case <-ctx.Done():
		stopped := time.Now()
		fmt.Fprintf(out, "stopping; %s\n", left)
		err := w.Stop()
		fmt.Fprintf(out, "stopped in %.1f s\n", time.Since(stopped).Seconds())
		return err
	case err := <-w.ControlPlane.Err():
		return err
	case err := <-w.Err():
		return err
	}
}

// installController installs the controller, and returns the address of its web page with a token.
func installController(ctx context.Context, w *world.World, i world.Installation) (page string, err error) {
	if err := w.Install(ctx, i); err != nil {
		return "", err
	}
	reader, err := w.GrantReader(ctx)
	if err != nil {
		return "", err
	}
	address, err := w.ServeController(ctx, i)
	return address + console.Path + "#token=" + reader.Token, err
}
