package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/near"
)

type explainFlags struct {
	source    sourceFlags
	namespace string
	format    responseFormat
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
			"It ends with what happened to the object before. The leader of the controller is asked, or the objects of the cluster\n" +
			"if it cannot answer; nothing is changed.\n\n" +
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
	f.source.bind(cmd.Flags())
	f.format.bind(cmd)
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace of the pod; if empty, that of the context of the kubeconfig")
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
	if about.Kind == inspect.KindPod && about.Namespace == "" {
		about.Namespace = f.podNamespace(s)
	}
	e, err := service.Explain(ctx, about)
	if err != nil {
		return err
	}
	return writeResponse(s.Out, f.format, &e, e.Document(), e.Notes)
}

// podNamespace is where pods are looked for.
func (f *explainFlags) podNamespace(s Streams) string {
	if f.namespace != "" {
		return f.namespace
	}
	return f.source.podNamespace(s.LookupEnv)
}

// kindNames are the kinds that can be explained, under all names that users have for them; the first is the full one.
func kindNames() [][]string {
	return [][]string{
		{string(inspect.KindPod), "pods", "po"},
		{string(inspect.KindNode), "nodes", "no"},
		{string(inspect.KindNodeClaim), "nodeclaims", "nodeclaims.karpenter.sh", "nodeclaim.karpenter.sh"},
		{string(inspect.KindNodePool), "nodepools", "nodepools.karpenter.sh", "nodepool.karpenter.sh"},
	}
}

// subject reads KIND NAME, KIND/NAME or pod/NAMESPACE/NAME.
func (f *explainFlags) subject(args []string) (inspect.Subject, error) {
	words := args
	if len(args) == 1 {
		words = strings.Split(args[0], "/")
	}
	about := inspect.Subject{Namespace: f.namespace}
	switch len(words) {
	case 3:
		about.Namespace = words[1]
	case 2:
	default:
		return about, usagef("name one object, such as pod NAME or node/NAME")
	}
	kind, known := kindOf(words[0])
	if !known {
		var all []string
		for _, names := range kindNames() {
			all = append(all, names...)
		}
		return about, usagef("%q is not a kind that can be explained%s; want pod, node, nodeclaim or nodepool", words[0], strings.TrimSuffix(near.Hint(words[0], all), "?"))
	}
	about.Kind, about.Name = kind, words[len(words)-1]
	if about.Name == "" || len(words) == 3 && (kind != inspect.KindPod || len(args) > 1) {
		return about, usagef("name one object, such as pod NAME or node/NAME")
	}
	if kind != inspect.KindPod {
		about.Namespace = ""
	}
	return about, nil
}

func kindOf(word string) (inspect.Kind, bool) {
	for _, names := range kindNames() {
		if slices.Contains(names, strings.ToLower(word)) {
			return inspect.Kind(names[0]), true
		}
	}
	return "", false
}

// complete proposes kinds, then names of objects. What cannot be read is not proposed: a completion has nowhere to say why.
func (f *explainFlags) complete(ctx context.Context, s Streams, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	word, slash := "", false
	switch len(args) {
	case 0:
		if word, _, slash = strings.Cut(typed, "/"); !slash {
			var kinds []string
			for _, names := range kindNames() {
				kinds = append(kinds, names[0])
			}
			return kinds, none
		}
	case 1:
		word = args[0]
	default:
		return nil, none
	}
	kind, known := kindOf(word)
	if !known {
		return nil, none
	}
	names, err := f.source.names(ctx, s, kind, f.podNamespace(s))
	if err != nil {
		return nil, none
	}
	if slash {
		for i := range names {
			names[i] = word + "/" + names[i]
		}
	}
	return names, none
}
