package awsemu

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// NodeGroup is a managed node group. It starts no instances: the nodes of the bootstrap group are there without it.
type NodeGroup struct {
	Role           string            `json:"role"` // ARN
	Subnets        []string          `json:"subnets"`
	InstanceTypes  []string          `json:"instanceTypes"`
	CapacityType   string            `json:"capacityType"`
	AMIType        string            `json:"amiType"`
	Scaling        map[string]int    `json:"scaling"` // minSize, maxSize, desiredSize
	Update         map[string]int    `json:"update,omitempty"`
	Taints         []GroupTaint      `json:"taints,omitempty"`
	LaunchTemplate map[string]string `json:"launchTemplate,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Tags           map[string]string `json:"tags,omitempty"`
	Created        time.Time         `json:"created"`
}

// GroupTaint is a taint as EKS spells it: the effect is NO_SCHEDULE, NO_EXECUTE or PREFER_NO_SCHEDULE.
type GroupTaint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// Addon is an add-on of a cluster. It runs nothing.
type Addon struct {
	Version string            `json:"version"`
	Role    string            `json:"role,omitempty"`
	Tags    map[string]string `json:"tags,omitempty"`
	Created time.Time         `json:"created"`
}

var clusterName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)

func invalidEKS(format string, args ...any) error {
	return wire.Errorf("InvalidParameterException", format, args...)
}

// createCluster makes a cluster that is ready at once, on the API server of the fixture's.
func (e *Emulator) createCluster(c *call) (any, error) {
	var in struct {
		Name, Version, RoleArn string
		Tags                   map[string]string
		ResourcesVpcConfig     struct {
			SubnetIDs             []string `json:"subnetIds"`
			EndpointPublicAccess  *bool
			EndpointPrivateAccess *bool
		}
		AccessConfig struct{ AuthenticationMode string }
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if !clusterName.MatchString(in.Name) {
		return nil, invalidEKS("The cluster name %q is not valid", in.Name)
	}
	if _, err := e.clusterNamed(in.Name); err == nil {
		return nil, wire.Errorf("ResourceInUseException", "Cluster already exists with name: %s", in.Name)
	}
	if _, found := e.roleByARN(in.RoleArn); !found {
		return nil, invalidEKS("Role with arn: %s, could not be assumed because it does not exist or the trusted entity is not correct", in.RoleArn)
	}
	vpc := in.ResourcesVpcConfig
	zones := map[string]bool{}
	for _, id := range vpc.SubnetIDs {
		subnet := e.ec2().Subnets[id]
		if subnet == nil {
			return nil, invalidEKS("The subnet ID '%s' does not exist", id)
		}
		zones[subnet.Zone] = true
	}
	if len(zones) < 2 {
		return nil, invalidEKS("Subnets specified must be in at least two different AZs")
	}
	e.addCluster(&Cluster{
		Name: in.Name, Version: cmp.Or(in.Version, e.fixture.KubernetesVersion), Role: in.RoleArn, Tags: in.Tags, Created: c.now, Subnets: vpc.SubnetIDs,
		AuthMode: cmp.Or(in.AccessConfig.AuthenticationMode, "CONFIG_MAP"), NotPublic: vpc.EndpointPublicAccess != nil && !*vpc.EndpointPublicAccess,
		NotPrivate: vpc.EndpointPrivateAccess == nil || !*vpc.EndpointPrivateAccess,
	})
	return e.renderCluster(e.eksState().Created[in.Name]), nil
}

// addCluster gives a cluster its place in the network.
func (e *Emulator) addCluster(cluster *Cluster) {
	cluster.Endpoint, cluster.CA, cluster.VPC, cluster.ServiceCIDR = e.fixture.ClusterEndpoint, e.fixture.ClusterCA, e.ec2().VPC, "10.100.0.0/16"
	group := &SecurityGroup{
		ID: e.nextID("sg-"), Name: "eks-cluster-sg-" + cluster.Name, Description: "EKS created security group", VPC: cluster.VPC,
		Tags: map[string]string{"aws:eks:cluster-name": cluster.Name, "kubernetes.io/cluster/" + cluster.Name: "owned"},
	}
	e.ec2().Groups[group.ID] = group
	cluster.SecurityGroup = group.ID
	if e.eksState().Created == nil {
		e.eksState().Created = map[string]*Cluster{}
	}
	e.eksState().Created[cluster.Name] = cluster
}

func (e *Emulator) deleteCluster(c *call) (any, error) {
	cluster, err := e.clusterNamed(strings.TrimPrefix(c.Path, "/clusters/"))
	if err != nil {
		return nil, err
	}
	if len(cluster.Groups) > 0 || cluster.Name == e.eksState().Cluster.Name { // the fixture's has its bootstrap group
		return nil, wire.Errorf("ResourceInUseException", "Cluster has nodegroups attached")
	}
	result := e.renderCluster(cluster)
	delete(e.ec2().Groups, cluster.SecurityGroup)
	delete(e.eksState().Created, cluster.Name)
	maps.DeleteFunc(e.eksState().Associations, func(_ string, a Association) bool { return a.Cluster == cluster.Name })
	return result, nil
}

// clusterPart reads a path such as /clusters/name/node-groups/group.
func (e *Emulator) clusterPart(c *call, kind string) (cluster *Cluster, name string, err error) {
	of, rest, _ := strings.Cut(strings.TrimPrefix(c.Path, "/clusters/"), "/")
	if cluster, err = e.clusterNamed(of); err != nil {
		return nil, "", err
	}
	name, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(rest, kind), "/"), "/")
	return cluster, name, nil
}

func (e *Emulator) registerNodeGroups() {
	e.register(wire.EKS, "DescribeNodegroup", e.describeNodeGroup)
	e.register(wire.EKS, "ListNodegroups", e.listNodeGroups)
	e.registerMutating(wire.EKS, "CreateNodegroup", e.createNodeGroup)
	e.registerMutating(wire.EKS, "UpdateNodegroupConfig", e.updateNodeGroup)
	e.registerMutating(wire.EKS, "DeleteNodegroup", e.deleteNodeGroup)
}

func (e *Emulator) groupARN(cluster *Cluster, name string) string {
	return e.accountARN("eks", "nodegroup/"+cluster.Name+"/"+name+"/"+stableID("", cluster.Name+"/"+name))
}

func (e *Emulator) findNodeGroup(c *call) (cluster *Cluster, name string, group NodeGroup, err error) {
	cluster, name, err = e.clusterPart(c, "node-groups")
	if err != nil {
		return nil, "", group, err
	}
	group, found := cluster.Groups[name]
	if !found {
		return nil, "", group, wire.Errorf("ResourceNotFoundException", "No node group found for name: %s.", name)
	}
	return cluster, name, group, nil
}

func (e *Emulator) renderNodeGroup(cluster *Cluster, name string, g NodeGroup) any {
	return map[string]any{"nodegroup": map[string]any{
		"nodegroupName": name, "clusterName": cluster.Name, "nodegroupArn": e.groupARN(cluster, name), "status": "ACTIVE", "version": cluster.Version,
		"nodeRole": g.Role, "subnets": g.Subnets, "instanceTypes": g.InstanceTypes, "capacityType": g.CapacityType, "amiType": g.AMIType, "scalingConfig": g.Scaling,
		"updateConfig": g.Update, "taints": g.Taints, "launchTemplate": g.LaunchTemplate, "labels": g.Labels, "tags": g.Tags, "createdAt": wire.Epoch(g.Created),
	}}
}

func (e *Emulator) describeNodeGroup(c *call) (any, error) {
	cluster, name, group, err := e.findNodeGroup(c)
	if err != nil {
		return nil, err
	}
	return e.renderNodeGroup(cluster, name, group), nil
}

func (e *Emulator) listNodeGroups(c *call) (any, error) {
	cluster, _, err := e.clusterPart(c, "node-groups")
	if err != nil {
		return nil, err
	}
	return map[string]any{"nodegroups": append([]string{}, slices.Sorted(maps.Keys(cluster.Groups))...)}, nil
}

func validScaling(scaling map[string]int) error {
	if least, most, desired := scaling["minSize"], scaling["maxSize"], scaling["desiredSize"]; least < 0 || most < 1 || desired < least || desired > most {
		return invalidEKS("Minimum capacity %d, desired capacity %d and maximum capacity %d must be in this order", least, desired, most)
	}
	return nil
}

func (e *Emulator) createNodeGroup(c *call) (any, error) {
	cluster, _, err := e.clusterPart(c, "node-groups")
	if err != nil {
		return nil, err
	}
	var in struct {
		NodegroupName, NodeRole, CapacityType, AmiType string
		Subnets, InstanceTypes                         []string
		ScalingConfig, UpdateConfig                    map[string]int
		Taints                                         []GroupTaint
		LaunchTemplate, Labels, Tags                   map[string]string
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if _, found := cluster.Groups[in.NodegroupName]; found {
		return nil, wire.Errorf("ResourceInUseException", "NodeGroup already exists with name %s and cluster name %s", in.NodegroupName, cluster.Name)
	}
	if _, found := e.roleByARN(in.NodeRole); !found {
		return nil, invalidEKS("The role with name %s cannot be found", in.NodeRole)
	}
	if in.ScalingConfig == nil {
		in.ScalingConfig = map[string]int{"minSize": 1, "maxSize": 2, "desiredSize": 2}
	}
	if err := validScaling(in.ScalingConfig); err != nil {
		return nil, err
	}
	for _, taint := range in.Taints {
		if !slices.Contains([]string{"NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE"}, taint.Effect) {
			return nil, invalidEKS("The taint effect %q is not known", taint.Effect)
		}
	}
	if len(in.InstanceTypes) == 0 {
		in.InstanceTypes = []string{"t3.medium"}
	}
	for _, id := range in.InstanceTypes {
		if _, found := e.catalogue.Load().Type(id); !found {
			return nil, invalidEKS("The following supplied instance types do not exist: [%s]", id)
		}
	}
	group := NodeGroup{
		Role: in.NodeRole, Subnets: in.Subnets, InstanceTypes: in.InstanceTypes, CapacityType: cmp.Or(in.CapacityType, "ON_DEMAND"), AMIType: cmp.Or(in.AmiType, "AL2023_x86_64_STANDARD"),
		Scaling: in.ScalingConfig, Update: in.UpdateConfig, Taints: in.Taints, LaunchTemplate: in.LaunchTemplate, Labels: in.Labels, Tags: in.Tags, Created: c.now,
	}
	if cluster.Groups == nil {
		cluster.Groups = map[string]NodeGroup{}
	}
	cluster.Groups[in.NodegroupName] = group
	// EKS lets the nodes of its own groups in.
	if !slices.ContainsFunc(cluster.AccessEntries, func(a AccessEntry) bool { return a.Principal == group.Role }) {
		cluster.AccessEntries = append(cluster.AccessEntries, AccessEntry{Principal: group.Role, Type: entryLinux, Created: c.now})
	}
	return e.renderNodeGroup(cluster, in.NodegroupName, group), nil
}

func (e *Emulator) updateNodeGroup(c *call) (any, error) {
	cluster, name, group, err := e.findNodeGroup(c)
	if err != nil {
		return nil, err
	}
	var in struct{ ScalingConfig map[string]int }
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if in.ScalingConfig != nil {
		scaling := maps.Clone(group.Scaling)
		maps.Copy(scaling, in.ScalingConfig)
		if err := validScaling(scaling); err != nil {
			return nil, err
		}
		group.Scaling = scaling
	}
	cluster.Groups[name] = group
	return map[string]any{"update": map[string]any{"id": e.nextID(""), "status": "Successful", "type": "ConfigUpdate"}}, nil
}

func (e *Emulator) deleteNodeGroup(c *call) (any, error) {
	cluster, name, group, err := e.findNodeGroup(c)
	if err != nil {
		return nil, err
	}
	delete(cluster.Groups, name)
	for _, other := range cluster.Groups {
		if other.Role == group.Role {
			return e.renderNodeGroup(cluster, name, group), nil
		}
	}
	cluster.AccessEntries = slices.DeleteFunc(slices.Clone(cluster.AccessEntries), func(a AccessEntry) bool { return a.Principal == group.Role })
	return e.renderNodeGroup(cluster, name, group), nil
}

func (e *Emulator) registerAddons() {
	e.register(wire.EKS, "DescribeAddon", e.describeAddon)
	e.register(wire.EKS, "ListAddons", e.listAddons)
	e.registerMutating(wire.EKS, "CreateAddon", e.createAddon)
	e.registerMutating(wire.EKS, "UpdateAddon", e.updateAddon)
	e.registerMutating(wire.EKS, "DeleteAddon", e.deleteAddon)
}

func (e *Emulator) addonARN(cluster *Cluster, name string) string {
	return e.accountARN("eks", "addon/"+cluster.Name+"/"+name+"/"+stableID("", cluster.Name+"/"+name))
}

func (e *Emulator) findAddon(c *call) (cluster *Cluster, name string, addon Addon, err error) {
	cluster, name, err = e.clusterPart(c, "addons")
	if err != nil {
		return nil, "", addon, err
	}
	addon, found := cluster.Addons[name]
	if !found {
		return nil, "", addon, wire.Errorf("ResourceNotFoundException", "No addon: %s found in cluster: %s", name, cluster.Name)
	}
	return cluster, name, addon, nil
}

func (e *Emulator) renderAddon(cluster *Cluster, name string, a Addon) any {
	return map[string]any{"addon": map[string]any{
		"addonName": name, "clusterName": cluster.Name, "addonArn": e.addonARN(cluster, name), "addonVersion": a.Version, "status": "ACTIVE", "tags": a.Tags,
		"serviceAccountRoleArn": a.Role, "createdAt": wire.Epoch(a.Created),
	}}
}

func (e *Emulator) describeAddon(c *call) (any, error) {
	cluster, name, addon, err := e.findAddon(c)
	if err != nil {
		return nil, err
	}
	return e.renderAddon(cluster, name, addon), nil
}

func (e *Emulator) listAddons(c *call) (any, error) {
	cluster, _, err := e.clusterPart(c, "addons")
	if err != nil {
		return nil, err
	}
	return map[string]any{"addons": append([]string{}, slices.Sorted(maps.Keys(cluster.Addons))...)}, nil
}

func (e *Emulator) createAddon(c *call) (any, error) {
	cluster, _, err := e.clusterPart(c, "addons")
	if err != nil {
		return nil, err
	}
	var in struct {
		AddonName, AddonVersion, ServiceAccountRoleArn string
		Tags                                           map[string]string
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"vpc-cni", "coredns", "kube-proxy", "eks-pod-identity-agent", "aws-ebs-csi-driver", "metrics-server"}, in.AddonName) {
		return nil, invalidEKS("Addon %s specified is not supported", in.AddonName)
	}
	if _, found := cluster.Addons[in.AddonName]; found {
		return nil, wire.Errorf("ResourceInUseException", "Addon already exists.")
	}
	addon := Addon{Version: cmp.Or(in.AddonVersion, "v1.0.0-eksbuild.1"), Role: in.ServiceAccountRoleArn, Tags: in.Tags, Created: c.now}
	if cluster.Addons == nil {
		cluster.Addons = map[string]Addon{}
	}
	cluster.Addons[in.AddonName] = addon
	return e.renderAddon(cluster, in.AddonName, addon), nil
}

func (e *Emulator) updateAddon(c *call) (any, error) {
	cluster, name, addon, err := e.findAddon(c)
	if err != nil {
		return nil, err
	}
	var in struct{ AddonVersion, ServiceAccountRoleArn string }
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	addon.Version, addon.Role = cmp.Or(in.AddonVersion, addon.Version), cmp.Or(in.ServiceAccountRoleArn, addon.Role)
	cluster.Addons[name] = addon
	return map[string]any{"update": map[string]any{"id": e.nextID(""), "status": "Successful", "type": "AddonUpdate"}}, nil
}

func (e *Emulator) deleteAddon(c *call) (any, error) {
	cluster, name, addon, err := e.findAddon(c)
	if err != nil {
		return nil, err
	}
	delete(cluster.Addons, name)
	return e.renderAddon(cluster, name, addon), nil
}
