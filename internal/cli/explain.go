package cli

import (
	"context"

	"github.com/spf13/cobra"
)

type explainFlags struct {
	subjectFlags

	format responseFormat
}

func newExplain(s Streams) *cobra.Command {
	f := &explainFlags{}
	cmd := &cobra.Command{
		Use:   "explain KIND NAME",
		Short: "Say why a pod, a node or a NodePool is as it is",
		Long: "Explains one object, with the decisions that the controller would make about the cluster now:\n\n" +
			"  pod        where it runs or could go, what rules out each NodePool and the existing nodes, and the instance type\n" +
			"             that comes nearest; for a running pod, what prevents its eviction\n" +
			"  node       its pods, what keeps it from being removed, what consolidation would do with it, and what would hold\n" +
			"  nodeclaim  its pods if it were launched now\n" +
			"  nodepool   what it would launch for pending pods, why it launches nothing for others, why its nodes stay, and what\n" +
			"             its budgets allow now\n\n" +
			"It ends with what happened to the object before. It sends requests to the leader of the controller, or reads the objects\n" +
			"of the cluster if the leader cannot respond. It changes nothing.\n\n" +
			"KIND NAME can be written KIND/NAME; po and no are short for pod and node.",
		Example: "  # why is this pod pending?\n  dovetail explain pod web-7d4f9-x2x7q -n shop\n\n" +
			"  # why is this node still here? with what to do about each reason\n  dovetail explain node/ip-10-0-1-2.ec2.internal -o wide\n\n" +
			"  # why did this NodePool launch nothing when the snapshot was taken?\n  dovetail explain nodepool default --scenario cluster.json",
		Args: func(_ *cobra.Command, args []string) error {
			_, err := f.subject(args)
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runExplain(contextOf(cmd.Context()), f, s, args) },
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		return f.complete(contextOf(cmd.Context()), s, args, typed)
	}
	f.bind(cmd.Flags())
	f.format.bind(cmd)
	return cmd
}

func runExplain(ctx context.Context, f *explainFlags, s Streams, args []string) error {
	about, err := f.subject(args)
	if err != nil {
		return err
	}
	service, err := f.source.open(ctx, s)
	if err != nil {
		return err
	}
	e, err := service.Explain(ctx, f.located(about, s))
	if err != nil {
		return err
	}
	return writeResponse(s.Out, f.format, &e, e.Document(), e.Notes)
}
