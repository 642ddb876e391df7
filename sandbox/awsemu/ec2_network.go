package awsemu

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

func maxResultsWithIDs(ids string) error {
	return wire.Errorf("InvalidParameterCombination", "The parameter %s cannot be used with the parameter maxResults", ids)
}

// isSelected reports whether an id was requested; no id means all.
func isSelected(requested []string, id string) bool {
	return len(requested) == 0 || slices.Contains(requested, id)
}

type subnetItem struct {
	ID          string    `xml:"subnetId"`
	ARN         string    `xml:"subnetArn"`
	State       string    `xml:"state"`
	VPC         string    `xml:"vpcId"`
	CIDR        string    `xml:"cidrBlock"`
	Zone        string    `xml:"availabilityZone"`
	ZoneID      string    `xml:"availabilityZoneId"`
	Free        int       `xml:"availableIpAddressCount"`
	MapPublicIP bool      `xml:"mapPublicIpOnLaunch"`
	Owner       string    `xml:"ownerId"`
	Tags        []tagItem `xml:"tagSet>item"`
}

type subnetsResponse struct {
	Items []subnetItem `xml:"subnetSet>item"`
	Next  string       `xml:"nextToken,omitempty"`
}

func (e *Emulator) describeSubnets(c *call) (any, error) {
	filters, err := ec2Filters(c, "subnet-id", "vpc-id", "availability-zone", "availability-zone-id", "state")
	if err != nil {
		return nil, err
	}
	ids := c.Form.Strings("SubnetId")
	for _, id := range ids {
		if e.ec2().Subnets[id] == nil {
			return nil, subnetNotFound(id)
		}
	}
	var list []*Subnet
	for _, s := range e.ec2().Subnets {
		if isSelected(ids, s.ID) && filters.matchTags(s.Tags, map[string]string{
			"subnet-id": s.ID, "vpc-id": s.VPC, "availability-zone": s.Zone, "availability-zone-id": s.ZoneID, "state": "available",
		}) {
			list = append(list, s)
		}
	}
	page, next, err := ec2Page(c, list, func(s *Subnet) string { return s.ID }, 1000, 0)
	response := subnetsResponse{Next: next}
	for _, s := range page {
		response.Items = append(response.Items, subnetItem{
			ID: s.ID, ARN: e.accountARN("ec2", "subnet/"+s.ID), State: "available", VPC: s.VPC, CIDR: s.CIDR, Zone: s.Zone, ZoneID: s.ZoneID,
			Free: s.Free, MapPublicIP: s.MapPublicIP, Owner: e.fixture.Account, Tags: tagItems(s.Tags),
		})
	}
	return response, err
}

func subnetNotFound(id string) error {
	return wire.Errorf("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
}

type groupItem struct {
	ID          string    `xml:"groupId"`
	Name        string    `xml:"groupName"`
	Description string    `xml:"groupDescription"`
	VPC         string    `xml:"vpcId"`
	Owner       string    `xml:"ownerId"`
	Tags        []tagItem `xml:"tagSet>item"`
}

type groupsResponse struct {
	Items []groupItem `xml:"securityGroupInfo>item"`
	Next  string      `xml:"nextToken,omitempty"`
}

func (e *Emulator) describeSecurityGroups(c *call) (any, error) {
	filters, err := ec2Filters(c, "group-id", "group-name", "vpc-id")
	if err != nil {
		return nil, err
	}
	ids := c.Form.Strings("GroupId")
	for _, id := range ids {
		if e.ec2().Groups[id] == nil {
			return nil, groupNotFound(id)
		}
	}
	var list []*SecurityGroup
	for _, g := range e.ec2().Groups {
		if isSelected(ids, g.ID) && filters.matchTags(g.Tags, map[string]string{"group-id": g.ID, "group-name": g.Name, "vpc-id": g.VPC}) {
			list = append(list, g)
		}
	}
	page, next, err := ec2Page(c, list, func(g *SecurityGroup) string { return g.ID }, 1000, 0)
	response := groupsResponse{Next: next}
	for _, g := range page {
		response.Items = append(response.Items, groupItem{ID: g.ID, Name: g.Name, Description: cmp.Or(g.Description, g.Name), VPC: g.VPC, Owner: e.fixture.Account, Tags: tagItems(g.Tags)})
	}
	return response, err
}

func groupNotFound(id string) error {
	return wire.Errorf("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
}

type vpcItem struct {
	ID    string `xml:"vpcId"`
	State string `xml:"state"`
	CIDR  string `xml:"cidrBlock"`
	Owner string `xml:"ownerId"`
}

type vpcsResponse struct {
	Items []vpcItem `xml:"vpcSet>item"`
}

func (e *Emulator) describeVPCs(c *call) (any, error) {
	filters, err := ec2Filters(c, "vpc-id", "state", "cidr")
	if err != nil {
		return nil, err
	}
	vpc := vpcItem{ID: e.ec2().VPC, State: "available", CIDR: "10.0.0.0/8", Owner: e.fixture.Account}
	ids := c.Form.Strings("VpcId")
	if !isSelected(ids, vpc.ID) {
		return nil, wire.Errorf("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", ids[0])
	}
	if !filters.matchTags(nil, map[string]string{"vpc-id": vpc.ID, "state": vpc.State, "cidr": vpc.CIDR}) {
		return vpcsResponse{}, nil
	}
	return vpcsResponse{Items: []vpcItem{vpc}}, nil
}

type placementItem struct {
	ID         string    `xml:"groupId"`
	Name       string    `xml:"groupName"`
	ARN        string    `xml:"groupArn"`
	Strategy   string    `xml:"strategy"`
	Partitions string    `xml:"partitionCount,omitempty"`
	Spread     string    `xml:"spreadLevel,omitempty"`
	State      string    `xml:"state"`
	Tags       []tagItem `xml:"tagSet>item"`
}

type placementsResponse struct {
	Items []placementItem `xml:"placementGroupSet>item"`
}

func (e *Emulator) describePlacementGroups(c *call) (any, error) {
	filters, err := ec2Filters(c, "state", "group-name", "strategy", "spread-level")
	if err != nil {
		return nil, err
	}
	ids, names := c.Form.Strings("GroupId"), c.Form.Strings("GroupName")
	var found []string
	var list []*PlacementGroup
	for _, g := range e.ec2().Placements {
		if !isSelected(ids, g.ID) || !isSelected(names, g.Name) {
			continue
		}
		found = append(found, g.ID, g.Name)
		if filters.matchTags(g.Tags, map[string]string{"state": g.State, "group-name": g.Name, "strategy": g.Strategy, "spread-level": g.Spread}) {
			list = append(list, g)
		}
	}
	for _, requested := range slices.Concat(ids, names) {
		if !slices.Contains(found, requested) {
			return nil, wire.Errorf("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", requested)
		}
	}
	slices.SortFunc(list, func(a, b *PlacementGroup) int { return strings.Compare(a.ID, b.ID) })
	var response placementsResponse
	for _, g := range list {
		response.Items = append(response.Items, e.placementItem(g))
	}
	return response, nil
}

func (e *Emulator) placementItem(g *PlacementGroup) placementItem {
	item := placementItem{ID: g.ID, Name: g.Name, ARN: e.accountARN("ec2", "placement-group/"+g.Name), Strategy: g.Strategy, Spread: g.Spread, State: g.State, Tags: tagItems(g.Tags)}
	if g.Partitions > 0 {
		item.Partitions = strconv.Itoa(g.Partitions)
	}
	return item
}
