package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
)

// questionTimeout is a little longer than the leader takes for its longest plan.
const questionTimeout = time.Minute

// sourceFlags select the cluster of a query. All commands that send one share them.
type sourceFlags struct {
	scenario   string
	kubeconfig string
	context    string
	namespace  string // of the controller
	address    string // of the controller
	account    string // NAMESPACE/NAME of a service account
	timeout    time.Duration
}

func (f *sourceFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.scenario, "scenario", "", "use the cluster in this snapshot file, or - for standard input, instead of a live one")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; if empty, KUBECONFIG, then ~/.kube/config")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig; if empty, the current one")
	flags.StringVar(&f.namespace, "controller-namespace", "", "namespace of the controller; if empty, kube-system and karpenter are searched")
	flags.StringVar(&f.address, "controller-address", "", "metrics port of a controller that is not a pod, such as http://localhost:8080")
	flags.StringVar(&f.account, "as-service-account", "", "NAMESPACE/NAME of a service account to send requests as, for kubeconfigs without a token")
	flags.DurationVar(&f.timeout, "timeout", questionTimeout, "how long one question may take")
}

// refuseScenario hides --scenario from a command whose questions no file can answer. See refuseFile.
func refuseScenario(flags *pflag.FlagSet) { _ = flags.MarkHidden("scenario") } // fails only for a flag that does not exist

// refuseFile says of a command that only a live cluster can answer.
func (f *sourceFlags) refuseFile(what string) error {
	if f.scenario == "" {
		return nil
	}
	return usagef("a snapshot does not say %s: leave --scenario out, and ask the live cluster", what)
}

// validate refuses combinations that mean nothing.
func (f *sourceFlags) validate() error {
	live := map[string]string{"--kubeconfig": f.kubeconfig, "--context": f.context, "--controller-namespace": f.namespace, "--controller-address": f.address, "--as-service-account": f.account}
	for _, name := range []string{"--kubeconfig", "--context", "--controller-namespace", "--controller-address", "--as-service-account"} {
		if f.scenario != "" && live[name] != "" {
			return usagef("--scenario selects a file and %s a live cluster; use only one of them", name)
		}
	}
	if err := checkAccount(f.account); err != nil {
		return err
	}
	switch {
	case f.address != "" && f.namespace != "":
		return usagef("--controller-address says where the controller is, and --controller-namespace where to look for it: give one of them")
	case f.timeout <= 0:
		return usagef("--timeout %s is not a valid duration for a request", f.timeout)
	}
	return nil
}

// open returns the service of the cluster: a snapshot; the leader of the controller; or, if that cannot respond, the
// objects and events of the cluster.
func (f *sourceFlags) open(ctx context.Context, s Streams) (inspect.Adviser, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	if f.scenario != "" {
		file, err := readSnapshot(f.scenario, s.In)
		if err != nil {
			return nil, err
		}
		return &snapshot.Service{File: file, Words: cloudWords()}, nil
	}
	kube, _, err := connectTo(s.LookupEnv, f.kubeconfig, f.context)
	if f.address != "" {
		if err != nil {
			kube = nil // a controller that is run by hand needs none
		}
		return f.openAddress(ctx, kube)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; or use a snapshot with --scenario", err)
	}
	target := api.Target{Kube: kube, Namespace: f.namespace, ServiceAccount: f.account}
	return &liveSource{
		dial: func(ctx context.Context) (leader, error) {
			client, err := api.Dial(ctx, target)
			if err != nil {
				return nil, err
			}
			return remote{client}, nil
		},
		objects: &objectSource{env: s.LookupEnv, live: live{kubeconfig: f.kubeconfig, context: f.context, progress: progressTo(s)}, kube: kube, now: time.Now},
		timeout: f.timeout, now: time.Now,
	}, nil
}

// openAddress returns the service of a certain controller, without a fallback.
func (f *sourceFlags) openAddress(ctx context.Context, kube *rest.Config) (inspect.Adviser, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	client, err := api.Connect(ctx, f.address, api.Target{Kube: kube, ServiceAccount: f.account})
	if err != nil {
		return nil, err
	}
	return remote{client}, nil
}
