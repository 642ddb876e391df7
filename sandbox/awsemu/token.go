package awsemu

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/policy"
)

// serviceToken is what a token of a service account says.
type serviceToken struct {
	Issuer   string       `json:"iss"`
	Subject  string       `json:"sub"`
	Audience policy.Texts `json:"aud"` // one text or a list of them
	Expires  int64        `json:"exp"`
	From     int64        `json:"nbf"`
	Cluster  struct {
		Namespace string   `json:"namespace"`
		Pod       namedUID `json:"pod"`
		Account   namedUID `json:"serviceaccount"`
	} `json:"kubernetes.io"`

	signed, signature []byte
	algorithm         string
}

type namedUID struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// readToken decodes a JWT; verify checks it.
func readToken(raw string) (serviceToken, error) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return serviceToken{}, errors.New("three parts are needed")
	}
	var token serviceToken
	var header struct {
		Algorithm string `json:"alg"`
	}
	var err error
	for n, into := range []any{&header, &token} {
		text, decodeErr := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[n], "="))
		err = errors.Join(err, decodeErr)
		if decodeErr == nil {
			err = errors.Join(err, json.Unmarshal(text, into))
		}
	}
	signature, decodeErr := base64.RawURLEncoding.DecodeString(parts[2])
	token.signed, token.signature, token.algorithm = []byte(parts[0]+"."+parts[1]), signature, header.Algorithm
	return token, errors.Join(err, decodeErr)
}

// verifySignature checks the signature with the key of the issuer.
func (t serviceToken) verifySignature(key crypto.PublicKey) error {
	digest := sha256.Sum256(t.signed)
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		half := len(t.signature) / 2
		r, s := new(big.Int).SetBytes(t.signature[:half]), new(big.Int).SetBytes(t.signature[half:])
		if t.algorithm != "ES256" || !ecdsa.Verify(key, digest[:], r, s) {
			return errors.New("the signature is not that of the issuer")
		}
		return nil
	case *rsa.PublicKey:
		if t.algorithm != "RS256" {
			return errors.New("the signature is not that of the issuer")
		}
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], t.signature)
	case nil:
		return errors.New("no key of the issuer is known")
	default:
		return fmt.Errorf("a key of the kind %T is not emulated", key)
	}
}

// isCurrent reports whether a token may be used at a time.
func (t serviceToken) isCurrent(now time.Time) bool {
	return now.Unix() >= t.From && now.Unix() < t.Expires
}

// tokenKey is the key that tokens of an issuer are signed with: that of the fixture's cluster. Others are unknown.
func (e *Emulator) tokenKey(issuer string) crypto.PublicKey {
	if issuer != Issuer(e.fixture.Region, e.fixture.Cluster) {
		return nil
	}
	return e.fixture.TokenKey
}
