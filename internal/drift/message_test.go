package drift_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drift"
)

// A claim is made from a pool, the pool changes: the message names what.
func TestTrust_A04_DriftOfAPoolNamesTheField(t *testing.T) {
	t.Parallel()
	stamped := func(text string) *karpv1.NodePool {
		p := &karpv1.NodePool{}
		if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
			t.Fatal(err)
		}
		h, err := drift.PoolHash(p)
		if err != nil {
			t.Fatal(err)
		}
		p.Annotations = h.OnPool()
		return p
	}
	old := stamped(fullPool)
	labels := map[string]string{corev1.LabelArchStable: "amd64"}
	for name, tc := range map[string]struct {
		oldnew []string
		claim  map[string]string // annotations; the old pool's unless given
		want   string
	}{
		"nothing":          {oldnew: []string{"weight: 10", "weight: 11"}},
		"a taint":          {oldnew: []string{"value: x", "value: y"}, want: "NodePool p: spec.template.spec.taints changed since the node was launched"},
		"two fields":       {oldnew: []string{"48h", "49h", "team: a", "team: b"}, want: "NodePool p: spec.template.spec.expireAfter, spec.template.metadata.labels changed since the node was launched"},
		"a field that was": {oldnew: []string{"      terminationGracePeriod: 30m\n", ""}, want: "NodePool p: spec.template.spec.terminationGracePeriod changed since the node was launched"},
		"a claim of an earlier release": {
			oldnew: []string{"48h", "49h"}, claim: map[string]string{karpv1.AnnotationNodePoolHash: "1", karpv1.AnnotationNodePoolHashVersion: drift.PoolHashVersion},
			want: "NodePool p: a field of spec.template changed since the node was launched",
		},
		"a requirement": {oldnew: []string{"[amd64]", "[arm64]"}, want: "NodePool p: spec.template.spec.requirements require kubernetes.io/arch In [arm64], the node has amd64"},
	} {
		claim := &karpv1.NodeClaim{}
		claim.Labels, claim.Annotations = labels, old.Annotations
		if tc.claim != nil {
			claim.Annotations = tc.claim
		}
		why := drift.Pool(stamped(strings.NewReplacer(tc.oldnew...).Replace(fullPool)), claim, awsv1.Vocabulary())
		got := ""
		if why.Code != "" {
			got = why.Text()
		}
		if got != tc.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tc.want)
		}
	}
}
