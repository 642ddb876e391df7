package discover

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/awserr"
)

// PlacementGroup is the placement group that a class launches into.
type PlacementGroup struct {
	ID, Strategy string
	Partitions   int
}

// PlacementGroup returns the group that the class selects; nil if it selects none, or if there is no such group.
// While EC2 cannot be called, a response of the last day is used.
func (d *Discoverer) PlacementGroup(ctx context.Context, class *awsv1.EC2NodeClass) (*PlacementGroup, error) {
	selector := class.Spec.PlacementGroupSelector
	if selector == nil {
		return nil, nil
	}
	key := selector.ID + "/" + selector.Name
	if kept, found := d.placement.load(key); found {
		return kept, nil
	}
	group, err := d.describePlacementGroup(ctx, selector)
	if err != nil {
		if last, found := d.lastGood.load(key); found {
			return &last, nil
		}
		return nil, fmt.Errorf("describe placement group of EC2NodeClass %s: %w", class.Name, err)
	}
	d.placement.store(key, group)
	if group == nil {
		d.lastGood.dropMatching(func(k string) bool { return k == key })
		return nil, nil
	}
	d.lastGood.store(key, *group)
	return group, nil
}

// KnownPlacementGroup returns the group that the class selects as far as it is cached, without an API call.
func (d *Discoverer) KnownPlacementGroup(class *awsv1.EC2NodeClass) (PlacementGroup, bool) {
	selector := class.Spec.PlacementGroupSelector
	if selector == nil {
		return PlacementGroup{}, false
	}
	return d.lastGood.load(selector.ID + "/" + selector.Name)
}

// describePlacementGroup requests a group by id, or by name through a filter: EC2 rejects a name as parameter for
// groups that another account shares.
func (d *Discoverer) describePlacementGroup(ctx context.Context, selector *awsv1.PlacementGroupSelector) (*PlacementGroup, error) {
	input := &ec2.DescribePlacementGroupsInput{Filters: []ec2types.Filter{filter("state", string(ec2types.PlacementGroupStateAvailable))}}
	if selector.ID != "" {
		input.GroupIds = []string{selector.ID}
	} else {
		input.Filters = append(input.Filters, filter("group-name", selector.Name))
	}
	response, err := d.o.EC2.DescribePlacementGroups(ctx, input)
	switch {
	case strings.HasPrefix(awserr.Code(err), "InvalidPlacementGroup"):
		return nil, nil
	case err != nil:
		return nil, err
	}
	for _, g := range response.PlacementGroups {
		if value(g.GroupId) == selector.ID || selector.ID == "" && value(g.GroupName) == selector.Name {
			return &PlacementGroup{ID: value(g.GroupId), Strategy: string(g.Strategy), Partitions: int(value(g.PartitionCount))}, nil
		}
	}
	return nil, nil
}
