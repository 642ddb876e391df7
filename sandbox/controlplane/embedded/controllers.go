package embedded

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	kcmapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kcmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
)

// The controllers that make no sense here: they want metrics, a cloud's address ranges, kubeadm's
// tokens, volumes that grow, or kubelets that request a cache time.
const unwanted = "-horizontal-pod-autoscaler-controller -node-ipam-controller -bootstrap-signer-controller " +
	"-token-cleaner-controller -persistentvolume-expander-controller -ttl-controller"

// scaledGrace is how long a node may be silent in a large cluster. Leases of 200 s fit it.
const scaledGrace = "240s"

func (cp *plane) launchControllers(ctx context.Context, scale bool) error {
	options, err := kcmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, disabled, aliases := kcmapp.KnownControllers(), kcmapp.ControllersDisabledByDefault(), kcmapp.ControllerAliases()
	flags := options.Flags(known, disabled, aliases)
	options.ParsedFlags = &flags
	pki := func(file string) string { return cp.folder.joinPath("pki", file) }
	args := []string{
		"--kubeconfig=" + pki("controllers.kubeconfig"),
		"--leader-elect=false", // it ends the process when it loses
		"--secure-port=0",
		"--controllers=*," + strings.Join(strings.Fields(unwanted), ","),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + pki("service-account.key"),
		"--root-ca-file=" + pki("ca.crt"),
		"--cluster-signing-cert-file=" + pki("ca.crt"),
		"--cluster-signing-key-file=" + pki("ca.key"),
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		"--concurrent-replicaset-syncs=20",
		"--concurrent-deployment-syncs=20",
		"--concurrent-gc-syncs=10",
	}
	if scale {
		args = append(args, "--node-monitor-grace-period="+scaledGrace)
	}
	if err := parse(flags, args); err != nil {
		return err
	}
	config, err := options.Config(ctx, known, disabled, aliases)
	if err != nil {
		return err
	}
	cp.runComponent(ctx, "kube-controller-manager", func() error { return kcmapp.Run(ctx, config.Complete()) })
	return nil
}

// awaitServiceAccount returns once pods are admitted: they need the service account "default".
func (cp *plane) awaitServiceAccount(ctx context.Context) error {
	accounts := cp.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	byName := fields.OneTermEqualSelector(metav1.ObjectNameField, "default").String()
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = byName
			return accounts.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = byName
			return accounts.Watch(ctx, o)
		},
	}
	there := func(e watch.Event) (bool, error) { return e.Type == watch.Added, nil }
	_, err := watchtools.UntilWithSync(ctx, source, &corev1.ServiceAccount{}, nil, there)
	return err
}
