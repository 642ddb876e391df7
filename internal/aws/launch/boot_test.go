package launch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
)

func TestBootLabels(t *testing.T) {
	t.Parallel()
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		"team": "x", "example.com/a": "b", "notkubernetes.io/a": "kept", karpv1.LabelNodePool: "pool", awsv1.LabelInstanceFamily: "m5",
		"kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "a",
		"k8s.io/x": "y", "a.k8s.io/x": "y", "node-restriction.kubernetes.io/x": "y", "topology.k8s.aws/zone-id": "id",
	}}}
	want := map[string]string{
		"team": "x", "example.com/a": "b", "notkubernetes.io/a": "kept", karpv1.LabelNodePool: "pool", awsv1.LabelInstanceFamily: "m5",
		"topology.k8s.aws/zone-id": "id", karpv1.LabelCapacityType: "spot", karpv1.LabelDoNotSyncTaints: "true",
	}
	if diff := cmp.Diff(want, bootLabels(claim, "spot", ami.Of(awsv1.FamilyAL2))); diff != "" {
		t.Error(diff)
	}
	delete(want, karpv1.LabelDoNotSyncTaints)
	if diff := cmp.Diff(want, bootLabels(claim, "spot", ami.Of(awsv1.FamilyCustom))); diff != "" {
		t.Error(diff)
	}
	if claim.Labels["kubernetes.io/os"] == "" {
		t.Error("the claim was changed")
	}
}

func TestBootTaints(t *testing.T) {
	t.Parallel()
	claim := &karpv1.NodeClaim{Spec: karpv1.NodeClaimSpec{
		Taints:        []corev1.Taint{{Key: "a", Value: "1", Effect: corev1.TaintEffectNoSchedule}, karpv1.UnregisteredTaint()},
		StartupTaints: []corev1.Taint{{Key: "b", Effect: corev1.TaintEffectNoExecute}, {Key: "a", Value: "2", Effect: corev1.TaintEffectNoSchedule}},
	}}
	want := []corev1.Taint{
		{Key: "a", Value: "1", Effect: corev1.TaintEffectNoSchedule}, karpv1.UnregisteredTaint(), {Key: "b", Effect: corev1.TaintEffectNoExecute},
	}
	if diff := cmp.Diff(want, bootTaints(claim)); diff != "" {
		t.Error(diff)
	}
}

func TestBottlerocketVersion(t *testing.T) {
	t.Parallel()
	images := []awsv1.AMI{{ID: "ami-1", Name: "bottlerocket-aws-k8s-1.34-x86_64-v1.44.0-abc"}, {ID: "ami-2", Name: "bottlerocket-x86_64-v1.50.1-abc"}}
	for name, tc := range map[string]struct {
		terms []awsv1.AMISelectorTerm
		amis  []awsv1.AMI
		want  string
	}{
		"alias":            {[]awsv1.AMISelectorTerm{{Alias: "bottlerocket@v1.20.4"}}, images, "1.20.4"},
		"latest":           {[]awsv1.AMISelectorTerm{{Alias: "bottlerocket@latest"}}, images, "latest"},
		"name of a term":   {[]awsv1.AMISelectorTerm{{Name: "bottlerocket-*-v1.46.2-*"}}, images, "1.46.2"},
		"image of an id":   {[]awsv1.AMISelectorTerm{{ID: "ami-2"}}, images, "1.50.1"},
		"any image":        {[]awsv1.AMISelectorTerm{{Tags: awsv1.Tags{"a": "b"}}}, images, "1.44.0"},
		"nothing is known": {[]awsv1.AMISelectorTerm{{ID: "ami-3"}}, []awsv1.AMI{{ID: "ami-3", Name: "mine"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			class := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: tc.terms}, Status: awsv1.EC2NodeClassStatus{AMIs: tc.amis}}
			if got := bottlerocketVersion(class); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
