package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/near"
)

// subjectFlags say which object of which cluster a question is about.
type subjectFlags struct {
	source    sourceFlags
	namespace string
}

func (f *subjectFlags) bind(flags *pflag.FlagSet) {
	f.source.bind(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the pod; if empty, that of the context of the kubeconfig")
}

// located is an object with its namespace.
func (f *subjectFlags) located(about inspect.Subject, s Streams) inspect.Subject {
	if about.Kind == inspect.KindPod && about.Namespace == "" {
		about.Namespace = f.podNamespace(s)
	}
	return about
}

// podNamespace is where pods are looked for.
func (f *subjectFlags) podNamespace(s Streams) string {
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
func (f *subjectFlags) subject(args []string) (inspect.Subject, error) {
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
		return about, usagef("%q is not a kind that can be asked about%s; want pod, node, nodeclaim or nodepool", words[0], strings.TrimSuffix(near.Hint(words[0], all), "?"))
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
func (f *subjectFlags) complete(ctx context.Context, s Streams, args []string, typed string) ([]string, cobra.ShellCompDirective) {
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
