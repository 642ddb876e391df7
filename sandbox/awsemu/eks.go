package awsemu

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// EKSState is the cluster, and the zonal shifts that are set for it.
type EKSState struct {
	Cluster Cluster `json:"cluster"`
	// Created are the clusters that were made by CreateCluster, by name. There is one API server: all of them are on it.
	Created map[string]*Cluster `json:"created,omitempty"`
	Shifts  Shifts              `json:"shifts"`
	// Associations of pod identity, by id.
	Associations map[string]Association `json:"associations,omitempty"`
}

// Cluster is the cluster of the fixture. The network members are filled by the owner of the network.
type Cluster struct {
	Name          string    `json:"name"`
	Version       string    `json:"version"`
	Endpoint      string    `json:"endpoint"`
	CA            string    `json:"ca"`                     // base64
	ServiceCIDR   string    `json:"serviceCIDR"`            // IPv4
	ServiceCIDR6  string    `json:"serviceCIDR6,omitempty"` // of a cluster with IPv6; it has no other then
	VPC           string    `json:"vpc,omitempty"`
	Subnets       []string  `json:"subnets,omitempty"`
	SecurityGroup string    `json:"securityGroup,omitempty"`
	Created       time.Time `json:"created"`
	// AccessEntries say whose instances may join. The control also takes the name of a role for one.
	AccessEntries []AccessEntry        `json:"accessEntries"`
	Role          string               `json:"role,omitempty"` // ARN; empty is the fixture's
	AuthMode      string               `json:"authMode,omitempty"`
	NotPublic     bool                 `json:"notPublic,omitempty"`  // who may reach the API server; by default everybody
	NotPrivate    bool                 `json:"notPrivate,omitempty"` // may
	Tags          map[string]string    `json:"tags,omitempty"`
	Groups        map[string]NodeGroup `json:"groups,omitempty"` // by name
	Addons        map[string]Addon     `json:"addons,omitempty"` // by name
}

func (e *Emulator) registerEKS() {
	e.register(wire.EKS, "DescribeCluster", e.describeCluster)
	e.register(wire.EKS, "ListClusters", e.listClusters)
	e.registerMutating(wire.EKS, "CreateCluster", e.createCluster)
	e.registerMutating(wire.EKS, "DeleteCluster", e.deleteCluster)
	e.registerNodeGroups()
	e.registerAddons()
	e.registerAccessEntries()
	e.registerPodIdentity()
	e.registerClusterTags()
	e.controls["cluster"] = e.clusterControl()
}

// hasQueue reports whether there is an interruption queue before anybody makes one.
func (f Fixture) hasQueue() bool { return f.Queue != "" && !f.Bare }

// guideRoles are the roles of nodes that guides make.
func (f Fixture) guideRoles() []string {
	if f.Bare {
		return nil
	}
	return []string{nodeRolePrefix + "-" + f.Cluster, nodeRolePrefix, seedRoleName}
}

func (e *Emulator) resetEKS(now time.Time) {
	var entries []AccessEntry
	for _, role := range e.fixture.guideRoles() {
		entries = append(entries, AccessEntry{Principal: e.accountARN("iam", "role/"+role), Type: entryLinux, Created: now})
	}
	e.model.EKS = &EKSState{
		Shifts: Shifts{Enabled: true},
		Cluster: Cluster{
			Name: e.fixture.Cluster, Version: e.fixture.KubernetesVersion, Endpoint: e.fixture.ClusterEndpoint, CA: e.fixture.ClusterCA,
			ServiceCIDR: "10.100.0.0/16", Created: now, AccessEntries: entries,
		},
	}
	if e.fixture.Bare {
		return
	}
	for _, namespace := range []string{"kube-system", "karpenter"} { // guides use either
		e.eksState().addAssociation(stableID("a-", namespace), Association{
			Cluster: e.fixture.Cluster, Namespace: namespace, ServiceAccount: "karpenter", Role: e.accountARN("iam", "role/"+e.controllerRole()), Created: now, Modified: now,
		})
	}
}

// eksState is the state, whole even after a partial import. The emulator must be locked.
func (e *Emulator) eksState() *EKSState {
	if e.model.EKS == nil {
		e.model.EKS = &EKSState{}
	}
	return e.model.EKS
}

func (e *Emulator) clusterARN() string {
	return e.accountARN("eks", "cluster/"+e.eksState().Cluster.Name)
}

// clusterNamed finds the cluster of the fixture, or one that was created.
func (e *Emulator) clusterNamed(name string) (*Cluster, error) {
	if state := e.eksState(); name == state.Cluster.Name {
		return &state.Cluster, nil
	}
	if cluster := e.eksState().Created[name]; cluster != nil {
		return cluster, nil
	}
	return nil, wire.Errorf("ResourceNotFoundException", "No cluster found for name: %s.", name)
}

// allClusters are all there are.
func (e *Emulator) allClusters() []*Cluster {
	list := []*Cluster{&e.eksState().Cluster}
	for _, name := range slices.Sorted(maps.Keys(e.eksState().Created)) {
		list = append(list, e.eksState().Created[name])
	}
	return list
}

func (e *Emulator) describeCluster(c *call) (any, error) {
	cluster, err := e.clusterNamed(strings.TrimPrefix(c.Path, "/clusters/"))
	if err != nil {
		return nil, err
	}
	return e.renderCluster(cluster), nil
}

func (e *Emulator) renderCluster(cluster *Cluster) any {
	type object = map[string]any
	network := object{"serviceIpv4Cidr": cluster.ServiceCIDR, "ipFamily": "ipv4"}
	if cluster.ServiceCIDR6 != "" {
		network = object{"serviceIpv6Cidr": cluster.ServiceCIDR6, "ipFamily": "ipv6"}
	}
	tags := object{}
	for key, value := range cluster.Tags {
		tags[key] = value
	}
	return object{"cluster": object{
		"name": cluster.Name, "arn": e.accountARN("eks", "cluster/"+cluster.Name), "version": cluster.Version, "platformVersion": "eks.1", "status": "ACTIVE",
		"endpoint": cluster.Endpoint, "createdAt": wire.Epoch(cluster.Created), "certificateAuthority": object{"data": cluster.CA},
		"roleArn":                 cmp.Or(cluster.Role, e.accountARN("iam", "role/EKSClusterRole-"+cluster.Name)),
		"kubernetesNetworkConfig": network,
		"resourcesVpcConfig": object{
			"vpcId": cluster.VPC, "subnetIds": append([]string{}, cluster.Subnets...), "clusterSecurityGroupId": cluster.SecurityGroup,
			"endpointPublicAccess": !cluster.NotPublic, "endpointPrivateAccess": !cluster.NotPrivate,
		},
		"identity":     object{"oidc": object{"issuer": Issuer(e.fixture.Region, cluster.Name)}},
		"accessConfig": object{"authenticationMode": cmp.Or(cluster.AuthMode, "API")}, "tags": tags,
	}}
}

// Issuer is who signs the tokens of the service accounts of a cluster. Real ones have random digits in place of the name.
func Issuer(region, cluster string) string {
	return "https://oidc.eks." + region + ".amazonaws.com/id/" + strings.ToUpper(cluster)
}

func (e *Emulator) listClusters(*call) (any, error) {
	names := []string{}
	for _, cluster := range e.allClusters() {
		names = append(names, cluster.Name)
	}
	slices.Sort(names)
	return map[string]any{"clusters": names}, nil
}

// clusterControl shows and changes the cluster. Absent members stay as they are.
func (e *Emulator) clusterControl() control {
	return control{
		http.MethodGet: func(*controlRequest) (any, error) { return e.eksState().Cluster, nil },
		http.MethodPut: func(r *controlRequest) (any, error) {
			changed := e.eksState().Cluster
			changed.Subnets, changed.AccessEntries = slices.Clone(changed.Subnets), cloneEntries(changed.AccessEntries)
			if err := r.decode(&changed); err != nil {
				return nil, err
			}
			for n := range changed.AccessEntries {
				if err := e.completeEntry(r.now, &changed.AccessEntries[n]); err != nil {
					return nil, fmt.Errorf("accessEntries: element %d: %w", n, err)
				}
			}
			e.eksState().Cluster = changed
			return nil, nil
		},
	}
}
