package launch

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

const (
	interfaceEFA     = "efa"
	interfaceEFAOnly = "efa-only"
)

// card is where an interface is attached.
type card struct {
	index, device int32
	kind          string // empty: an ordinary one
}

// cards returns the interfaces of an instance: those of the class, or one for each EFA if the claim requests EFA, or
// one (EC2NodeClass 13).
func cards(class *awsv1.EC2NodeClass, efas int) []card {
	if len(class.Spec.NetworkInterfaces) > 0 {
		var list []card
		for _, n := range class.Spec.NetworkInterfaces {
			list = append(list, card{index: n.NetworkCardIndex, device: n.DeviceIndex, kind: n.InterfaceType})
		}
		return list
	}
	if efas == 0 {
		return []card{{}}
	}
	var list []card
	for i := range int32(efas) {
		list = append(list, card{index: i, device: min(i, 1), kind: interfaceEFA})
	}
	return list
}

// interfaces are the network interfaces of a launch template. Security groups always come with them.
func interfaces(class *awsv1.EC2NodeClass, efas int, ipv6 bool) []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	var groups []string
	for _, g := range class.Status.SecurityGroups {
		groups = append(groups, g.ID)
	}
	all := cards(class, efas)
	var list []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest
	for _, c := range all {
		n := ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{DeviceIndex: new(c.device), Groups: groups}
		if len(all) > 1 || c.kind != "" {
			n.NetworkCardIndex = new(c.index)
		}
		if c.kind != "" {
			n.InterfaceType = new(c.kind)
		}
		if c.kind == interfaceEFAOnly { // has no IP address, so none of the rest
			list = append(list, n)
			continue
		}
		n.AssociatePublicIpAddress = class.Spec.AssociatePublicIPAddress
		n.ConnectionTrackingSpecification = tracking(class.Spec.ConnectionTracking)
		if ipv6 {
			n.PrimaryIpv6, n.Ipv6AddressCount = new(true), new(int32(1))
		}
		if c.index == 0 && c.device == 0 {
			if ipv6 {
				n.Ipv6PrefixCount = class.Spec.IPPrefixCount
			} else {
				n.Ipv4PrefixCount = class.Spec.IPPrefixCount
			}
		}
		list = append(list, n)
	}
	return list
}

func tracking(t *awsv1.ConnectionTracking) *ec2types.ConnectionTrackingSpecificationRequest {
	if t == nil {
		return nil
	}
	return &ec2types.ConnectionTrackingSpecificationRequest{
		TcpEstablishedTimeout: t.TCPEstablishedTimeout, UdpStreamTimeout: t.UDPStreamTimeout, UdpTimeout: t.UDPTimeout,
	}
}
