package awsemu

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// EKSState is the cluster, and the zonal shifts that are set for it.
type EKSState struct {
	Cluster Cluster `json:"cluster"`
	Shifts  Shifts  `json:"shifts"`
}

// Cluster is the cluster of the fixture. The network members are for whoever owns the network to fill.
type Cluster struct {
	Name          string    `json:"name"`
	Version       string    `json:"version"`
	Endpoint      string    `json:"endpoint"`
	CA            string    `json:"ca"` // base64
	ServiceCIDR   string    `json:"serviceCIDR"`
	VPC           string    `json:"vpc,omitempty"`
	Subnets       []string  `json:"subnets,omitempty"`
	SecurityGroup string    `json:"securityGroup,omitempty"`
	Created       time.Time `json:"created"`
	// AccessEntries are the names of the roles whose instances may join.
	AccessEntries []string `json:"accessEntries"`
}

func (e *Emulator) registerEKS() {
	e.register(wire.EKS, "DescribeCluster", e.describeCluster)
	e.register(wire.EKS, "ListClusters", e.listClusters)
	e.controls["cluster"] = e.clusterControl()
}

func (e *Emulator) resetEKS(now time.Time) {
	e.model.EKS = &EKSState{
		Shifts: Shifts{Enabled: true},
		Cluster: Cluster{
			Name: e.fixture.Cluster, Version: e.fixture.KubernetesVersion, Endpoint: e.fixture.ClusterEndpoint, CA: e.fixture.ClusterCA,
			ServiceCIDR: "10.100.0.0/16", Created: now, AccessEntries: []string{e.nodeRole(), nodeRolePrefix, seedRoleName},
		},
	}
}

// eks is the state, whole even after a partial import. The emulator must be locked.
func (e *Emulator) eks() *EKSState {
	if e.model.EKS == nil {
		e.model.EKS = &EKSState{}
	}
	return e.model.EKS
}

// MayJoin reports whether a node whose instance has this profile is let into the cluster: the role of
// the profile needs an access entry.
func (e *Emulator) MayJoin(profile string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	role := e.iam().Profiles[profile].Role
	return role != "" && slices.Contains(e.eks().Cluster.AccessEntries, role)
}

func (e *Emulator) clusterARN() string { return e.arn("eks", "cluster/"+e.eks().Cluster.Name) }

func (e *Emulator) describeCluster(c *call) (any, error) {
	cluster, name := e.eks().Cluster, strings.TrimPrefix(c.Path, "/clusters/")
	if name != cluster.Name {
		return nil, wire.Errorf("ResourceNotFoundException", "No cluster found for name: %s.", name)
	}
	type object = map[string]any
	return object{"cluster": object{
		"name": cluster.Name, "arn": e.clusterARN(), "version": cluster.Version, "platformVersion": "eks.1", "status": "ACTIVE",
		"endpoint": cluster.Endpoint, "createdAt": wire.Epoch(cluster.Created), "certificateAuthority": object{"data": cluster.CA},
		"roleArn":                 e.arn("iam", "role/EKSClusterRole-"+cluster.Name),
		"kubernetesNetworkConfig": object{"serviceIpv4Cidr": cluster.ServiceCIDR, "ipFamily": "ipv4"},
		"resourcesVpcConfig": object{
			"vpcId": cluster.VPC, "subnetIds": append([]string{}, cluster.Subnets...), "clusterSecurityGroupId": cluster.SecurityGroup,
			"endpointPublicAccess": true, "endpointPrivateAccess": true,
		},
		"identity":     object{"oidc": object{"issuer": "https://oidc.eks." + e.fixture.Region + ".amazonaws.com/id/" + strings.ToUpper(cluster.Name)}},
		"accessConfig": object{"authenticationMode": "API"}, "tags": object{},
	}}, nil
}

func (e *Emulator) listClusters(*call) (any, error) {
	return map[string]any{"clusters": []string{e.eks().Cluster.Name}}, nil
}

// clusterControl shows and changes the cluster. Absent members stay as they are.
func (e *Emulator) clusterControl() control {
	return control{
		http.MethodGet: func(*controlRequest) (any, error) { return e.eks().Cluster, nil },
		http.MethodPut: func(r *controlRequest) (any, error) {
			changed := e.eks().Cluster
			changed.Subnets, changed.AccessEntries = slices.Clone(changed.Subnets), slices.Clone(changed.AccessEntries)
			if err := r.decode(&changed); err != nil {
				return nil, err
			}
			e.eks().Cluster = changed
			return nil, nil
		},
	}
}
