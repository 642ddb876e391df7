package classhash_test

import (
	"testing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/classhash"
	"github.com/dovetail-sh/dovetail/internal/check/classes"
)

// EC2NodeClass 16: a field of a class enters the hash, or it is one of these, for which nodes drift by
// another rule or never.
func TestEveryFieldOfAClassIsHashed(t *testing.T) {
	t.Parallel()
	wrong, err := classes.Unnoticed(func(class *awsv1.EC2NodeClass) string {
		h, err := classhash.Of(class, facts, "ca")
		if err != nil {
			t.Fatal(err)
		}
		return h.Sum
	}, map[string]string{
		"spec.subnetSelectorTerms":              "SubnetDrift: the subnet of the instance is compared with what they select",
		"spec.securityGroupSelectorTerms":       "SecurityGroupDrift: the groups of the instance are compared with what they select",
		"spec.amiSelectorTerms":                 "AMIDrift: the image of the node is compared with what they select; the family of an alias is hashed as amiFamily",
		"spec.capacityReservationSelectorTerms": "CapacityReservationDrift: the reservation of the instance is compared with what they select",
		"spec.ipPrefixCount":                    "it never drifts",
		"status":                                "what AWS answered is compared with the instance; a hash of it would replace nodes whenever AWS has something new",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range wrong {
		t.Errorf("ClassHash: %s", text)
	}
}
