package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"time"
)

// Pair is a certificate with its key.
type Pair struct {
	Cert    *x509.Certificate
	Key     *ecdsa.PrivateKey
	CertPEM []byte
	KeyPEM  []byte
}

// authorityYears is how long an authority is good for: folders stay.
const authorityYears = 10

// Read reads a certificate with its key, and checks that they belong together.
func Read(certFile, keyFile string) (*Pair, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	both, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	key, ok := both.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds another kind of key", keyFile)
	}
	return &Pair{Cert: both.Leaf, Key: key, CertPEM: certPEM, KeyPEM: keyPEM}, nil
}

// NewAuthority makes an authority that nothing else has signed.
func NewAuthority(name string) (*Pair, error) {
	return newPair(nil, x509.Certificate{
		NotAfter:              time.Now().AddDate(authorityYears, 0, 0),
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	})
}

// SignClient makes the certificate of a user.
func (p *Pair) SignClient(user string, groups ...string) (*Pair, error) {
	return p.Sign(x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Sign makes a key and signs its certificate.
func (p *Pair) Sign(template x509.Certificate) (*Pair, error) { return newPair(p, template) }

// newPair makes a key and has its certificate signed by parent, or by itself when there is none.
func newPair(parent *Pair, template x509.Certificate) (*Pair, error) {
	pair, err := makePair(parent, template)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return pair, nil
}

func makePair(parent *Pair, template x509.Certificate) (*Pair, error) {
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
		signer, signerCert = parent.Key, parent.Cert
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
	return &Pair{
		Cert: cert, Key: key,
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}
