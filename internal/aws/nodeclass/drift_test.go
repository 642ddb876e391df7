package nodeclass_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/drift"
)

// case of drift: a class, a claim, its instance, and what it would get now.
type drifting struct {
	class *awsv1.EC2NodeClass
	claim *karpv1.NodeClaim
	have  nodeclass.Instance
	want  nodeclass.Wanted
}

func settled() drifting {
	stamps := map[string]string{awsv1.AnnotationNodeClassHash: "1", awsv1.AnnotationNodeClassHashVersion: "dovetail-1"}
	return drifting{
		class: &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: stamps}, Status: awsv1.EC2NodeClassStatus{
			AMIs: []awsv1.AMI{{ID: "ami-1"}}, Subnets: []awsv1.Subnet{{ID: "subnet-1"}, {ID: "subnet-2"}},
			SecurityGroups: []awsv1.SecurityGroup{{ID: "sg-1"}, {ID: "sg-2"}}, CapacityReservations: []awsv1.CapacityReservation{{ID: "cr-1"}},
		}},
		claim: &karpv1.NodeClaim{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{awsv1.AnnotationNodeClassHash: "1", awsv1.AnnotationNodeClassHashVersion: "dovetail-1"}, Labels: map[string]string{
				karpv1.LabelCapacityType: "reserved", awsv1.LabelPlacementGroupID: "pg-1",
			}},
			Status: karpv1.NodeClaimStatus{ImageID: "ami-1"},
		},
		have: nodeclass.Instance{Subnet: "subnet-2", Groups: []string{"sg-2", "sg-1", "sg-1"}, Reservation: "cr-1"},
		want: nodeclass.Wanted{Image: "ami-1", ImageKnown: true, PlacementGroup: "pg-1", PlacementGroupKnown: true},
	}
}

// EC2NodeClass 16: reasons, their order, and what is not compared.
func TestDrift(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*drifting)
		want   string
	}{
		"none":         {func(*drifting) {}, ""},
		"another hash": {func(d *drifting) { d.claim.Annotations[awsv1.AnnotationNodeClassHash] = "2" }, "NodeClassDrift"},
		"K22 another hash of another version": {func(d *drifting) {
			d.claim.Annotations = map[string]string{awsv1.AnnotationNodeClassHash: "2", awsv1.AnnotationNodeClassHashVersion: "v6"}
		}, ""},
		"K22 a claim without a version":                   {func(d *drifting) { d.claim.Annotations = map[string]string{awsv1.AnnotationNodeClassHash: "2"} }, ""},
		"a class that is not stamped":                     {func(d *drifting) { d.class.Annotations = nil }, ""},
		"another image":                                   {func(d *drifting) { d.want.Image = "ami-2" }, "AMIDrift"},
		"E13 Trust A14: no image suits the type any more": {func(d *drifting) { d.want.Image = "" }, "AMIDrift"},
		"the instance type is not known":                  {func(d *drifting) { d.want.Image, d.want.ImageKnown = "", false }, ""},
		"E14 the class has no images":                     {func(d *drifting) { d.class.Status.AMIs, d.want.Image = nil, "ami-2" }, ""},
		"the image of the claim is not known":             {func(d *drifting) { d.claim.Status.ImageID = "" }, ""},
		"one more security group": {func(d *drifting) {
			d.class.Status.SecurityGroups = append(d.class.Status.SecurityGroups, awsv1.SecurityGroup{ID: "sg-3"})
		}, "SecurityGroupDrift"},
		"one security group less":                {func(d *drifting) { d.class.Status.SecurityGroups = d.class.Status.SecurityGroups[:1] }, "SecurityGroupDrift"},
		"E15 the class has no security groups":   {func(d *drifting) { d.class.Status.SecurityGroups = nil }, ""},
		"the groups of the instance are unknown": {func(d *drifting) { d.have.Groups = nil }, ""},
		"another subnet":                         {func(d *drifting) { d.have.Subnet = "subnet-3" }, "SubnetDrift"},
		"E15 the class has no subnets":           {func(d *drifting) { d.class.Status.Subnets = nil }, ""},
		"the reservation left":                   {func(d *drifting) { d.class.Status.CapacityReservations = nil }, "CapacityReservationDrift"},
		"F09 relabelled, the reservation left": {func(d *drifting) {
			d.claim.Labels[karpv1.LabelCapacityType] = "on-demand"
			d.class.Status.CapacityReservations = nil
		}, ""},
		"another placement group":                  {func(d *drifting) { d.want.PlacementGroup = "pg-2" }, "PlacementGroupDrift"},
		"a placement group now, none before":       {func(d *drifting) { delete(d.claim.Labels, awsv1.LabelPlacementGroupID) }, "PlacementGroupDrift"},
		"no placement group now, one before":       {func(d *drifting) { d.want.PlacementGroup = "" }, "PlacementGroupDrift"},
		"the placement group is not known":         {func(d *drifting) { d.want.PlacementGroup, d.want.PlacementGroupKnown = "", false }, ""},
		"the hash comes first":                     {func(d *drifting) { d.claim.Annotations[awsv1.AnnotationNodeClassHash], d.want.Image = "2", "ami-2" }, "NodeClassDrift"},
		"the image comes before the rest":          {func(d *drifting) { d.have.Subnet, d.want.Image = "subnet-3", "ami-2" }, "AMIDrift"},
		"security groups come before subnets":      {func(d *drifting) { d.have.Subnet, d.have.Groups = "subnet-3", []string{"sg-9"} }, "SecurityGroupDrift"},
		"subnets come before reservations":         {func(d *drifting) { d.have.Subnet, d.have.Reservation = "subnet-3", "cr-9" }, "SubnetDrift"},
		"reservations come before placement group": {func(d *drifting) { d.want.PlacementGroup, d.have.Reservation = "pg-2", "cr-9" }, "CapacityReservationDrift"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := settled()
			tc.change(&d)
			if got := nodeclass.Drift(d.class, d.claim, d.have, d.want).Code; string(got) != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// EC2NodeClass 16, K22: a version of the hash that is not ours restamps instead of drifting the fleet.
func TestFM_K22_Stamps(t *testing.T) {
	t.Parallel()
	claim := func(name, version string, drifted bool) karpv1.NodeClaim {
		c := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{awsv1.AnnotationNodeClassHash: "1", awsv1.AnnotationNodeClassHashVersion: version}}}
		if drifted {
			c.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionDrifted, Status: metav1.ConditionTrue}}
		}
		return c
	}
	claims := []karpv1.NodeClaim{claim("theirs", "v6", false), claim("drifted", "v6", true), claim("first", "dovetail-1", false), claim("ours", "dovetail-2", false)}
	stamped := map[string]string{awsv1.AnnotationNodeClassHash: "7", awsv1.AnnotationNodeClassHashVersion: "dovetail-2", awsv1.AnnotationNodeClassFields: "role:1"}
	restamped := []nodeclass.Stamp{
		{Claim: "theirs", Annotations: stamped},
		{Claim: "drifted", Annotations: map[string]string{awsv1.AnnotationNodeClassHashVersion: "dovetail-2"}},
		{Claim: "first", Annotations: stamped},
	}
	for name, tc := range map[string]struct {
		have       map[string]string
		wantClass  map[string]string
		wantClaims []nodeclass.Stamp
	}{
		"taken over from another version": {have: map[string]string{awsv1.AnnotationNodeClassHash: "9", awsv1.AnnotationNodeClassHashVersion: "v6"}, wantClass: stamped, wantClaims: restamped},
		"never stamped":                   {wantClass: stamped, wantClaims: restamped},
		"Trust A04: a version of ours that hashed the CA as text": {
			have: map[string]string{awsv1.AnnotationNodeClassHash: "9", awsv1.AnnotationNodeClassHashVersion: "dovetail-1"}, wantClass: stamped, wantClaims: restamped,
		},
		"the class changed": {have: map[string]string{awsv1.AnnotationNodeClassHash: "9", awsv1.AnnotationNodeClassHashVersion: "dovetail-2"}, wantClass: stamped},
		"nothing to do":     {have: stamped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onClass, onClaims := nodeclass.Stamps(&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Annotations: tc.have}}, claims, drift.Hash{Sum: "7", Fields: "role:1"})
			if diff := cmp.Diff(tc.wantClass, onClass); diff != "" {
				t.Errorf("on the class (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantClaims, onClaims); diff != "" {
				t.Errorf("on claims (-want +got):\n%s", diff)
			}
		})
	}
}

// L-09: a claim may name its class in the way of v1beta1.
func TestL_09_UsedBy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ref  karpv1.NodeClassReference
		want bool
	}{
		"by group":       {karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "c"}, true},
		"by apiVersion":  {karpv1.NodeClassReference{DeprecatedAPIVersion: "karpenter.k8s.aws/v1beta1", Kind: "EC2NodeClass", Name: "c"}, true},
		"another class":  {karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "d"}, false},
		"another group":  {karpv1.NodeClassReference{Group: "example.com", Kind: "EC2NodeClass", Name: "c"}, false},
		"another cloud ": {karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "Other", Name: "c"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := nodeclass.UsedBy("c", &karpv1.NodeClaim{Spec: karpv1.NodeClaimSpec{NodeClassRef: tc.ref}}); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
