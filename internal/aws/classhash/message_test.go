package classhash_test

import (
	"maps"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
)

// The message of a drift names the fields of a class, and the CA that its nodes trust.
func TestTrust_A04_DriftOfAClassNamesTheField(t *testing.T) {
	t.Parallel()
	stamped := func(text, ca string) *awsv1.EC2NodeClass {
		c := &awsv1.EC2NodeClass{}
		if err := yaml.UnmarshalStrict([]byte(text), c); err != nil {
			t.Fatal(err)
		}
		h, err := classhash.Of(c, facts, ca)
		if err != nil {
			t.Fatal(err)
		}
		c.Annotations = classhash.Annotations(h)
		return c
	}
	claim := &karpv1.NodeClaim{}
	claim.Annotations = stamped(fullClass, "ca").Annotations
	unnamed := &karpv1.NodeClaim{}
	unnamed.Annotations = maps.Clone(claim.Annotations)
	delete(unnamed.Annotations, awsv1.AnnotationNodeClassFields)
	for name, tc := range map[string]struct {
		class *awsv1.EC2NodeClass
		claim *karpv1.NodeClaim
		want  string
	}{
		"user data":         {stamped(strings.Replace(fullClass, "echo hi", "echo ho", 1), "ca"), claim, "EC2NodeClass c: spec.userData changed since the node was launched"},
		"the CA":            {stamped(fullClass, "another"), claim, "EC2NodeClass c: the CA of the cluster changed since the node was launched"},
		"fields not stored": {stamped(fullClass, "another"), unnamed, "EC2NodeClass c: a field of spec, or the CA of the cluster, changed since the node was launched"},
	} {
		why, drifted := classhash.Drift(tc.class, tc.claim)
		if got := why.Text(); !drifted || got != tc.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tc.want)
		}
	}
	if why, drifted := classhash.Drift(stamped(fullClass, "ca"), claim); drifted {
		t.Errorf("drift where nothing changed: %s", why.Text())
	}
}
