package awsemu

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// NetworkInterface is an interface of an instance.
type NetworkInterface struct {
	ID     string            `json:"id"`
	Type   string            `json:"type"` // interface, efa or efa-only
	Subnet string            `json:"subnet"`
	Card   int               `json:"card,omitempty"`
	Device int               `json:"device,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
}

// interfaceItem is an interface as its instance shows it, and with more as DescribeNetworkInterfaces does.
type interfaceItem struct {
	ID          string           `xml:"networkInterfaceId"`
	Type        string           `xml:"interfaceType"`
	Subnet      string           `xml:"subnetId"`
	VPC         string           `xml:"vpcId"`
	Zone        string           `xml:"availabilityZone,omitempty"`
	Owner       string           `xml:"ownerId"`
	Status      string           `xml:"status"`
	MAC         string           `xml:"macAddress"`
	PrivateIP   string           `xml:"privateIpAddress,omitempty"`
	PrivateDNS  string           `xml:"privateDnsName,omitempty"`
	SourceCheck bool             `xml:"sourceDestCheck"`
	Groups      []groupRef       `xml:"groupSet>item"`
	Attachment  interfaceAttach  `xml:"attachment"`
	Addresses   []privateAddress `xml:"privateIpAddressesSet>item"`
	Tags        []tagItem        `xml:"tagSet>item"`
}

type interfaceAttach struct {
	ID       string `xml:"attachmentId"`
	Instance string `xml:"instanceId,omitempty"`
	Owner    string `xml:"instanceOwnerId,omitempty"`
	Device   int    `xml:"deviceIndex"`
	Card     int    `xml:"networkCardIndex"`
	Status   string `xml:"status"`
	Time     string `xml:"attachTime"`
	Delete   bool   `xml:"deleteOnTermination"`
}

type privateAddress struct {
	IP      string `xml:"privateIpAddress"`
	DNS     string `xml:"privateDnsName"`
	Primary bool   `xml:"primary"`
}

// interfaceItem renders an interface of an instance. Only the first has the address; the others belong to
// the network of pods, of which nothing is emulated.
func (e *Emulator) interfaceItem(i *Instance, n NetworkInterface) interfaceItem {
	sum := sha256.Sum256([]byte(n.ID))
	item := interfaceItem{
		ID: n.ID, Type: n.Type, Subnet: n.Subnet, VPC: i.VPC, Owner: e.fixture.Account, Status: "in-use", SourceCheck: true,
		MAC: fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", sum[0], sum[1], sum[2], sum[3], sum[4]), Groups: e.groupRefs(i.Groups), Tags: tagItems(n.Tags),
		Attachment: interfaceAttach{
			ID: stableID("eni-attach-", n.ID), Device: n.Device, Card: n.Card, Status: "attached", Time: wire.Time(i.Launched), Delete: true,
		},
	}
	if n.ID == i.Interfaces[0].ID {
		item.PrivateIP, item.PrivateDNS = i.PrivateIP, i.PrivateDNS
		item.Addresses = []privateAddress{{IP: i.PrivateIP, DNS: i.PrivateDNS, Primary: true}}
	}
	return item
}

func (e *Emulator) groupRefs(ids []string) []groupRef {
	var refs []groupRef
	for _, id := range ids {
		ref := groupRef{ID: id}
		if g := e.ec2().Groups[id]; g != nil {
			ref.Name = g.Name
		}
		refs = append(refs, ref)
	}
	return refs
}

type interfacesResponse struct {
	Items []interfaceItem `xml:"networkInterfaceSet>item"`
	Next  string          `xml:"nextToken,omitempty"`
}

// attachedInterface is an interface with its instance.
type attachedInterface struct {
	*Instance
	*NetworkInterface
}

// visibleInterfaces are those of all instances that are alive and can be seen.
func (e *Emulator) visibleInterfaces(now time.Time) []attachedInterface {
	var list []attachedInterface
	for _, i := range e.ec2().Instances {
		if !i.holdsResources() || now.Before(i.Visible) {
			continue
		}
		for n := range i.Interfaces {
			list = append(list, attachedInterface{i, &i.Interfaces[n]})
		}
	}
	return list
}

func (e *Emulator) interfaceNamed(c *call, id string) (*NetworkInterface, error) {
	for _, n := range e.visibleInterfaces(c.now) {
		if n.NetworkInterface.ID == id {
			return n.NetworkInterface, nil
		}
	}
	return nil, wire.Errorf("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", id)
}

func (e *Emulator) describeInterfaces(c *call) (any, error) {
	filters, err := ec2Filters(c, "network-interface-id", "interface-type", "subnet-id", "vpc-id", "availability-zone", "status", "group-id",
		"private-ip-address", "private-dns-name", "attachment.instance-id", "attachment.device-index", "attachment.status")
	if err != nil {
		return nil, err
	}
	ids := c.Form.Strings("NetworkInterfaceId")
	for _, id := range ids {
		if _, err := e.interfaceNamed(c, id); err != nil {
			return nil, err
		}
	}
	list := slices.DeleteFunc(e.visibleInterfaces(c.now), func(n attachedInterface) bool {
		item := e.interfaceItem(n.Instance, *n.NetworkInterface)
		return !isSelected(ids, item.ID) || !filters.matchTags(n.NetworkInterface.Tags, map[string]string{
			"network-interface-id": item.ID, "interface-type": item.Type, "subnet-id": item.Subnet, "vpc-id": item.VPC, "availability-zone": n.Zone,
			"status": item.Status, "group-id": strings.Join(n.Groups, "\n"), "private-ip-address": item.PrivateIP, "private-dns-name": item.PrivateDNS,
			"attachment.instance-id": n.Instance.ID, "attachment.device-index": itoa(n.Device), "attachment.status": "attached",
		})
	})
	page, next, err := ec2Page(c, list, func(n attachedInterface) string { return n.NetworkInterface.ID }, 1000, 0)
	response := interfacesResponse{Next: next}
	for _, n := range page {
		item := e.interfaceItem(n.Instance, *n.NetworkInterface)
		item.Zone, item.Attachment.Instance, item.Attachment.Owner = n.Zone, n.Instance.ID, e.fixture.Account
		response.Items = append(response.Items, item)
	}
	return response, err
}
