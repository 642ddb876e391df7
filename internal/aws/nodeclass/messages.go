package nodeclass

import (
	"maps"
	"slices"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

func noSubnet(class *awsv1.EC2NodeClass) string {
	terms := make([]string, 0, len(class.Spec.SubnetSelectorTerms))
	for _, t := range class.Spec.SubnetSelectorTerms {
		terms = append(terms, termText("id", t.ID, t.Tags))
	}
	return "no subnet matches spec.subnetSelectorTerms (" + strings.Join(terms, "; or ") + "); tag the subnets like this, or correct the terms"
}

func noSecurityGroup(class *awsv1.EC2NodeClass) string {
	if len(class.Spec.SecurityGroupSelectorTerms) == 0 {
		return "spec.securityGroupSelectorTerms is not set, and the cluster has no security group of its own; set it"
	}
	terms := make([]string, 0, len(class.Spec.SecurityGroupSelectorTerms))
	for _, t := range class.Spec.SecurityGroupSelectorTerms {
		text := termText("id", t.ID, t.Tags)
		if t.ID == "" && t.Name != "" {
			text = "name " + t.Name
		}
		terms = append(terms, text)
	}
	return "no security group matches spec.securityGroupSelectorTerms (" + strings.Join(terms, "; or ") + "); tag the groups like this, or correct the terms"
}

func noImage(class *awsv1.EC2NodeClass, kubernetes string) string {
	terms := make([]string, 0, len(class.Spec.AMISelectorTerms))
	for _, t := range class.Spec.AMISelectorTerms {
		if t.Alias != "" {
			family, _, _ := strings.Cut(t.Alias, "@")
			return "no image is published for alias " + t.Alias + " under Kubernetes " + kubernetes + "; use " + family + "@latest, or a version that exists"
		}
		terms = append(terms, imageText(t))
	}
	return "no available x86_64 or arm64 image matches spec.amiSelectorTerms (" + strings.Join(terms, "; or ") + "); share or tag the images like this, or correct the terms"
}

func imageText(t awsv1.AMISelectorTerm) string {
	switch {
	case t.ID != "":
		return "id " + t.ID
	case t.SSMParameter != "":
		return "SSM parameter " + t.SSMParameter
	}
	var parts []string
	if t.Name != "" {
		parts = append(parts, "name "+t.Name)
	}
	if len(t.Tags) > 0 {
		parts = append(parts, termText("", "", t.Tags))
	}
	if t.Owner != "" {
		parts = append(parts, "owner "+t.Owner)
	}
	return strings.Join(parts, ", ")
}

// termText is the id of a term, or its tags.
func termText(what, id string, tags awsv1.Tags) string {
	if id != "" {
		return what + " " + id
	}
	parts := make([]string, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		parts = append(parts, "tag "+key+"="+tags[key])
	}
	return strings.Join(parts, ", ")
}

func placementText(s *awsv1.PlacementGroupSelector) string {
	if s.ID != "" {
		return s.ID
	}
	return "named " + s.Name
}
