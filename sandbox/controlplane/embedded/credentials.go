package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// keyPair is a certificate with its key.
type keyPair struct {
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
	certPEM []byte
	keyPEM  []byte
}

// authorityYears is how long an authority is good for: folders stay.
const authorityYears = 10

// serverAsClient is the API server where it calls others: kubelets, and servers of further APIs.
const serverAsClient = "kube-apiserver-client"

// The pairs that outlive a start.
const (
	authorityPair     = "ca"
	serviceTokensPair = "service-account"
)

// writeCredentials makes the certificates and the kubeconfigs of the components anew at each start. RBAC knows each by its
// name. The authority that signs them stays that of the folder, and so does the key of service account tokens: nodes and
// clients of an earlier start trust it, and a new one would be news to them, such as drift.
func (cp *ControlPlane) writeCredentials(context.Context) error {
	var err error
	if cp.ca, err = cp.keptAuthority(authorityPair, "dovetail-sandbox-ca"); err != nil {
		return err
	}
	server, err := cp.ca.sign(x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.ParseIP(loopback), net.IPv6loopback, net.IPv4(10, 96, 0, 1)},
	})
	if err != nil {
		return err
	}
	tokens, err := cp.keptAuthority(serviceTokensPair, "service-accounts") // only its key is used
	if err != nil {
		return err
	}
	cp.TokenKey = tokens.key.Public()
	caller, err := cp.ca.signClient(serverAsClient)
	if err != nil {
		return err
	}
	for name, pair := range map[string]*keyPair{authorityPair: cp.ca, "apiserver": server, serviceTokensPair: tokens, serverAsClient: caller} {
		if err := os.WriteFile(cp.folder.path("pki", name+".crt"), pair.certPEM, 0o600); err != nil {
			return err
		}
		if err := os.WriteFile(cp.folder.path("pki", name+".key"), pair.keyPEM, 0o600); err != nil {
			return err
		}
	}
	for file, user := range map[string]string{
		"controllers.kubeconfig": "system:kube-controller-manager",
		"scheduler.kubeconfig":   "system:kube-scheduler",
	} {
		client, err := cp.ca.signClient(user)
		if err != nil {
			return err
		}
		if err := clientcmd.WriteToFile(*cp.kubeconfigOf(client), cp.folder.path("pki", file)); err != nil {
			return err
		}
	}
	if cp.admin, err = cp.ca.signClient("admin", "system:masters"); err != nil {
		return err
	}
	cp.Config, err = clientcmd.NewDefaultClientConfig(*cp.kubeconfigOf(cp.admin), nil).ClientConfig()
	if err != nil {
		return err
	}
	cp.Config.QPS, cp.Config.Burst = -1, -1
	return nil
}

func (cp *ControlPlane) writeKubeconfig(context.Context) error {
	return clientcmd.WriteToFile(*cp.kubeconfigOf(cp.admin), cp.Kubeconfig)
}

// ServingConfig is for a server that only the API server may call, and that it calls by these names.
func (cp *ControlPlane) ServingConfig(names ...string) (*tls.Config, error) {
	pair, err := cp.ca.sign(x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    names,
	})
	if err != nil {
		return nil, err
	}
	clients := x509.NewCertPool()
	clients.AddCert(cp.ca.cert)
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{pair.cert.Raw}, PrivateKey: pair.key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: clients,
		VerifyConnection: func(state tls.ConnectionState) error {
			if name := state.PeerCertificates[0].Subject.CommonName; name != serverAsClient {
				return fmt.Errorf("%s may not call this server", name)
			}
			return nil
		},
	}, nil
}

func (cp *ControlPlane) kubeconfigOf(client *keyPair) *clientcmdapi.Config {
	const name = "dovetail-sandbox"
	user := client.cert.Subject.CommonName
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: cp.address(), CertificateAuthorityData: cp.ca.certPEM}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: client.certPEM, ClientKeyData: client.keyPEM}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	return config
}

// keptAuthority is the one that the folder has from an earlier start, or a new one. What was only half written by a start
// that was killed is replaced.
func (cp *ControlPlane) keptAuthority(file, name string) (*keyPair, error) {
	if pair, err := readPair(cp.folder.path("pki", file+".crt"), cp.folder.path("pki", file+".key")); err == nil && time.Now().AddDate(1, 0, 0).Before(pair.cert.NotAfter) {
		return pair, nil
	}
	return newAuthority(name)
}

// readPair reads a certificate with its key.
func readPair(certFile, keyFile string) (*keyPair, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	both, err := tls.X509KeyPair(certPEM, keyPEM) // which also checks that they belong together
	if err != nil {
		return nil, err
	}
	key, ok := both.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds another kind of key", keyFile)
	}
	return &keyPair{cert: both.Leaf, key: key, certPEM: certPEM, keyPEM: keyPEM}, nil
}

func newAuthority(name string) (*keyPair, error) {
	return newPair(nil, x509.Certificate{
		NotAfter:              time.Now().AddDate(authorityYears, 0, 0),
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	})
}

func (p *keyPair) signClient(user string, groups ...string) (*keyPair, error) {
	return p.sign(x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (p *keyPair) sign(template x509.Certificate) (*keyPair, error) { return newPair(p, template) }

// newPair makes a key and has its certificate signed by parent, or by itself when there is none.
func newPair(parent *keyPair, template x509.Certificate) (*keyPair, error) {
	pair, err := makePair(parent, template)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return pair, nil
}

func makePair(parent *keyPair, template x509.Certificate) (*keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, err
	}
	template.NotBefore = time.Now().Add(-time.Hour) // clocks of virtual machines jump
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().AddDate(1, 0, 0)
	}
	template.KeyUsage |= x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	signer, signerCert := key, &template
	if parent != nil {
		signer, signerCert = parent.key, parent.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, signerCert, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &keyPair{
		cert: cert, key: key,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}
