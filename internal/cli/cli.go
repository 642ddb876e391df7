package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/near"
	"github.com/dovetail-sh/dovetail/internal/version"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Streams are what a call reads and writes beside files: the standard streams and the environment.
type Streams struct {
	Name      string // path that the binary was called by; empty: dovetail
	In        io.Reader
	Out       io.Writer
	Err       io.Writer
	LookupEnv func(string) (string, bool)
}

// usageError is a wrong call, as opposed to a call that failed.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Run executes one call and returns its exit code.
func Run(args []string, s Streams) int {
	root := New(s)
	addCompletion(root, s)
	callAsPlugin(root, s.Name)
	root.SetArgs(args)
	called, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintf(s.Err, "%s: %v\n", root.DisplayName(), err)
	if _, wrongCall := errors.AsType[usageError](err); wrongCall || isUnknownCommand(err) {
		_, _ = fmt.Fprintf(s.Err, "Run '%s --help' for usage.\n", called.CommandPath())
		return exitUsage
	}
	return exitFailed
}

// isUnknownCommand knows the one wrong call that cobra reports without a hook to wrap it.
func isUnknownCommand(err error) bool { return strings.HasPrefix(err.Error(), "unknown command ") }

// New builds the command tree.
func New(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "dovetail",
		Short: "A node autoscaler for Kubernetes",
		Long: "Dovetail watches pods that cannot be scheduled, launches the cheapest nodes that fit them, and keeps\n" +
			"the fleet cheap, fresh and healthy. It reads the manifests of Karpenter.",
		Example: "  # rewrite old manifests to strict v1\n  dovetail convert -f manifests/ -R\n\n" +
			"  # install the CRDs\n  dovetail crds | kubectl apply --server-side -f -",
		SilenceUsage:               true,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		Args:                       noArgs,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			if near := nearestFlag(cmd.Flags(), unknown.GetSpecifiedName()); near != "" {
				return usagef("%w; did you mean --%s?", err, near)
			}
		}
		return usageError{err}
	})
	root.AddCommand(
		newAdvise(s),
		newCRDs(s),
		newConsole(s),
		newController(s),
		newConvert(s),
		newExplain(s),
		newHistory(s),
		newPlan(s),
		newReplay(s),
		newSavings(s),
		newSnapshot(s),
		newTop(s),
		newUninstall(s),
		newVersion(s),
	)
	return root
}

// nearestFlag returns the flag that was probably meant, if one is near enough.
func nearestFlag(flags *pflag.FlagSet, name string) string {
	var known []string
	flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	return near.Nearest(name, known)
}

// noArgs refuses arguments where a command takes none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		hint := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return usagef("unknown command %q%s", args[0], hint)
	}
	return usagef("%s takes no arguments, but got %q", cmd.CommandPath(), args[0])
}

func newVersion(s Streams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print version and commit",
		Example: "  dovetail version\n  dovetail version -o json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			switch output {
			case "":
				_, err := fmt.Fprintln(s.Out, version.Get())
				return err
			case "json":
				return writeJSON(s.Out, version.Get())
			default:
				return usagef("--output %q is not known; want json", output)
			}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "output format: json")
	return cmd
}
