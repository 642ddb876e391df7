package v1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// strictClass is what every variant below has to come out as, but for the field it is about.
const strictClass = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: c}
spec:
  subnetSelectorTerms: [{tags: {discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {discovery: demo}}]
  amiSelectorTerms: [{alias: al2023@latest}]
  role: nodes
  metadataOptions: {httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}
`

func class(t *testing.T, text string) *awsv1.EC2NodeClass {
	t.Helper()
	c := &awsv1.EC2NodeClass{}
	if err := yaml.UnmarshalStrict([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func swap(oldnew ...string) string { return strings.NewReplacer(oldnew...).Replace(strictClass) }

func TestEffectiveEC2NodeClass(t *testing.T) {
	t.Parallel()
	const al2 = "alias: al2023@latest"
	for name, tc := range map[string]struct {
		applied    string
		facts      awsv1.Facts
		want       string // strictClass where empty
		wantCodes  string // "code:rule" of the notes
		wantFamily awsv1.AMIFamily
	}{
		"strict v1 stays as it is": {applied: strictClass},
		"L-06 an alias without a version": {
			applied: swap("al2023@latest", "al2023"), wantCodes: "ShortFormRead:L-06",
		},
		"L-07 CV-08 a family without image terms": {
			applied: swap("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: AL2023"), wantCodes: "DefaultAssumed:L-07",
		},
		"CV-08 terms and family are both kept": {
			applied:    swap("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: Bottlerocket\n  amiSelectorTerms: [{id: ami-1}]"),
			want:       swap("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: Bottlerocket\n  amiSelectorTerms: [{id: ami-1}]"),
			wantFamily: awsv1.FamilyBottlerocket,
		},
		"L-08 no security group terms": {
			applied: swap("  securityGroupSelectorTerms: [{tags: {discovery: demo}}]\n", ""), wantCodes: "DefaultAssumed:L-08",
		},
		"L-08 subnets by id give no terms, the cluster's group is used": {
			applied: swap("  securityGroupSelectorTerms: [{tags: {discovery: demo}}]\n", "", "[{tags: {discovery: demo}}]", "[{id: subnet-1}]"),
			want: swap("  securityGroupSelectorTerms: [{tags: {discovery: demo}}]\n", "", "subnetSelectorTerms: [{tags: {discovery: demo}}]",
				"subnetSelectorTerms: [{id: subnet-1}]"),
			wantCodes: "DefaultAssumed:L-08",
		},
		"L-11 a role that is an instance profile": {
			applied: strictClass, facts: awsv1.Facts{RoleIsProfile: true},
			want: swap("role: nodes", "instanceProfile: nodes"), wantCodes: "ProfileGivenAsRole:L-11",
		},
		"L-12 the placeholder in selectors, tags and role": {
			applied:   swap("demo", `"${CLUSTER_NAME}"`, "role: nodes", "role: nodes-${CLUSTER_NAME}\n  tags: {Name: \"${CLUSTER_NAME}-node\"}\n  userData: echo ${CLUSTER_NAME}"),
			facts:     awsv1.Facts{ClusterName: "demo"},
			want:      swap("role: nodes", "role: nodes-demo\n  tags: {Name: demo-node}\n  userData: echo ${CLUSTER_NAME}"),
			wantCodes: "ShortFormRead:L-12",
		},
		"L-12 stays as it is while the name is not known": {
			applied: swap("demo", `"${CLUSTER_NAME}"`), want: swap("demo", `"${CLUSTER_NAME}"`),
		},
		"L-16 user data that bootstraps by itself": {
			applied:    swap(al2, "alias: al2@v1", "role: nodes", "role: nodes\n  userData: /etc/eks/bootstrap.sh demo"),
			want:       swap(al2, "alias: al2@v1", "role: nodes", "role: nodes\n  userData: /etc/eks/bootstrap.sh demo"),
			wantCodes:  "UserDataBootstraps:L-16",
			wantFamily: awsv1.FamilyAL2,
		},
		"L-17 the latest AL2 where there is none": {
			applied: swap("al2023@latest", "al2@latest"), facts: awsv1.Facts{KubernetesMinor: 34}, wantCodes: "ImageFamilyRetired:L-17",
		},
		"L-17 with the family named as well": {
			applied: swap("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: AL2"), facts: awsv1.Facts{KubernetesMinor: 33},
			wantCodes: "DefaultAssumed:L-07 ImageFamilyRetired:L-17",
		},
		"L-17 a pinned AL2 stays and is refused later": {
			applied: swap("al2023@latest", "al2@v20240807"), facts: awsv1.Facts{KubernetesMinor: 34}, want: swap("al2023@latest", "al2@v20240807"),
			wantFamily: awsv1.FamilyAL2,
		},
		"L-17 not under Custom, whose user data would not fit": {
			applied: swap("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: Custom\n  amiSelectorTerms: [{alias: al2@latest}]"), facts: awsv1.Facts{KubernetesMinor: 34},
			want:       swap("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: Custom\n  amiSelectorTerms: [{alias: al2@latest}]"),
			wantFamily: awsv1.FamilyCustom,
		},
		"L-17 AL2 stays where it is published": {
			applied: swap("al2023@latest", "al2@latest"), facts: awsv1.Facts{KubernetesMinor: 32}, want: swap("al2023@latest", "al2@latest"),
			wantFamily: awsv1.FamilyAL2,
		},
		"metadata options are filled in one by one": {
			applied: swap("httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required", "httpTokens: optional, httpPutResponseHopLimit: 3"),
			want:    swap("httpPutResponseHopLimit: 1, httpTokens: required", "httpPutResponseHopLimit: 3, httpTokens: optional"),
		},
		"CV-09 Ubuntu with terms": {
			applied: swap("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: Ubuntu\n  amiSelectorTerms: [{id: ami-1}]"),
			want: swap("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: AL2\n  amiSelectorTerms: [{id: ami-1}]\n  "+
				"blockDeviceMappings: [{deviceName: /dev/sda1, rootVolume: true, ebs: {volumeSize: 20Gi, volumeType: gp3, encrypted: true}}]"),
			wantCodes: "OldFieldRead:CV-09", wantFamily: awsv1.FamilyAL2,
		},
		"CV-10 terms without alias and family are custom": {
			applied: swap("alias: al2023@latest", "id: ami-1"), want: swap("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: Custom\n  amiSelectorTerms: [{id: ami-1}]"),
			wantCodes: "DefaultAssumed:CV-10", wantFamily: awsv1.FamilyCustom,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.want == "" {
				tc.want = strictClass
			}
			if tc.wantFamily == "" {
				tc.wantFamily = awsv1.FamilyAL2023
			}
			applied := class(t, tc.applied)
			before := applied.DeepCopy()
			got, notes := applied.Effective(tc.facts)
			if diff := cmp.Diff(class(t, tc.want), got); diff != "" {
				t.Errorf("effective form (-want +got):\n%s", diff)
			}
			if got := codes(notes); got != tc.wantCodes {
				t.Errorf("notes %q, want %q", got, tc.wantCodes)
			}
			if got.Family() != tc.wantFamily {
				t.Errorf("family %s, want %s", got.Family(), tc.wantFamily)
			}
			if diff := cmp.Diff(before, applied); diff != "" {
				t.Errorf("Effective changed its receiver:\n%s", diff)
			}
		})
	}
}

func codes(reasons []reason.Reason) string {
	var list []string
	for _, r := range reasons {
		list = append(list, string(r.Code)+":"+r.Rule)
	}
	return strings.Join(list, " ")
}

func TestUbuntuWithoutTermsIsRefused(t *testing.T) {
	t.Parallel()
	_, notes := class(t, swap("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: Ubuntu")).Effective(awsv1.Facts{})
	if got := codes(reason.Refusals(notes)); got != "FieldRequired:CV-09" {
		t.Errorf("refusals %q, want FieldRequired:CV-09", got)
	}
}

func TestStrictCompatibilityOfClasses(t *testing.T) {
	t.Parallel()
	for rule, tc := range map[string]struct {
		text  string
		facts awsv1.Facts
	}{
		"L-06": {text: swap("al2023@latest", "al2023")},
		"L-07": {text: swap("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: AL2023")},
		"L-08": {text: swap("  securityGroupSelectorTerms: [{tags: {discovery: demo}}]\n", "")},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			tc.facts.Strict = true
			_, notes := class(t, tc.text).Effective(tc.facts)
			if got := codes(reason.Refusals(notes)); got != "NotStrict:"+rule {
				t.Errorf("refusals %q, want NotStrict:%s", got, rule)
			}
		})
	}
	// These read the object another way and leave nothing to refuse: strict simply does not do it.
	got, notes := class(t, swap("demo", `"${CLUSTER_NAME}"`, "al2023@latest", "al2@latest")).Effective(
		awsv1.Facts{Strict: true, ClusterName: "demo", KubernetesMinor: 34, RoleIsProfile: true})
	if diff := cmp.Diff(class(t, swap("demo", `"${CLUSTER_NAME}"`, "al2023@latest", "al2@latest")), got); diff != "" || len(notes) > 0 {
		t.Errorf("L-11, L-12, L-17 under strict compatibility: %s %s", diff, codes(notes))
	}
}

// The old default of the hop limit is written down before the new one can apply.
func TestDefaultOld(t *testing.T) {
	t.Parallel()
	c := class(t, swap("metadataOptions: {httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}", ""))
	c.DefaultOld()
	got, _ := c.Effective(awsv1.Facts{})
	if hops := *got.Spec.MetadataOptions.HTTPPutResponseHopLimit; hops != 2 {
		t.Errorf("CV-11: hop limit %d, want 2", hops)
	}
}

func TestVocabularyKnowsCoreAndAWS(t *testing.T) {
	t.Parallel()
	words := awsv1.Vocabulary()
	for _, key := range []string{"karpenter.k8s.aws/instance-cpu", "topology.k8s.aws/zone-id", "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"} {
		if !words.WellKnown(key) || words.Restricted(key) {
			t.Errorf("API-6.2: %s should be well-known and allowed", key)
		}
	}
	if got := words.Canonical("topology.ebs.csi.aws.com/zone"); got != "topology.kubernetes.io/zone" {
		t.Errorf("API-6.4: zone of the EBS driver reads as %s", got)
	}
	if !words.Restricted("karpenter.k8s.aws/ec2nodeclass") {
		t.Error("API-6.2: the class label is not well-known and must be refused on pools")
	}
}
