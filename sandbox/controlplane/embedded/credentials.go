package embedded

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/controlplane/pki"
)

// writeCredentials makes the certificates and the kubeconfigs of the components anew at each start. RBAC knows each by its
// name. The authority that signs them stays that of the folder, and so does the key of service account tokens: nodes and
// clients of an earlier start trust it, and a new one would be news to them, such as drift.
func (cp *plane) writeCredentials(context.Context) error {
	var err error
	if cp.ca, err = cp.keptAuthority(controlplane.AuthorityPair, "dovetail-sandbox-ca"); err != nil {
		return err
	}
	server, err := cp.ca.Sign(x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.ParseIP(loopback), net.IPv6loopback, net.IPv4(10, 96, 0, 1)},
	})
	if err != nil {
		return err
	}
	tokens, err := cp.keptAuthority(controlplane.TokensPair, "service-accounts") // only its key is used
	if err != nil {
		return err
	}
	caller, err := cp.ca.SignClient(controlplane.ServerAsClient)
	if err != nil {
		return err
	}
	for name, pair := range map[string]*pki.Pair{controlplane.AuthorityPair: cp.ca, "apiserver": server, controlplane.TokensPair: tokens, controlplane.ServerAsClient: caller} {
		cert, key := controlplane.PairFiles(cp.folder.dir, name)
		if err := errors.Join(os.WriteFile(cert, pair.CertPEM, 0o600), os.WriteFile(key, pair.KeyPEM, 0o600)); err != nil {
			return err
		}
	}
	for file, user := range map[string]string{
		"controllers.kubeconfig": "system:kube-controller-manager",
		"scheduler.kubeconfig":   "system:kube-scheduler",
	} {
		client, err := cp.ca.SignClient(user)
		if err != nil {
			return err
		}
		if err := clientcmd.WriteToFile(*cp.kubeconfigOf(client), cp.folder.joinPath("pki", file)); err != nil {
			return err
		}
	}
	if cp.admin, err = cp.ca.SignClient("admin", "system:masters"); err != nil {
		return err
	}
	cp.config, err = clientcmd.NewDefaultClientConfig(*cp.kubeconfigOf(cp.admin), nil).ClientConfig()
	if err != nil {
		return err
	}
	cp.config.QPS, cp.config.Burst = -1, -1
	return nil
}

func (cp *plane) writeKubeconfig(context.Context) error {
	return clientcmd.WriteToFile(*cp.kubeconfigOf(cp.admin), cp.folder.kubeconfig())
}

func (cp *plane) kubeconfigOf(client *pki.Pair) *clientcmdapi.Config {
	const name = "dovetail-sandbox"
	user := client.Cert.Subject.CommonName
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: cp.apiAddress(), CertificateAuthorityData: cp.ca.CertPEM}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: client.CertPEM, ClientKeyData: client.KeyPEM}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	return config
}

// keptAuthority is the one that the folder has from an earlier start, or a new one. What was only half written by a start
// that was killed is replaced.
func (cp *plane) keptAuthority(file, name string) (*pki.Pair, error) {
	if pair, err := pki.Read(controlplane.PairFiles(cp.folder.dir, file)); err == nil && time.Now().AddDate(1, 0, 0).Before(pair.Cert.NotAfter) {
		return pair, nil
	}
	return pki.NewAuthority(name)
}
