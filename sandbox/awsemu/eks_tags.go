package awsemu

import (
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

func (e *Emulator) registerClusterTags() {
	e.register(wire.EKS, "ListTagsForResource", e.listClusterTags)
	e.registerMutating(wire.EKS, "TagResource", e.tagClusterResource)
	e.registerMutating(wire.EKS, "UntagResource", e.untagClusterResource)
}

// clusterTags shows the tags of what the ARN of a path names, and how to replace them.
func (e *Emulator) clusterTags(c *call) (tags map[string]string, set func(map[string]string), err error) {
	arn := strings.TrimPrefix(c.Path, "/tags/")
	for id, a := range e.eksState().Associations {
		if e.associationARN(id, a) == arn {
			return a.Tags, func(tags map[string]string) { a.Tags = tags; e.eksState().addAssociation(id, a) }, nil
		}
	}
	for _, cluster := range e.allClusters() {
		entries := cluster.AccessEntries
		for n := range entries {
			if e.entryARN(cluster.Name, entries[n]) == arn {
				return entries[n].Tags, func(tags map[string]string) { entries[n].Tags = tags }, nil
			}
		}
		if e.accountARN("eks", "cluster/"+cluster.Name) == arn {
			return cluster.Tags, func(tags map[string]string) { cluster.Tags = tags }, nil
		}
		for name, group := range cluster.Groups {
			if e.groupARN(cluster, name) == arn {
				return group.Tags, func(tags map[string]string) { group.Tags = tags; cluster.Groups[name] = group }, nil
			}
		}
		for name, addon := range cluster.Addons {
			if e.addonARN(cluster, name) == arn {
				return addon.Tags, func(tags map[string]string) { addon.Tags = tags; cluster.Addons[name] = addon }, nil
			}
		}
	}
	return nil, nil, wire.Errorf("NotFoundException", "No resource found for ARN %s, or its tags are not emulated.", arn)
}

func (e *Emulator) listClusterTags(c *call) (any, error) {
	tags, _, err := e.clusterTags(c)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(tags)
	if out == nil {
		out = map[string]string{}
	}
	return map[string]any{"tags": out}, nil
}

func (e *Emulator) tagClusterResource(c *call) (any, error) {
	tags, set, err := e.clusterTags(c)
	if err != nil {
		return nil, err
	}
	var in struct {
		Tags map[string]string `json:"tags"`
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	merged := map[string]string{}
	maps.Copy(merged, tags)
	maps.Copy(merged, in.Tags)
	set(merged)
	return nil, nil
}

func (e *Emulator) untagClusterResource(c *call) (any, error) {
	tags, set, err := e.clusterTags(c)
	if err != nil {
		return nil, err
	}
	left := maps.Clone(tags)
	maps.DeleteFunc(left, func(key, _ string) bool { return slices.Contains(c.Query["tagKeys"], key) })
	set(left)
	return nil, nil
}
