package launch

import (
	"maps"
	"slices"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Tag keys of the controller beside the labels.
const (
	tagClusterName   = "eks:eks-cluster-name"
	tagClusterPrefix = "kubernetes.io/cluster/"
)

// Tags are what everything made for a pool is tagged with. The permissions in users' accounts are bound
// to exactly these keys, so nothing may be added or left out (AWS provider 13.1).
func Tags(cluster string, class *awsv1.EC2NodeClass, pool string) map[string]string {
	tags := maps.Clone(class.Spec.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[tagClusterPrefix+cluster] = "owned"
	tags[karpv1.LabelNodePool] = pool
	tags[tagClusterName] = cluster
	tags[awsv1.LabelNodeClass] = class.Name
	return tags
}

// tagged is the tag specification of each kind of resource, tags in the order of their keys.
func tagged(tags map[string]string, kinds ...ec2types.ResourceType) []ec2types.TagSpecification {
	var list []ec2types.TagSpecification
	for _, kind := range kinds {
		list = append(list, ec2types.TagSpecification{ResourceType: kind, Tags: tagList(tags)})
	}
	return list
}

func tagList(tags map[string]string) []ec2types.Tag {
	var list []ec2types.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, ec2types.Tag{Key: new(key), Value: new(tags[key])})
	}
	return list
}
