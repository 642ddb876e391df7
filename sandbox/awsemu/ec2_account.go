package awsemu

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

type placementResponse struct {
	Item placementItem `xml:"placementGroup"`
}

func (e *Emulator) placementNamed(name string) *PlacementGroup {
	for _, g := range e.ec2().Placements {
		if g.Name == name {
			return g
		}
	}
	return nil
}

func (e *Emulator) createPlacement(c *call) (any, error) {
	tags, err := tagsFor(c.Form, "placement-group")
	if err != nil {
		return nil, err
	}
	g := &PlacementGroup{Name: c.Form.String("GroupName"), Strategy: c.Form.String("Strategy"), Spread: c.Form.String("SpreadLevel"), Tags: tags}
	if e.placementNamed(g.Name) != nil {
		return nil, wire.Errorf("InvalidPlacementGroup.Duplicate", "The Placement Group '%s' already exists.", g.Name)
	}
	switch g.Strategy {
	case "partition":
		g.Partitions = c.Form.Int("PartitionCount", 2)
	case "spread":
		setDefault(&g.Spread, "rack")
	}
	if g.Partitions < 0 || g.Partitions > 7 {
		return nil, invalidValue("PartitionCount (%d) must be between 1 and 7", g.Partitions)
	}
	if err := completePlacement(g, e.nextID("pg-"), c.now); err != nil {
		return nil, invalidValue("%s", err)
	}
	e.ec2().Placements[g.ID] = g
	return placementResponse{Item: e.placementItem(g)}, nil
}

func (e *Emulator) deletePlacement(c *call) (any, error) {
	name := c.Form.String("GroupName")
	g := e.placementNamed(name)
	if g == nil {
		return nil, wire.Errorf("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", name)
	}
	if e.anyAlive(func(i *Instance) bool { return i.Placement == g.ID }) {
		return nil, wire.Errorf("InvalidPlacementGroup.InUse", "The placement group '%s' is in use and may not be deleted.", name)
	}
	delete(e.ec2().Placements, g.ID)
	return returnResponse{Return: true}, nil
}

// anyAlive says whether an instance that is alive passes a test.
func (e *Emulator) anyAlive(test func(*Instance) bool) bool {
	for _, i := range e.ec2().Instances {
		if i.holdsResources() && test(i) {
			return true
		}
	}
	return false
}

type groupResponse struct {
	Return bool      `xml:"return"`
	ID     string    `xml:"groupId"`
	ARN    string    `xml:"securityGroupArn"`
	Tags   []tagItem `xml:"tagSet>item"`
}

func (e *Emulator) createGroup(c *call) (any, error) {
	tags, err := tagsFor(c.Form, "security-group")
	if err != nil {
		return nil, err
	}
	g := &SecurityGroup{Name: c.Form.String("GroupName"), Description: c.Form.String("GroupDescription"), VPC: c.Form.String("VpcId"), Tags: tags}
	setDefault(&g.VPC, e.ec2().VPC)
	switch {
	case g.Name == "" || g.Description == "":
		return nil, wire.Errorf("MissingParameter", "The request must contain the parameters GroupName and GroupDescription")
	case strings.HasPrefix(g.Name, "sg-"):
		return nil, invalidValue("Value (%s) for parameter groupName is invalid: it cannot begin with sg-", g.Name)
	case g.VPC != e.ec2().VPC:
		return nil, wire.Errorf("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", g.VPC)
	}
	for _, other := range e.ec2().Groups {
		if other.Name == g.Name && other.VPC == g.VPC {
			return nil, wire.Errorf("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", g.Name, g.VPC)
		}
	}
	g.ID = e.nextID("sg-")
	e.ec2().Groups[g.ID] = g
	return groupResponse{Return: true, ID: g.ID, ARN: e.accountARN("ec2", "security-group/"+g.ID), Tags: tagItems(tags)}, nil
}

// requestedGroup finds the group of a call by id.
func (e *Emulator) requestedGroup(c *call) (*SecurityGroup, error) {
	id := c.Form.String("GroupId")
	if g := e.ec2().Groups[id]; g != nil {
		return g, nil
	}
	return nil, groupNotFound(id)
}

func (e *Emulator) deleteGroup(c *call) (any, error) {
	g, err := e.requestedGroup(c)
	if err != nil {
		return nil, err
	}
	if e.anyAlive(func(i *Instance) bool { return slices.Contains(i.Groups, g.ID) }) {
		return nil, wire.Errorf("DependencyViolation", "resource %s has a dependent object", g.ID)
	}
	delete(e.ec2().Groups, g.ID)
	return returnResponse{Return: true}, nil
}

type imageResponse struct {
	ID string `xml:"imageId"`
}

func (e *Emulator) copyImage(c *call) (any, error) {
	id := c.Form.String("SourceImageId")
	source := e.ec2().Images[id]
	switch {
	case source == nil:
		return nil, imageNotFound(id)
	case c.Form.String("Name") == "":
		return nil, wire.Errorf("MissingParameter", "The request must contain the parameter Name")
	case c.Form.String("SourceRegion") != e.fixture.Region:
		return nil, wire.Errorf("InvalidRegion", "The region '%s' is not emulated; there is %s", c.Form.String("SourceRegion"), e.fixture.Region)
	}
	tags, err := tagsFor(c.Form, "image")
	if err != nil {
		return nil, err
	}
	image := *source
	image.ID, image.Name, image.Owner, image.OwnerAlias = e.nextID("ami-"), c.Form.String("Name"), e.fixture.Account, ""
	image.Created, image.Deprecated, image.Tags = c.now, time.Time{}, tags
	e.ec2().Images[image.ID] = &image
	return imageResponse{ID: image.ID}, nil
}

// ownImage finds an image that the account may change.
func (e *Emulator) ownImage(c *call) (*Image, error) {
	id := c.Form.String("ImageId")
	image := e.ec2().Images[id]
	if image == nil {
		return nil, imageNotFound(id)
	}
	if image.Owner != e.fixture.Account {
		return nil, wire.Errorf("AuthFailure", "Not authorized for image:%s", id)
	}
	return image, nil
}

func (e *Emulator) deregisterImage(c *call) (any, error) {
	image, err := e.ownImage(c)
	if err != nil {
		return nil, err
	}
	delete(e.ec2().Images, image.ID)
	return returnResponse{Return: true}, nil
}

func (e *Emulator) enableDeprecation(c *call) (any, error) {
	image, err := e.ownImage(c)
	if err != nil {
		return nil, err
	}
	at := c.Form.Time("DeprecateAt")
	if !at.After(c.now) {
		return nil, invalidValue("DeprecateAt (%s) must be in the future", c.Form.String("DeprecateAt"))
	}
	image.Deprecated = at
	return returnResponse{Return: true}, nil
}

func (e *Emulator) disableDeprecation(c *call) (any, error) {
	image, err := e.ownImage(c)
	if err != nil {
		return nil, err
	}
	image.Deprecated = time.Time{}
	return returnResponse{Return: true}, nil
}

// modifySubnet sets the attributes that are emulated; others are accepted and dropped.
func (e *Emulator) modifySubnet(c *call) (any, error) {
	id := c.Form.String("SubnetId")
	s := e.ec2().Subnets[id]
	if s == nil {
		return nil, subnetNotFound(id)
	}
	if c.Form.Has("MapPublicIpOnLaunch") {
		s.MapPublicIP = c.Form.Bool("MapPublicIpOnLaunch.Value")
	}
	return returnResponse{Return: true}, nil
}
