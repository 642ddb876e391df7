package discover

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

const pageSize = 500

// Subnet is one subnet and its free addresses.
type Subnet struct {
	ID, Zone, ZoneID string
	Free             int
}

// Subnets returns what the subnet terms of a class select: the subnet with most free addresses
// first, then by id.
func (d *Discoverer) Subnets(ctx context.Context, class *awsv1.EC2NodeClass) ([]Subnet, error) {
	key := canonical(class.Spec.SubnetSelectorTerms)
	list, err := d.subnets.loadOrCall(ctx, key, d.recordUse(class, subnets, key), func() ([]Subnet, error) { return d.describeSubnets(ctx, class.Spec.SubnetSelectorTerms) })
	if err != nil {
		return nil, fmt.Errorf("describe subnets of EC2NodeClass %s: %w", class.Name, err)
	}
	ids := make([]string, 0, len(list))
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	d.logIfChanged(ctx, class, subnets, ids)
	return list, nil
}

func (d *Discoverer) describeSubnets(ctx context.Context, terms []awsv1.SubnetSelectorTerm) ([]Subnet, error) {
	byID := map[string]Subnet{}
	for _, filters := range subnetQueries(terms) {
		input := &ec2.DescribeSubnetsInput{Filters: filters, MaxResults: new(int32(pageSize))}
		for {
			page, err := d.o.EC2.DescribeSubnets(ctx, input)
			if err != nil {
				return nil, err
			}
			for _, s := range page.Subnets {
				byID[value(s.SubnetId)] = Subnet{ID: value(s.SubnetId), Zone: value(s.AvailabilityZone), ZoneID: value(s.AvailabilityZoneId), Free: int(value(s.AvailableIpAddressCount))}
			}
			if input.NextToken = page.NextToken; value(input.NextToken) == "" {
				break
			}
		}
	}
	list := slices.SortedFunc(maps.Values(byID), func(a, b Subnet) int {
		return cmp.Or(cmp.Compare(b.Free, a.Free), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// SecurityGroups returns what the security-group terms of a class select, by id. For a class that
// was written without such terms fallback makes the group of the cluster stand in where the terms
// derived from the subnets select nothing (L-08).
func (d *Discoverer) SecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass, fallback bool) ([]awsv1.SecurityGroup, error) {
	key := canonical(class.Spec.SecurityGroupSelectorTerms, strconv.FormatBool(fallback))
	list, err := d.groups.loadOrCall(ctx, key, d.recordUse(class, groups, key), func() ([]awsv1.SecurityGroup, error) {
		return d.findGroups(ctx, class.Spec.SecurityGroupSelectorTerms, fallback)
	})
	if err != nil {
		return nil, fmt.Errorf("describe security groups of EC2NodeClass %s: %w", class.Name, err)
	}
	ids := make([]string, 0, len(list))
	for _, g := range list {
		ids = append(ids, g.ID)
	}
	d.logIfChanged(ctx, class, groups, ids)
	return list, nil
}

func (d *Discoverer) findGroups(ctx context.Context, terms []awsv1.SecurityGroupSelectorTerm, fallback bool) ([]awsv1.SecurityGroup, error) {
	found, err := d.describeGroups(ctx, groupQueries(terms))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && fallback && d.o.ClusterGroup != nil {
		id, err := d.o.ClusterGroup(ctx)
		if err != nil {
			return nil, fmt.Errorf("find that of the cluster: %w", err)
		}
		if id != "" {
			if found, err = d.describeGroups(ctx, [][]ec2types.Filter{{filter("group-id", id)}}); err != nil {
				return nil, err
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b awsv1.SecurityGroup) int { return cmp.Compare(a.ID, b.ID) }), nil
}

func (d *Discoverer) describeGroups(ctx context.Context, queries [][]ec2types.Filter) (map[string]awsv1.SecurityGroup, error) {
	byID := map[string]awsv1.SecurityGroup{}
	for _, filters := range queries {
		input := &ec2.DescribeSecurityGroupsInput{Filters: filters, MaxResults: new(int32(pageSize))}
		for {
			page, err := d.o.EC2.DescribeSecurityGroups(ctx, input)
			if err != nil {
				return nil, err
			}
			for _, g := range page.SecurityGroups {
				byID[value(g.GroupId)] = awsv1.SecurityGroup{ID: value(g.GroupId), Name: value(g.GroupName)}
			}
			if input.NextToken = page.NextToken; value(input.NextToken) == "" {
				break
			}
		}
	}
	return byID, nil
}

// value is what a pointer of the SDK points to, or zero.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
