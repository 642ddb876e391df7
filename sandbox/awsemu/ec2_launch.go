package awsemu

import (
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// launchOne makes an instance in a pool that has room.
func (e *Emulator) launchOne(c *call, p *launchPool, tags map[string]string, fleet, launch string) *Instance {
	s := e.ec2()
	i := &Instance{
		ID: e.nextID("i-"), Type: p.instanceType, VCPU: p.info.VCPU, ImageID: p.imageID, Architecture: p.image.Architecture, Platform: p.image.Platform,
		Subnet: p.subnetID, VPC: p.subnet.VPC, Zone: p.zone, ZoneID: p.subnet.ZoneID, PrivateIP: p.address, PrivateDNS: e.privateDNS(p.address),
		Addresses: e.addressesPerInstance(), Profile: p.profileName(), CapacityType: p.capacityType(), Lifecycle: p.instanceLifecycle(),
		Tenancy: p.data.String("Placement.Tenancy"), Preference: p.data.String("CapacityReservationSpecification.CapacityReservationPreference"),
		Target: p.data.String("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"),
		Groups: p.groups, Fleet: fleet, ReservationID: launch, UserData: p.data.String("UserData"), Protected: p.data.Bool("DisableApiTermination"),
		Tags: maps.Clone(tags), Launched: c.now, Visible: c.now.Add(e.currentLag("instances")),
	}
	if i.Tenancy == "" {
		i.Tenancy = "default"
	}
	if i.Tags == nil {
		i.Tags = map[string]string{}
	}
	if p.template != nil {
		i.Template = p.template.Name
		i.Tags["aws:ec2launchtemplate:id"], i.Tags["aws:ec2launchtemplate:version"] = p.template.ID, "1"
	}
	if fleet != "" {
		i.Tags["aws:ec2:fleet-id"] = fleet
	}
	if p.market == capacitySpot {
		i.SpotRequest, i.SpotTags = e.nextID("sir-"), requestedTags("spot-instances-request", p.data, c.Form)
	}
	if p.placement != nil {
		i.Placement, i.Partition = p.placement.ID, e.partitionFor(p)
	}
	i.Metadata = p.data.Sub("MetadataOptions").Map()
	i.Interfaces = e.interfacesOf(c, p)
	p.subnet.Free -= i.Addresses
	p.subnet.Cursor++
	if p.reservation != nil {
		p.reservation.Available--
		i.Reservation = p.reservation.ID
		if p.market == marketCapacityBlock && !p.reservation.End.IsZero() {
			i.Interrupt = p.reservation.End.Add(-blockEnd)
		}
	}
	for _, ice := range s.ICE {
		if ice.matches(i.CapacityType, i.Type, i.Zone) {
			ice.Remaining--
		}
	}
	s.Instances[i.ID] = i
	i.RootDevice = p.image.RootDevice
	e.volumesOf(c, p, i)
	e.enterState(c.now, i, statePending, e.scaledDuration(s.Timing.Pending))
	return i
}

// blockEnd is how long before its end a capacity block terminates its instances.
const blockEnd = 30 * time.Minute

func (e *Emulator) privateDNS(address string) string {
	domain := e.fixture.Region + ".compute.internal"
	if e.fixture.Region == "us-east-1" {
		domain = "ec2.internal"
	}
	return "ip-" + strings.ReplaceAll(address, ".", "-") + "." + domain
}

// partitionFor is the partition that was requested, or the emptiest.
func (e *Emulator) partitionFor(p *launchPool) int {
	if n := p.data.Int("Placement.PartitionNumber", 0); n > 0 || p.placement.Strategy != "partition" {
		return n
	}
	inside := map[int]int{}
	for _, i := range e.ec2().Instances {
		if i.holdsResources() && i.Placement == p.placement.ID {
			inside[i.Partition]++
		}
	}
	best := 1
	for n := 2; n <= p.placement.Partitions; n++ {
		if inside[n] < inside[best] {
			best = n
		}
	}
	return best
}

func (e *Emulator) interfacesOf(c *call, p *launchPool) []NetworkInterface {
	var list []NetworkInterface
	tags := requestedTags("network-interface", p.data, c.Form)
	for _, n := range p.data.List("NetworkInterface") {
		one := NetworkInterface{
			ID: e.nextID("eni-"), Type: n.String("InterfaceType"), Subnet: p.subnetID, Card: n.Int("NetworkCardIndex", 0), Device: n.Int("DeviceIndex", 0), Tags: tags,
		}
		if one.Type == "" {
			one.Type = "interface"
		}
		list = append(list, one)
	}
	if len(list) == 0 {
		list = []NetworkInterface{{ID: e.nextID("eni-"), Type: "interface", Subnet: p.subnetID, Tags: tags}}
	}
	return list
}

// launchTags merges the tags that a template and a call give to instances.
func launchTags(data, request wire.Form) (map[string]string, error) {
	tags, err := tagsFor(data, "instance")
	if err != nil {
		return nil, err
	}
	more, err := tagsFor(request, "instance")
	if err != nil {
		return nil, err
	}
	if tags == nil {
		tags = map[string]string{}
	}
	maps.Copy(tags, more)
	if len(tags) > maxTags {
		return nil, tooManyTags()
	}
	return tags, nil
}

type runResponse struct {
	ID        string         `xml:"reservationId"`
	Owner     string         `xml:"ownerId"`
	Instances []instanceItem `xml:"instancesSet>item"`
}

// runInstances launches instances the old way. Unlike with fleets any problem fails the call.
func (e *Emulator) runInstances(c *call) (any, error) {
	p, err := e.poolOfRun(c)
	if err != nil {
		return nil, err
	}
	if err := e.permitLaunch(c, []*launchPool{p}); err != nil {
		return nil, err
	}
	least, most := c.Form.Int("MinCount", 1), c.Form.Int("MaxCount", 1)
	if least < 1 || most < least || most > 1000 {
		return nil, invalidValue("MinCount (%d) must be at least 1 and MaxCount (%d) between it and 1000", least, most)
	}
	tags, err := launchTags(p.data, c.Form)
	if err != nil {
		return nil, err
	}
	if err := e.resolve(c, p); err != nil {
		return nil, err
	}
	if c.Form.Bool("DryRun") {
		return nil, errDryRun()
	}
	if old, err := e.findClientToken(c); err != nil {
		return nil, err
	} else if old != nil && old.Run != nil {
		return old.Run, nil
	}
	if err := e.checkOffered(p); err != nil {
		return nil, err
	}
	launch := e.nextID("r-")
	var made []*Instance
	for range most {
		if err = e.checkPoolCapacity(c, p); err != nil {
			break
		}
		made = append(made, e.launchOne(c, p, tags, "", launch))
	}
	if len(made) < least {
		for _, i := range made { // all or nothing
			for _, id := range i.Volumes {
				delete(e.ec2().Volumes, id)
			}
			e.terminateInstance(c.now, i)
			delete(e.ec2().Instances, i.ID)
			for _, ice := range e.ec2().ICE {
				if ice.matches(i.CapacityType, i.Type, i.Zone) {
					ice.Remaining++
				}
			}
		}
		return nil, err
	}
	response := &runResponse{ID: launch, Owner: e.fixture.Account}
	for _, i := range made {
		response.Instances = append(response.Instances, e.instanceItem(i))
	}
	e.storeClientToken(c, clientToken{Run: response})
	return response, nil
}

// poolOfRun reads the parameters of RunInstances over those of its template.
func (e *Emulator) poolOfRun(c *call) (*launchPool, error) {
	p := &launchPool{version: "1", market: capacityOnDemand}
	values := url.Values{}
	if c.Form.Has("LaunchTemplate") {
		t, err := e.templateOf(c, c.Form.Sub("LaunchTemplate"))
		if err != nil {
			return nil, err
		}
		if version := c.Form.String("LaunchTemplate.Version"); !oneVersion(version) {
			return nil, versionNotFound(version, t)
		}
		p.template = t
		for key, value := range t.Data {
			if head, _, _ := strings.Cut(key, "."); head == "TagSpecification" || !c.Form.Has(head) {
				values.Set(key, value)
			}
		}
		// Interfaces of a call come on top of those of the template and keep their groups.
		for key, value := range t.Data {
			if strings.HasPrefix(key, "NetworkInterface.") && !values.Has(key) {
				values.Set(key, value)
			}
		}
	}
	for key, value := range c.Form.Map() {
		if !strings.HasPrefix(key, "TagSpecification.") {
			values.Set(key, value)
		}
	}
	p.data = wire.NewForm(values)
	p.instanceType, p.zone = p.data.String("InstanceType"), p.data.String("Placement.AvailabilityZone")
	switch market := p.data.String("InstanceMarketOptions.MarketType"); market {
	case "":
	case capacitySpot, marketCapacityBlock:
		p.market = market
	case marketInterruptible:
		p.market = marketReserved
	default:
		return nil, invalidValue("The market type %s is not known", strconv.Quote(market))
	}
	return p, nil
}
