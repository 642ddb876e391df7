package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	cliflag "k8s.io/component-base/cli/flag"
	apiapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
)

const loopback = "127.0.0.1"

// listenOnPort takes the port before anything starts: a free one without a race, or an early error.
func listenOnPort(ctx context.Context, port int) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d on %s is in use; stop what uses it, choose another port, or give none to get a free one", port, loopback)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the API server: %w", err)
	}
	return listener, nil
}

func (cp *plane) apiAddress() string {
	return "https://" + cp.listener.Addr().String()
}

// usualAudience is whom tokens are meant for that do not say, and their issuer unless another is wanted.
const usualAudience = "https://kubernetes.default.svc"

// launchAPIServer uses the options and Run of the command, not the command itself, which installs
// signal handlers and flags for the whole process.
func (cp *plane) launchAPIServer(ctx context.Context, o controlplane.Options) error {
	if err := nameVersion(); err != nil {
		return err
	}
	options := apioptions.NewServerRunOptions()
	serving := options.SecureServing
	serving.Listener = cp.listener
	serving.BindAddress, serving.ExternalAddress = net.ParseIP(loopback), net.ParseIP(loopback)
	if address, ok := cp.listener.Addr().(*net.TCPAddr); ok {
		serving.BindPort = address.Port
	}
	pki := func(file string) string { return cp.folder.joinPath("pki", file) }
	flags := []string{
		"--etcd-servers=unix:" + controlplane.EtcdSocket(cp.folder.dir),
		"--tls-cert-file=" + pki("apiserver.crt"),
		"--tls-private-key-file=" + pki("apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--service-account-issuer=" + cmp.Or(o.Issuer, usualAudience),
		"--api-audiences=" + usualAudience,
		"--service-account-key-file=" + pki("service-account.key"),
		"--service-account-signing-key-file=" + pki("service-account.key"),
		"--service-cluster-ip-range=10.100.0.0/16",
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		"--endpoint-reconciler-type=none", // there is no other API server to agree with
		// Kubelets that have a port are on this machine, and say so by a name that no client looks at.
		"--kubelet-preferred-address-types=ExternalDNS,InternalIP",
		"--kubelet-certificate-authority=" + pki("ca.crt"),
		"--kubelet-client-certificate=" + pki(controlplane.ServerAsClient+".crt"),
		"--kubelet-client-key=" + pki(controlplane.ServerAsClient+".key"),
		"--proxy-client-cert-file=" + pki(controlplane.ServerAsClient+".crt"),
		"--proxy-client-key-file=" + pki(controlplane.ServerAsClient+".key"),
	}
	if o.TokenReview != "" {
		file, err := cp.writeTokenReview(o.TokenReview)
		if err != nil {
			return err
		}
		flags = append(flags, "--authentication-token-webhook-version=v1", "--authentication-token-webhook-config-file="+file)
	}
	if err := parse(options.Flags(), flags); err != nil {
		return err
	}
	// Feature gates: one set for all components of the process.
	if err := options.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	completed, err := options.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	cp.runComponent(ctx, "kube-apiserver", func() error { return apiapp.Run(ctx, completed) })
	return nil
}

// writeTokenReview writes the file that configures in the API server which webhook reviews tokens that are not its own.
func (cp *plane) writeTokenReview(url string) (file string, err error) {
	const name = "token-review"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: url}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	config.CurrentContext = name
	file = cp.folder.joinPath(name + ".kubeconfig")
	return file, clientcmd.WriteToFile(*config, file)
}

func (cp *plane) awaitAPIServer(ctx context.Context) error {
	var err error
	if cp.client, err = kubernetes.NewForConfig(cp.config); err != nil {
		return err
	}
	err = cp.pollReady(ctx)
	if errors.Is(context.Cause(ctx), context.Canceled) {
		// Interrupted. Stopped before it is ready, the API server would crash; it is a matter of seconds.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		_ = cp.pollReady(grace)
	}
	return err
}

// pollReady polls: readiness is the one thing that cannot be watched.
func (cp *plane) pollReady(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		body, err := cp.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil && string(body) == "ok", nil
	})
}

// parse reads arguments as the command of a component does.
func parse(sets cliflag.NamedFlagSets, args []string) error {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		all.AddFlagSet(set)
	}
	return all.Parse(args)
}
