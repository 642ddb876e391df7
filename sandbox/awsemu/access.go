package awsemu

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// requiredAccess is what a call wants to do, as permissions see it. What a launch implies besides is known
// later, see launchAccess.
func (e *Emulator) requiredAccess(c *call) []access {
	plain := access{action: string(c.Service) + ":" + c.Action, resource: "*"}
	switch c.Service {
	case wire.EC2:
		return e.ec2Access(c, plain)
	case wire.IAM:
		return e.iamAccess(c, plain)
	case wire.SQS:
		return []access{e.sqsAccess(c, plain)}
	case wire.SSM:
		return e.ssmAccess(c, plain)
	case wire.EKS:
		if cluster, _, _ := strings.Cut(strings.TrimPrefix(c.Path, "/clusters/"), "/"); cluster != "" && c.Action != "ListClusters" {
			plain.resource = e.accountARN("eks", "cluster/"+cluster)
		}
	case wire.ZonalShift:
		plain = plain.withContext(keyShifted, strings.TrimPrefix(c.Path, "/managedresources/"))
	case wire.STS, wire.EKSAuth, wire.Pricing, wire.Events, wire.FIS:
	}
	return []access{plain}
}

func (e *Emulator) ec2Access(c *call, plain access) []access {
	switch c.Action {
	case "TerminateInstances", "RebootInstances", "StopInstances", "StartInstances":
		return e.onResources(c, plain, c.Form.Strings("InstanceId"), nil)
	case "CreateCapacityReservation", "CreatePlacementGroup", "CreateSecurityGroup", "CreateVolume", "CopyImage":
		kind := map[string]string{
			"CreateCapacityReservation": "capacity-reservation", "CreatePlacementGroup": "placement-group", "CreateSecurityGroup": "security-group",
			"CreateVolume": "volume", "CopyImage": "image",
		}[c.Action]
		return e.accessToCreate(c, plain, kind, requestedTags(kind, c.Form))
	case "AttachVolume", "AuthorizeSecurityGroupEgress", "AuthorizeSecurityGroupIngress", "CancelCapacityReservation",
		"CreateInterruptibleCapacityReservationAllocation", "DeleteSecurityGroup", "DeleteVolume", "DeregisterImage", "DetachVolume",
		"DisableImageDeprecation", "EnableImageDeprecation", "ModifyCapacityReservation", "ModifySubnetAttribute", "RevokeSecurityGroupEgress",
		"RevokeSecurityGroupIngress", "UpdateInterruptibleCapacityReservationAllocation":
		return e.onResources(c, plain, namedResources(c.Form), nil)
	case "CreateTags", "DeleteTags":
		tags := map[string]string{}
		for _, tag := range c.Form.List("Tag") {
			tags[tag.String("Key")] = tag.String("Value")
		}
		return e.onResources(c, plain, c.Form.Strings("ResourceId"), tags)
	case "DeleteLaunchTemplate":
		return []access{e.onTemplate(c, plain, c.Form)}
	case "CreateLaunchTemplate":
		return e.accessToCreate(c, plain, "launch-template", requestedTags("launch-template", c.Form))
	case "CreateFleet":
		list := e.accessToCreate(c, plain, "fleet", requestedTags("fleet", c.Form))
		for _, config := range c.Form.List("LaunchTemplateConfigs") {
			list = append(list, e.onTemplate(c, plain, config.Sub("LaunchTemplateSpecification")))
		}
		return list
	case "RunInstances": // the launch is checked again, when it knows what it needs
		plain.resource, plain.unsure = "", []string{""}
	}
	return []access{plain}
}

// namedResources are the ids that a call names one by one.
func namedResources(f wire.Form) []string {
	var ids []string
	for _, name := range []string{"InstanceId", "VolumeId", "GroupId", "CapacityReservationId", "ImageId", "SubnetId"} {
		if id := f.String(name); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// onResources is an action on resources of EC2 that exist, or should.
func (e *Emulator) onResources(c *call, plain access, ids []string, sent map[string]string) []access {
	var list []access
	for _, id := range ids {
		a := plain.withRequestTags(sent)
		a.resource = e.resourceARN(id)
		if tags, err := e.tagsOf(c, id); err == nil {
			a = a.withTags(keyResourceTag, *tags)
		} else {
			a.unsure = []string{keyResourceTag}
		}
		list = append(list, a)
	}
	if len(list) == 0 {
		plain.unsure = []string{""} // the operation says what it misses
		plain.resource = ""
		return []access{plain}
	}
	return list
}

// onTemplate is an action on the template that a form names.
func (e *Emulator) onTemplate(c *call, plain access, f wire.Form) access {
	t, err := e.templateOf(c, f)
	if err != nil {
		plain.resource, plain.unsure = e.accountARN("ec2", "launch-template/*"), []string{keyResourceTag}
		return plain
	}
	plain.resource = e.accountARN("ec2", "launch-template/"+t.ID)
	return plain.withTags(keyResourceTag, t.Tags)
}

// accessToCreate is an action that makes a resource of EC2, and to tag it when there are tags.
func (e *Emulator) accessToCreate(c *call, plain access, kind string, tags map[string]string) []access {
	plain.resource = e.accountARN("ec2", kind+"/*")
	plain = plain.withRequestTags(tags)
	if len(tags) == 0 {
		return []access{plain}
	}
	tagging := plain.withContext(keyCreateAction, c.Action)
	tagging.action = "ec2:CreateTags"
	return []access{plain, tagging}
}

// requestedTags merges the tags that forms request for a kind of resource. Whether that is allowed at all
// is checked elsewhere.
func requestedTags(kind string, forms ...wire.Form) map[string]string {
	tags := map[string]string{}
	for _, f := range forms {
		for _, spec := range slices.Concat(f.List("TagSpecification"), f.List("TagSpecifications")) {
			if spec.String("ResourceType") != kind {
				continue
			}
			for _, tag := range spec.List("Tag") {
				tags[tag.String("Key")] = tag.String("Value")
			}
		}
	}
	return tags
}

// resourceARN is the ARN of a resource of EC2 by its id.
func (e *Emulator) resourceARN(id string) string {
	prefix, _, _ := strings.Cut(id, "-")
	kind := resourceKind(prefix)
	if prefix == "ami" || prefix == "snap" { // of no account, since most are AWS's
		return "arn:aws:ec2:" + e.fixture.Region + "::" + kind + "/" + id
	}
	return e.accountARN("ec2", kind+"/"+id)
}

// resourceKind is the resource type of an id, by what stands before its dash.
func resourceKind(prefix string) string {
	switch prefix {
	case "i":
		return "instance"
	case "subnet":
		return "subnet"
	case "sg":
		return "security-group"
	case "ami":
		return "image"
	case "snap":
		return "snapshot"
	case "lt":
		return "launch-template"
	case "cr":
		return "capacity-reservation"
	case "pg":
		return "placement-group"
	case "vol":
		return "volume"
	case "eni":
		return "network-interface"
	case "sir":
		return "spot-instances-request"
	default:
		return prefix
	}
}

// permitLaunch says what of a launch its caller may not do. The emulator must be locked.
func (e *Emulator) permitLaunch(c *call, pools []*launchPool) error {
	if e.authorityOfKey(c.Key).isUnrestricted() { // skips the checks of hundreds of pools
		return nil
	}
	return e.checkPermissions(c, e.launchAccess(c, pools)...)
}

// launchAccess is what a launch implies: to use what it names, to make instances with all that belongs
// to them, to tag these, and to pass the role of the nodes.
func (e *Emulator) launchAccess(c *call, pools []*launchPool) []access {
	run := access{action: "ec2:RunInstances"}
	var used []string
	var list []access
	templates := map[string]bool{}
	for _, p := range pools {
		used = append(used, e.resourcesUsed(p)...)
		id := ""
		if p.template != nil {
			id = p.template.ID
		}
		if templates[id] { // tags and profile are the template's: the same for all of its pools
			continue
		}
		templates[id] = true
		if p.template != nil {
			a := run
			a.resource = e.accountARN("ec2", "launch-template/"+id)
			list = append(list, a.withTags(keyResourceTag, p.template.Tags))
		}
		kinds := []string{"instance", "volume", "network-interface"}
		if p.market == capacitySpot {
			kinds = append(kinds, "spot-instances-request")
		}
		for _, kind := range kinds {
			list = append(list, e.accessToCreate(c, run, kind, requestedTags(kind, p.data, c.Form))...)
		}
		if profile := p.profileName(); profile != "" {
			list = append(list, e.passRole(e.iamState().Profiles[profile].Role))
		}
	}
	slices.Sort(used)
	for _, resource := range slices.Compact(used) {
		a := run
		a.resource = resource
		list = append(list, a)
	}
	return list
}

// resourcesUsed are the ARNs of what a pool names and does not make.
func (e *Emulator) resourcesUsed(p *launchPool) []string {
	ids := slices.Concat([]string{p.imageID, p.subnetID}, p.data.Strings("SecurityGroupId"))
	if p.imageID == "" {
		ids = append(ids, p.data.String("ImageId"))
	}
	for _, n := range p.data.List("NetworkInterface") {
		ids = append(ids, n.String("SubnetId"))
		ids = append(ids, n.Strings("SecurityGroupId")...)
	}
	ids = append(ids, p.data.String("Placement.GroupId"), p.data.String("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"))
	var list []string
	for _, d := range p.data.List("BlockDeviceMapping") {
		ids = append(ids, d.String("Ebs.SnapshotId"))
	}
	for _, id := range ids {
		if id != "" {
			list = append(list, e.resourceARN(id))
		}
	}
	return list
}

// passRole is to hand a role to EC2.
func (e *Emulator) passRole(name string) access {
	a := access{action: "iam:PassRole"}
	if role, found := e.iamState().Roles[name]; found {
		a.resource = e.accountARN("iam", "role"+role.Path+role.Name)
	}
	return a.withContext(keyPassedTo, "ec2.amazonaws.com")
}

// iamAccess is an action of IAM. What is made with tags is tagged too, which is a right of its own; the tags are those of
// the new resource then.
func (e *Emulator) iamAccess(c *call, plain access) []access {
	tags := tagMembers(c.Form)
	plain = e.onIdentity(c, plain.withRequestTags(tags))
	what, creating := strings.CutPrefix(plain.action, "iam:Create")
	if !creating || len(tags) == 0 {
		return []access{plain}
	}
	tagging := plain.withTags(keyResourceTag, tags)
	tagging.action = "iam:Tag" + what
	return []access{plain, tagging}
}

// onIdentity says which resource of IAM a call is about.
func (e *Emulator) onIdentity(c *call, plain access) access {
	name := c.Form.String("InstanceProfileName")
	switch {
	case name != "":
		profile, found := e.iamState().Profiles[name]
		if !found {
			plain.unsure = []string{keyResourceTag}
			profile.Path = pathOf(c.Form.String("Path"))
		}
		if c.Action == "CreateInstanceProfile" {
			plain.unsure = nil
		}
		plain.resource = e.accountARN("iam", "instance-profile"+profile.Path+name)
		plain = plain.withTags(keyResourceTag, profile.Tags)
	case c.Form.String("RoleName") != "":
		role := e.iamState().Roles[c.Form.String("RoleName")]
		plain.resource = e.accountARN("iam", "role"+pathOf(role.Path)+c.Form.String("RoleName"))
	case c.Form.String("PolicyArn") != "":
		plain.resource = c.Form.String("PolicyArn")
	}
	return plain
}

// tagMembers reads the tags of a call of IAM.
func tagMembers(f wire.Form) map[string]string {
	tags := map[string]string{}
	for _, tag := range f.List("Tags") {
		tags[tag.String("Key")] = tag.String("Value")
	}
	return tags
}

func (e *Emulator) sqsAccess(c *call, plain access) access {
	var in struct {
		QueueName string
		QueueURL  string `json:"QueueUrl"`
	}
	if c.JSON(&in) != nil {
		return plain // the operation says so
	}
	if address, err := url.Parse(in.QueueURL); err == nil && in.QueueURL != "" {
		in.QueueName = address.Path[strings.LastIndex(address.Path, "/")+1:]
	}
	if in.QueueName != "" {
		plain.resource = e.accountARN("sqs", in.QueueName)
	}
	return plain
}

func (e *Emulator) ssmAccess(c *call, plain access) []access {
	var in struct {
		Name, Path string
		Names      []string
	}
	if c.JSON(&in) != nil {
		return []access{plain} // the operation says so
	}
	names := map[string]bool{in.Name: true, in.Path: true}
	for _, name := range in.Names {
		names[name] = true
	}
	delete(names, "")
	var list []access
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a := plain
		a.resource = name
		if !strings.HasPrefix(name, "arn:") {
			a.resource = e.parameterARN(name)
		}
		list = append(list, a)
	}
	if len(list) == 0 {
		return []access{plain}
	}
	return list
}
