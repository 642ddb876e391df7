package awsemu

import (
	"fmt"
	"maps"
	"time"
)

// resetEC2 brings the network, the images and the reservations of the fixture back.
func (e *Emulator) resetEC2(now time.Time) {
	s := newEC2State()
	e.model.EC2 = s
	e.buildCatalogue()
	s.VPC = stableID("vpc-", "sandbox")
	discovery := map[string]string{"karpenter.sh/discovery": e.fixture.Cluster}
	for i, zone := range e.fixture.Zones {
		subnet := &Subnet{
			ID: stableID("subnet-", "private/"+zone.Name), VPC: s.VPC, Zone: zone.Name, ZoneID: zone.ID, Free: 250,
			CIDR: fmt.Sprintf("10.%d.0.0/16", i%256),
			Tags: map[string]string{"Name": e.fixture.Cluster + "-private-" + zone.Name, "kubernetes.io/role/internal-elb": "1"},
		}
		maps.Copy(subnet.Tags, discovery)
		s.Subnets[subnet.ID] = subnet
	}
	for _, group := range e.fixtureGroups() {
		s.Groups[group.ID] = group
	}
	s.Images = e.fixtureImages(now)
	for _, r := range e.fixtureReservations(now) {
		s.Reservations[r.ID] = r
	}
	placement := &PlacementGroup{
		ID: stableID("pg-", "partitions"), Name: e.fixture.Cluster + "-partitions", Strategy: "partition", Partitions: 3, State: "available",
		Tags: map[string]string{"Name": e.fixture.Cluster + "-partitions"},
	}
	s.Placements[placement.ID] = placement
}

// fixtureGroups is the group that EKS makes for a cluster, and that of its nodes. Both carry the tag that a
// node class selects by, as after the installation guides.
func (e *Emulator) fixtureGroups() []*SecurityGroup {
	discovery, vpc := map[string]string{"karpenter.sh/discovery": e.fixture.Cluster}, e.ec2().VPC
	ofCluster := maps.Clone(discovery)
	ofCluster["aws:eks:cluster-name"], ofCluster["kubernetes.io/cluster/"+e.fixture.Cluster] = e.fixture.Cluster, "owned"
	return []*SecurityGroup{
		{ID: stableID("sg-", "nodes"), Name: e.fixture.Cluster + "-nodes", Description: "Nodes of the cluster", VPC: vpc, Tags: discovery},
		{ID: stableID("sg-", "cluster"), Name: "eks-cluster-sg-" + e.fixture.Cluster, Description: "EKS created security group", VPC: vpc, Tags: ofCluster},
	}
}

// fixtureReservations is one reservation that must be named to be used, and one that is over.
func (e *Emulator) fixtureReservations(now time.Time) []*CapacityReservation {
	if len(e.fixture.Zones) == 0 {
		return nil
	}
	zone := e.fixture.Zones[0].Name
	tags := func(name string) map[string]string {
		return map[string]string{"Name": e.fixture.Cluster + "-" + name, "karpenter.sh/discovery": e.fixture.Cluster}
	}
	return []*CapacityReservation{
		{
			ID: stableID("cr-", "targeted"), InstanceType: "m5.large", Zone: zone, Owner: e.fixture.Account, Total: 3, Available: 3,
			Match: "targeted", Type: "default", State: "active", Tags: tags("targeted"),
		},
		{
			ID: stableID("cr-", "expired"), InstanceType: "c5.xlarge", Zone: zone, Owner: e.fixture.Account, Total: 2,
			Match: "targeted", Type: "default", State: "expired", End: now.Add(-24 * time.Hour), Tags: tags("expired"),
		},
	}
}
