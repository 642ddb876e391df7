package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/controller/buffers"
	"github.com/dovetail-sh/dovetail/internal/controller/overlays"
	"github.com/dovetail-sh/dovetail/internal/drivers"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/version"
)

// liveTimeout is how long one request to the API server may take. Lists of large clusters take seconds.
const liveTimeout = time.Minute

// snapshotTimeout is how long the controller may take to send its cluster, before the objects are read instead.
const snapshotTimeout = 20 * time.Second

// live is a live cluster, and how it is read.
type live struct {
	kubeconfig string // file; empty: KUBECONFIG, then ~/.kube/config, then the service account of the pod
	context    string // of the kubeconfig; empty: the current one
	namespace  string // of the controller; empty: where it usually runs
	address    string // of the controller, which then answers or nobody does; empty: it is looked for
	account    string // NAMESPACE/NAME of a service account to ask the controller as; empty: the user
	types      string // snapshot file whose instance types and prices count, instead of those of the cloud
	progress   func(step string)

	market snapshot.MarketSource // of instance types and prices, instead of the cloud; nil: the cloud
}

// readLive reads the cluster that a kubeconfig names. It writes nothing, neither to the cluster nor to the cloud.
func readLive(ctx context.Context, env func(string) (string, bool), l live) (*snapshot.File, error) {
	kube, name, err := connectTo(env, l.kubeconfig, l.context)
	if err != nil {
		return nil, err
	}
	reader, err := newReader(kube)
	if err != nil {
		return nil, fmt.Errorf("connect to cluster %s: %w", name, err)
	}
	o := snapshot.ReadOptions{Name: name, Tool: toolName(), Now: time.Now(), Classes: nodeClasses(), CloudSettings: drivers.Driver().Settings, Progress: l.progress}
	if o.Market = l.market; o.Market == nil {
		o.Market = marketSource(drivers.Driver(), reader)
	}
	file, err := snapshot.Read(logr.NewContext(ctx, logr.Discard()), reader, o)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	return file, nil
}

// takeSnapshot returns the cluster as the controller sees it or, if the controller does not respond, its objects.
func takeSnapshot(ctx context.Context, env func(string) (string, bool), l live) (*snapshot.File, error) {
	if err := checkAccount(l.account); err != nil {
		return nil, err
	}
	if l.types != "" {
		other, err := readSnapshot(l.types, nil)
		if err != nil {
			return nil, err
		}
		l.market = snapshot.MarketOf(other)
		return readLive(ctx, env, l)
	}
	kube, name, err := connectTo(env, l.kubeconfig, l.context)
	if err != nil && l.address == "" { // a controller that is run by hand may be asked without
		return nil, err
	}
	file, why := requestSnapshot(ctx, l.address, api.Target{Kube: kube, Namespace: l.namespace, ServiceAccount: l.account})
	switch {
	case why == nil:
		file.Name = cmp.Or(name, file.Name)
		return file, nil
	case l.address != "":
		return nil, why
	}
	file, err = readLive(ctx, env, l)
	if err == nil && file.Controller == snapshot.ByDovetail {
		file.Missing = append(file.Missing, snapshot.Missing{
			What: "the cluster as its controller sees it", Why: why.Error(), Then: "the plan is made from the objects of the cluster, and instance types and prices that you may read",
		})
	}
	return file, err
}

// checkAccount refuses what is no NAMESPACE/NAME of a service account; empty is none.
func checkAccount(account string) error {
	namespace, name, found := strings.Cut(account, "/")
	if account != "" && (!found || namespace == "" || name == "" || strings.Contains(name, "/")) {
		return usagef("--as-service-account %q is not NAMESPACE/NAME", account)
	}
	return nil
}

// requestSnapshot requests the snapshot from the leader of the controller, or from the one at an address.
func requestSnapshot(ctx context.Context, address string, controller api.Target) (*snapshot.File, error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	var leader *api.Client
	var err error
	if address != "" {
		leader, err = api.Connect(ctx, address, controller)
	} else {
		leader, err = api.Dial(ctx, controller)
	}
	if err != nil {
		return nil, err
	}
	defer leader.Close()
	return leader.Snapshot(ctx)
}

// nodeClasses are the kinds of node classes that are planned for.
func nodeClasses() []metav1.GroupKind {
	var kinds []metav1.GroupKind
	for _, c := range drivers.Driver().Classes(config.Config{}) {
		kinds = append(kinds, metav1.GroupKind{Group: c.Group, Kind: c.Kind})
	}
	return kinds
}

// cloudWords are the labels of the core and of the cloud.
func cloudWords() reqs.Vocabulary { return drivers.Driver().Words }

// kubeconfig finds the kubeconfig as kubectl does.
func kubeconfig(env func(string) (string, bool), file, contextName string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	if files, set := env("KUBECONFIG"); set && files != "" {
		rules.Precedence = filepath.SplitList(files)
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: contextName})
}

// connectTo finds the cluster as kubectl does, and what its user calls it.
func connectTo(env func(string) (string, bool), file, contextName string) (*rest.Config, string, error) {
	loader := kubeconfig(env, file, contextName)
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, "", fmt.Errorf("no cluster: %w; name another file with --kubeconfig", err)
	}
	if contextName == "" {
		contextName = raw.CurrentContext
	}
	kube, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, "", errors.New("no cluster: set KUBECONFIG, name a file with --kubeconfig, or run inside a cluster with a service account")
	case err != nil:
		return nil, "", fmt.Errorf("no cluster: %w; see `kubectl config get-contexts`, and choose with --kubeconfig and --context", err)
	}
	kube.QPS, kube.Timeout = -1, liveTimeout // it is a handful of requests
	kube.UserAgent, kube.WarningHandler = "dovetail/"+version.Get().Version, rest.NoWarnings{}
	name := contextName
	if c := raw.Contexts[contextName]; c != nil && c.Cluster != "" {
		name = c.Cluster[strings.LastIndexByte(c.Cluster, '/')+1:] // `aws eks update-kubeconfig` writes ARNs
	}
	return kube, name, nil
}

// newReader makes a client without discovery of the kinds that the API server serves: those that a snapshot has are
// known, and absent ones are told by the response to their list.
func newReader(kube *rest.Config) (client.Reader, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, karpv1.AddToScheme, buffers.AddToScheme, overlays.AddToScheme, drivers.Driver().AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	// any order: each kind is mapped by itself
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeRoot) // lists of all namespaces are the same
	}
	return client.New(kube, client.Options{Scheme: scheme, Mapper: mapper})
}

// liveNames are the flags that bind adds.
func liveNames() []string {
	return []string{"kubeconfig", "context", "controller-namespace", "controller-address", "as-service-account", "instance-types"}
}

// bind adds the flags that say which cluster is read, and how.
func (l *live) bind(flags *pflag.FlagSet) {
	flags.StringVar(&l.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; if empty, KUBECONFIG, then ~/.kube/config")
	flags.StringVar(&l.context, "context", "", "context of the kubeconfig; if empty, the current one")
	flags.StringVar(&l.namespace, "controller-namespace", "", "namespace of the controller; if empty, kube-system and karpenter are searched")
	flags.StringVar(&l.address, "controller-address", "", "metrics port of a controller that is not a pod, such as http://localhost:8080")
	flags.StringVar(&l.account, "as-service-account", "", "NAMESPACE/NAME of a service account to ask the controller as, for kubeconfigs without a token")
	flags.StringVar(&l.types, "instance-types", "", "take instance types and prices from this snapshot instead of AWS")
}

// progressTo reports steps on a terminal, and nowhere else.
func progressTo(s Streams) func(string) {
	if !isTerminal(s.Err) {
		return nil
	}
	return func(step string) { _, _ = fmt.Fprintln(s.Err, step+" ...") }
}
