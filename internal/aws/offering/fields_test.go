package offering

import (
	"reflect"
	"slices"
	"strconv"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check/classes"
)

// immaterial are the fields of a class that its instance types and offerings do not depend on.
func immaterial() map[string]string {
	const (
		resolved = "what it selects is in the status"
		boot     = "it matters when an instance boots, and does not change what there is for pods"
		volume   = "of a volume only the size counts"
		identity = "whose the instance is does not change its size"
	)
	return map[string]string{
		"spec.subnetSelectorTerms":                              resolved,
		"spec.securityGroupSelectorTerms":                       resolved,
		"spec.amiSelectorTerms":                                 resolved + "; the family of an alias enters as the family",
		"spec.capacityReservationSelectorTerms":                 resolved,
		"spec.placementGroupSelector":                           "the group that was found enters, and whether one is requested",
		"spec.userData":                                         boot,
		"spec.role":                                             identity,
		"spec.instanceProfile":                                  identity,
		"spec.tags":                                             identity,
		"spec.context":                                          identity,
		"spec.blockDeviceMappings.ebs.deleteOnTermination":      volume,
		"spec.blockDeviceMappings.ebs.encrypted":                volume,
		"spec.blockDeviceMappings.ebs.iops":                     volume,
		"spec.blockDeviceMappings.ebs.kmsKeyID":                 volume,
		"spec.blockDeviceMappings.ebs.snapshotID":               volume,
		"spec.blockDeviceMappings.ebs.throughput":               volume,
		"spec.blockDeviceMappings.ebs.volumeInitializationRate": volume,
		"spec.blockDeviceMappings.ebs.volumeType":               volume,
		"spec.detailedMonitoring":                               boot,
		"spec.associatePublicIPAddress":                         boot,
		"spec.ipPrefixCount":                                    "the number of pods is that of addresses, with or without prefixes; maxPods is there to raise it",
		"spec.metadataOptions":                                  boot,
		"spec.connectionTracking":                               "whether it is set enters, since it needs Nitro; the timeouts suit every such machine",
		"status.securityGroups":                                 boot,
		"status.instanceProfile":                                identity,
		"status.conditions":                                     "the caller decides whether a class is ready",
		"status.amis.deprecated":                                "an image runs on the same machines when it is deprecated",
		"status.amis.name":                                      "the id stands for the image",
		"status.capacityReservations.endTime":                   "state says that it is about to end",
		"status.capacityReservations.instanceMatchCriteria":     "the instance names its reservation, open or targeted",
		"status.capacityReservations.ownerID":                   "the id stands for the reservation",
	}
}

// The instance types of a class are computed anew when any of its fields changes, but for those that they
// do not depend on.
func TestEveryFieldOfAClassIsInTheDigest(t *testing.T) {
	t.Parallel()
	wrong, err := classes.Unnoticed(func(class *awsv1.EC2NodeClass) string {
		return strconv.FormatUint(shapeKey(class, nil, discover.PlacementGroup{}), 16)
	}, immaterial())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range wrong {
		t.Errorf("shapeKey: %s", text)
	}
}

// A field that the digest leaves out leaves types and offerings as they are.
func TestFieldsOutsideTheDigestDoNotMatter(t *testing.T) {
	t.Parallel()
	big := p4d() // one that both samples can launch
	big.ProcessorInfo.SupportedFeatures = []ec2types.SupportedAdditionalProcessorFeature{ec2types.SupportedAdditionalProcessorFeatureNestedVirtualization}
	l := newFixture(t, nil, described(t, "m5.large", nil), described(t, "m6g.large", nil), described(t, "g5.xlarge", nil), big)
	l.group = discover.PlacementGroup{ID: "pg-1", Strategy: "partition", Partitions: 2}
	changes, err := classes.Changes()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if _, listed := classes.Listed(c.Field, immaterial()); !listed {
			continue
		}
		before := l.types(t, c.Before)
		if !slices.ContainsFunc(before, func(it catalog.InstanceType) bool { return it.Unsuited == "" }) {
			t.Fatalf("%s: the class cannot launch anything", c.Field)
		}
		clear(l.shapes)
		if after := l.types(t, c.After); !reflect.DeepEqual(before, after) {
			t.Errorf("%s changes the instance types", c.Field)
		}
		clear(l.shapes)
	}
}
