// Command sandbox runs a real Kubernetes control plane and an emulated AWS in one process, for trying
// things out without a cluster or a cloud account.
// Exit codes are 0 for success, 1 for a failure, 2 for a wrong call.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/version"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	signal.Ignore(syscall.SIGXFSZ) // a file that may not grow is an error of the write, with a name, and no crash
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // the second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// failure is what went wrong in a call that was right.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// run executes one call and returns its exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	root := &cobra.Command{
		Use:   "sandbox",
		Short: "A real Kubernetes control plane and an emulated AWS in one process",
		Long: "Runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler inside one process on this\n" +
			"machine, with an AWS that speaks the wire protocol and nodes for its instances, reachable from this\n" +
			"machine only.",
		Example: "  # pods that wait get nodes, in three minutes\n  sandbox demo\n\n" +
			"  # a sandbox to use with kubectl and aws, until Ctrl-C\n  sandbox up",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	// cobra offers the flags it finds here, and Kubernetes leaves a --version of its own.
	pflag.CommandLine = pflag.NewFlagSet("sandbox", pflag.ContinueOnError)
	root.AddCommand(newUp(), newDemo(), newFault(), newBench(), newVersion())
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	called, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(errOut, "sandbox:", err)
	if _, ran := errors.AsType[failure](err); ran {
		return exitFailed
	}
	fmt.Fprintf(errOut, "Run '%s --help' for usage.\n", called.CommandPath())
	return exitUsage
}

// markFailures marks the errors of a command as failures, as opposed to wrong calls.
func markFailures(command func(ctx context.Context, out io.Writer) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := command(cmd.Context(), cmd.OutOrStdout()); err != nil {
			return failure{err}
		}
		return nil
	}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print version and commit",
		Example: "  sandbox version",
		Args:    cobra.NoArgs,
		RunE: markFailures(func(_ context.Context, out io.Writer) error {
			_, err := fmt.Fprintln(out, version.Get())
			return err
		}),
	}
}
