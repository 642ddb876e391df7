package classhash_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
)

// Two blocks in the form of certificates; what is inside does not matter to the hash.
const (
	certificateA = "-----BEGIN CERTIFICATE-----\nTUlJQmZlZWQ=\n-----END CERTIFICATE-----\n"
	certificateB = "-----BEGIN CERTIFICATE-----\nTUlJQ2JlZWY=\n-----END CERTIFICATE-----\n"
)

// The same certificates hash alike however they are written down (README decision 13).
func TestTrust_A04_ClusterCAIsHashedAsCertificates(t *testing.T) {
	t.Parallel()
	class := &awsv1.EC2NodeClass{}
	if err := yaml.Unmarshal([]byte(fullClass), class); err != nil {
		t.Fatal(err)
	}
	of := func(bundle string) string {
		h, err := classhash.Of(class, facts, bundle)
		if err != nil {
			t.Fatal(err)
		}
		return h.Sum
	}
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	base := of(encode(certificateA + certificateB))
	for name, tc := range map[string]struct {
		bundle     string
		wantChange bool
	}{
		"one more newline at the end":     {encode(certificateA + certificateB + "\n"), false},
		"Windows line endings":            {encode(strings.ReplaceAll(certificateA+certificateB, "\n", "\r\n")), false},
		"the other order":                 {encode(certificateB + certificateA), false},
		"a comment between them":          {encode(certificateA + "# second\n" + certificateB), false},
		"one of them twice":               {encode(certificateA + certificateB + certificateA), false},
		"broken lines of base64":          {encode(certificateA + certificateB)[:40] + "\n" + encode(certificateA + certificateB)[40:] + "\n", false},
		"one certificate less":            {encode(certificateA), true},
		"no certificate at all":           {"", true},
		"text that is no base64":          {"ca", true},
		"base64 of text that is no block": {encode("ca"), true},
	} {
		if changed := of(tc.bundle) != base; changed != tc.wantChange {
			t.Errorf("%s: hash changed: %v, want %v", name, changed, tc.wantChange)
		}
	}
	if of("ca") == of("other") || of(encode("ca")) == of(encode("other")) {
		t.Error("what cannot be parsed must be compared as text")
	}
}
