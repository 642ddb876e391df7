package offering

import (
	"slices"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// fitter says which machines a class can use.
type fitter struct {
	class  *awsv1.EC2NodeClass
	family ami.Family
	group  discover.PlacementGroup
	images discover.Choice
}

func newFitter(class *awsv1.EC2NodeClass, group discover.PlacementGroup) *fitter {
	return &fitter{class: class, family: ami.Of(class.Family()), group: group, images: discover.Choose(class.Status.AMIs)}
}

// whyUnsuited returns why the class cannot launch the machine: no image runs on it, or the class requires something
// that it lacks (EC2NodeClass 13). Empty: it can.
func (f *fitter) whyUnsuited(m *machine, labels reqs.Set) string {
	spec := &f.class.Spec
	switch {
	case spec.ConnectionTracking != nil && m.info.Hypervisor != ec2types.InstanceTypeHypervisorNitro:
		return "spec.connectionTracking needs a machine of the Nitro system"
	case f.nested() && !m.nestedVirtualization():
		return "it does not support spec.cpuOptions.nestedVirtualization"
	case !m.canWear(spec.NetworkInterfaces):
		return "it cannot have spec.networkInterfaces"
	case spec.PlacementGroupSelector != nil && !m.fitsPlacementGroup(f.group.Strategy): // of no strategy until it is found
		return "the placement group does not take it, or is not found yet"
	case slices.Contains(f.family.NotOn, m.family()):
		return f.family.Name + " does not run on " + m.family()
	}
	if _, found := f.images.For(&catalog.InstanceType{Labels: labels}); !found {
		return "no image of spec.amiSelectorTerms runs on architecture " + m.arch
	}
	return ""
}

func (f *fitter) nested() bool {
	options := f.class.Spec.CPUOptions
	return options != nil && options.NestedVirtualization != nil && *options.NestedVirtualization == "enabled"
}

func (m *machine) nestedVirtualization() bool {
	return m.info.ProcessorInfo != nil &&
		slices.Contains(m.info.ProcessorInfo.SupportedFeatures, ec2types.SupportedAdditionalProcessorFeatureNestedVirtualization)
}

// fitsPlacementGroup reports whether a placement group of this strategy takes the machine.
func (m *machine) fitsPlacementGroup(strategy string) bool {
	return m.info.PlacementGroupInfo != nil &&
		slices.Contains(m.info.PlacementGroupInfo.SupportedStrategies, ec2types.PlacementGroupStrategy(strategy))
}

// canWear reports whether the machine has the cards, slots and EFA interfaces for these interfaces.
func (m *machine) canWear(interfaces []awsv1.NetworkInterface) bool {
	if len(interfaces) == 0 {
		return true
	}
	network := m.info.NetworkInfo
	if network == nil || network.EnaSupport == "" || network.EnaSupport == ec2types.EnaSupportUnsupported {
		return false
	}
	slots := map[int64]int64{}
	for _, card := range network.NetworkCards {
		slots[number(card.NetworkCardIndex)] = number(card.MaximumNetworkInterfaces)
	}
	used := map[int64]int64{}
	for _, i := range interfaces {
		card := int64(i.NetworkCardIndex)
		used[card]++
		if most, has := slots[card]; !has || int64(i.DeviceIndex) >= most || used[card] > most {
			return false
		}
	}
	efaOnly, _ := efaOnlyInterfaces(interfaces)
	return efaOnly <= m.efas
}

// efaOnlyInterfaces counts the interfaces that carry no addresses: all, and those of the first card.
func efaOnlyInterfaces(interfaces []awsv1.NetworkInterface) (all, card0 int64) {
	for _, i := range interfaces {
		if i.InterfaceType == "efa-only" {
			all++
			if i.NetworkCardIndex == 0 {
				card0++
			}
		}
	}
	return all, card0
}

// zonesOf are the zones that the subnets of a class are in, with the ids of the zones and subnets.
func zonesOf(subnets []awsv1.Subnet) map[string]*place {
	zones := map[string]*place{}
	for _, s := range subnets {
		p := zones[s.Zone]
		if p == nil {
			p = &place{zone: s.Zone}
			zones[s.Zone] = p
		}
		if p.id == "" {
			p.id = s.ZoneID
		}
		p.subnets = append(p.subnets, s.ID)
	}
	return zones
}

// place is a zone of the region as a class sees it. Without subnets the class cannot use it.
type place struct {
	zone, id string
	subnets  []string
	bit      uint64 // of the zone in machine.zones; 0: EC2 offers nothing there
}
