package aws

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/inventory"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

type lookups struct {
	group        *discover.PlacementGroup
	reservations []discover.Reservation
	err          error
	requested    int
}

func (l *lookups) KnownPlacementGroup(*awsv1.EC2NodeClass) (discover.PlacementGroup, bool) {
	if l.group == nil {
		return discover.PlacementGroup{}, false
	}
	return *l.group, true
}

func (l *lookups) FreshReservations(context.Context, *awsv1.EC2NodeClass) ([]discover.Reservation, error) {
	l.requested++
	return l.reservations, l.err
}

func TestDrifted(t *testing.T) {
	t.Parallel()
	resolved := func(change ...func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
		return newClass(append([]func(*awsv1.EC2NodeClass){func(c *awsv1.EC2NodeClass) {
			c.Status.AMIs = []awsv1.AMI{{ID: "ami-1"}}
			c.Status.SecurityGroups = []awsv1.SecurityGroup{{ID: "sg-1"}}
			c.Status.Subnets = []awsv1.Subnet{{ID: "subnet-1"}}
		}}, change...)...)
	}
	reserved := func(i *inventory.Instance) { i.Reservation, i.CapacityType = "cr-1", "reserved" }
	found := []discover.Reservation{{CapacityReservation: awsv1.CapacityReservation{ID: "cr-1"}}}
	for name, tc := range map[string]struct {
		class     *awsv1.EC2NodeClass
		image     string
		instance  []func(*inventory.Instance)
		claim     []func(*karpv1.NodeClaim)
		gone      bool
		fails     error
		lookup    *lookups
		requested int
		want      string
		wantErr   bool
	}{
		"nothing changed":                    {class: resolved(), image: "ami-1"},
		"another image":                      {class: resolved(), image: "ami-0", want: "AMIDrift"},
		"another security group":             {class: resolved(), image: "ami-1", instance: []func(*inventory.Instance){func(i *inventory.Instance) { i.Groups = []string{"sg-2"} }}, want: "SecurityGroupDrift"},
		"another subnet":                     {class: resolved(), image: "ami-1", instance: []func(*inventory.Instance){func(i *inventory.Instance) { i.Subnet = "subnet-2" }}, want: "SubnetDrift"},
		"an ended instance drifts no more":   {class: resolved(), image: "ami-0", gone: true},
		"G3 an instance that cannot be read": {class: resolved(), image: "ami-0", fails: &cloud.Error{Kind: cloud.Throttled}, wantErr: true},
		"a reservation that is gone":         {class: resolved(), image: "ami-1", instance: []func(*inventory.Instance){reserved}, claim: []func(*karpv1.NodeClaim){inReservation("cr-1", "default")}, requested: 1, want: "CapacityReservationDrift"},
		"a reservation that is back":         {class: resolved(), image: "ami-1", instance: []func(*inventory.Instance){reserved}, claim: []func(*karpv1.NodeClaim){inReservation("cr-1", "default")}, lookup: &lookups{reservations: found}, requested: 1},
		"reservations that cannot be read":   {class: resolved(), image: "ami-1", instance: []func(*inventory.Instance){reserved}, claim: []func(*karpv1.NodeClaim){inReservation("cr-1", "default")}, lookup: &lookups{err: errors.New("no")}, requested: 1, wantErr: true},
		"the placement group is new":         {class: resolved(func(c *awsv1.EC2NodeClass) { c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "g"} }), image: "ami-1", lookup: &lookups{group: &discover.PlacementGroup{ID: "pg-1"}}, want: "PlacementGroupDrift"},
		"the placement group is not known":   {class: resolved(func(c *awsv1.EC2NodeClass) { c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "g"} }), image: "ami-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, l := newWorld(t), tc.lookup
			if l == nil {
				l = &lookups{}
			}
			w.findError = tc.fails
			if !tc.gone {
				w.instances["i-1"] = newInstance("i-1", start, append([]func(*inventory.Instance){func(i *inventory.Instance) { i.Groups, i.Subnet = []string{"sg-1"}, "subnet-1" }}, tc.instance...)...)
			}
			claim := newClaim("a", start, append([]func(*karpv1.NodeClaim){withInstance("i-1"), func(c *karpv1.NodeClaim) {
				c.Status.ImageID, c.Labels[corev1.LabelInstanceTypeStable] = tc.image, "m5.large"
			}}, tc.claim...)...)
			got, err := (&drifter{inventory: w, types: w, lookup: l}).drifted(t.Context(), tc.class, claim)
			if string(got.Code) != tc.want || (err != nil) != tc.wantErr || l.requested != tc.requested {
				t.Errorf("%q, %v, called %d times", got, err, l.requested)
			}
		})
	}
}

// E13 is about lookups that fail. Images that were found without an error, and of which none suits the
// architecture of a node, are what its class requests now.
func TestTrust_A14_NoImageOfTheClassSuitsTheArchitecture(t *testing.T) {
	t.Parallel()
	of := func(architecture string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{architecture}}}
	}
	for name, tc := range map[string]struct {
		images []awsv1.AMI
		kind   string
		want   string
	}{
		"an image of its architecture":  {images: []awsv1.AMI{{ID: "ami-1", Requirements: of("amd64")}}, kind: "m5.large"},
		"images of another alone":       {images: []awsv1.AMI{{ID: "ami-1", Requirements: of("arm64")}}, kind: "m5.large", want: "EC2NodeClass default: spec.amiSelectorTerms: the node runs image ami-1; a new one gets none, since none suits its instance type"},
		"no image was ever found":       {kind: "m5.large"},
		"a type that is not known here": {images: []awsv1.AMI{{ID: "ami-2", Requirements: of("amd64")}}, kind: "m1.gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.instances["i-1"] = newInstance("i-1", start)
			class := newClass(func(c *awsv1.EC2NodeClass) { c.Status.AMIs = tc.images })
			claim := newClaim("a", start, withInstance("i-1"), func(c *karpv1.NodeClaim) {
				c.Status.ImageID, c.Labels[corev1.LabelInstanceTypeStable] = "ami-1", tc.kind
			})
			why, err := (&drifter{inventory: w, types: w, lookup: &lookups{}}).drifted(t.Context(), class, claim)
			got := ""
			if why.Code != "" {
				got = why.Text()
			}
			if err != nil || got != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
