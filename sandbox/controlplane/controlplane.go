package controlplane

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane/pki"
)

// Options say where a control plane lives and what it is made of. Only Dir is required.
type Options struct {
	// Dir holds the state, and is made when it is missing.
	Dir string
	// Port of the API server on 127.0.0.1; 0 takes a free one.
	Port int
	// NoControllers leaves kube-controller-manager out: no service accounts, so no pods either.
	NoControllers bool
	// NoScheduler leaves kube-scheduler out.
	NoScheduler bool
	// Scale trades fidelity for size, so that two cores hold a thousand nodes: kube-controller-manager
	// waits longer for a heartbeat, so that nodes may send fewer, and kube-scheduler looks at a tenth of
	// the nodes and spreads only the pods that request it.
	Scale bool
	// Issuer of the tokens of service accounts; empty means https://kubernetes.default.svc, which is also their usual audience.
	Issuer string
	// TokenReview is the URL of a server that reviews tokens which are not of service accounts; empty means that there are none.
	TokenReview string
	// Progress, when set, is called with each step of the start once it is done.
	Progress func(step string, took time.Duration) `json:"-"`
}

// A Starter returns a control plane that responds to requests and, unless NoControllers is set, admits pods. When a step
// fails, or ctx ends before the last one, what already runs is stopped again. Afterwards ctx has no say: only Stop ends
// the components, in order.
type Starter func(ctx context.Context, o Options) (*ControlPlane, error)

// ControlPlane is a running control plane.
type ControlPlane struct {
	// Kubeconfig is the path of a kubeconfig file of a cluster administrator.
	Kubeconfig string
	// Config is the same for clients in this process, without a rate limit.
	Config *rest.Config
	// TokenKey is what the tokens of service accounts are signed with, its public half.
	TokenKey crypto.PublicKey
	// Log is the path of the file that all components log to.
	Log string
	// Version is that of Kubernetes, such as v1.37.1.
	Version string

	dir       string
	authority *pki.Pair
	failed    <-chan error
	stop      func() error
}

// Running is what a Starter knows of a control plane that it started in a folder.
type Running struct {
	Dir     string // absolute
	Version string
	Failed  <-chan error // receives the error of a component that ended without being stopped
	Stop    func() error // may be called again
}

// Open returns a control plane that runs. All but what the Starter knows is in its folder.
func Open(r Running) (*ControlPlane, error) {
	cp := &ControlPlane{Kubeconfig: KubeconfigFile(r.Dir), Log: LogFile(r.Dir), Version: r.Version, dir: r.Dir, failed: r.Failed, stop: r.Stop}
	var err error
	if cp.authority, err = readPair(r.Dir, AuthorityPair); err != nil {
		return nil, err
	}
	tokens, err := readPair(r.Dir, TokensPair)
	if err != nil {
		return nil, err
	}
	cp.TokenKey = tokens.Key.Public()
	if cp.Config, err = clientcmd.BuildConfigFromFlags("", cp.Kubeconfig); err != nil {
		return nil, err
	}
	cp.Config.QPS, cp.Config.Burst = -1, -1
	return cp, nil
}

// Err receives the error of a component that ended without being stopped.
func (cp *ControlPlane) Err() <-chan error { return cp.failed }

// Stop ends every component, the datastore last. It returns when all have ended, or with an error
// after half a minute. Calling it again does nothing.
func (cp *ControlPlane) Stop() error { return cp.stop() }

// ServingConfig is for a server that only the API server may call, and that it calls by these names.
func (cp *ControlPlane) ServingConfig(names ...string) (*tls.Config, error) {
	pair, err := cp.authority.Sign(x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    names,
	})
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	clients.AddCert(cp.authority.Cert)
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{pair.Cert.Raw}, PrivateKey: pair.Key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: clients,
		VerifyConnection: func(state tls.ConnectionState) error {
			if name := state.PeerCertificates[0].Subject.CommonName; name != ServerAsClient {
				return fmt.Errorf("%s may not call this server", name)
			}
			return nil
		},
	}, nil
}

// ServerAsClient is the API server where it calls others: kubelets, and servers of further APIs.
const ServerAsClient = "kube-apiserver-client"

// The pairs in the folder that outlive a start.
const (
	AuthorityPair = "ca"
	TokensPair    = "service-account" // only its key is used
)

// Where things are in the folder of a control plane.

// PairFiles are a certificate and its key.
func PairFiles(dir, pair string) (cert, key string) {
	return filepath.Join(dir, "pki", pair+".crt"), filepath.Join(dir, "pki", pair+".key")
}

// EtcdSocket is what clients of the datastore connect to.
func EtcdSocket(dir string) string { return filepath.Join(dir, "etcd", "client.sock") }

// KubeconfigFile is there once the API server responds.
func KubeconfigFile(dir string) string { return filepath.Join(dir, "kubeconfig") }

// LogFile has what all components log.
func LogFile(dir string) string { return filepath.Join(dir, "components.log") }

func readPair(dir, name string) (*pki.Pair, error) { return pki.Read(PairFiles(dir, name)) }
