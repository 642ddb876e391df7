package awsemu

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/catalogue"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Capacity types as ICE pools, prices and views name them.
const (
	capacitySpot     = "spot"
	capacityOnDemand = "on-demand"
	capacityReserved = "reserved"
)

type typesResponse struct {
	Items []typeItem `xml:"instanceTypeSet>item"`
	Next  string     `xml:"nextToken,omitempty"`
}

func (e *Emulator) describeInstanceTypes(c *call) (any, error) {
	filters, err := untaggedFilters(c, "supported-virtualization-type", "processor-info.supported-architecture", "instance-type", "current-generation", "bare-metal", "supported-usage-class", "hypervisor")
	if err != nil {
		return nil, err
	}
	requested := c.Form.Strings("InstanceType")
	if len(requested) > 0 && c.Form.Has("MaxResults") {
		return nil, maxResultsWithIDs("instanceTypes")
	}
	for _, name := range requested {
		if _, known := e.Catalogue().Type(name); !known {
			return nil, wire.Errorf("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
	}
	var list []catalogue.Type
	for _, name := range e.Catalogue().Names() {
		t, known := e.Catalogue().Type(name)
		if known && (len(requested) == 0 || slices.Contains(requested, name)) && filters.matchTags(nil, typeValues(t)) {
			list = append(list, t)
		}
	}
	page, next, err := ec2Page(c, list, func(t catalogue.Type) string { return t.Name }, 100, 100)
	response := typesResponse{Next: next}
	for _, t := range page {
		response.Items = append(response.Items, typeItemOf(t))
	}
	return response, err
}

func typeValues(t catalogue.Type) map[string]string {
	return map[string]string{
		"supported-virtualization-type": "hvm", "processor-info.supported-architecture": strings.Join(t.Arch, "\n"), "instance-type": t.Name,
		"current-generation": strconv.FormatBool(t.CurrentGeneration), "bare-metal": strconv.FormatBool(t.BareMetal),
		"supported-usage-class": strings.Join(usageClasses(t), "\n"), "hypervisor": t.Hypervisor,
	}
}

func usageClasses(t catalogue.Type) []string {
	classes := []string{capacityOnDemand}
	if t.Spot {
		classes = append(classes, capacitySpot)
	}
	if t.CapacityBlocks {
		classes = append(classes, marketCapacityBlock)
	}
	return classes
}

type offeringItem struct {
	Type         string `xml:"instanceType"`
	Location     string `xml:"location"`
	LocationType string `xml:"locationType"`
}

type offeringsResponse struct {
	Items []offeringItem `xml:"instanceTypeOfferingSet>item"`
	Next  string         `xml:"nextToken,omitempty"`
}

func (e *Emulator) describeOfferings(c *call) (any, error) {
	filters, err := untaggedFilters(c, "instance-type", "location")
	if err != nil {
		return nil, err
	}
	kind := c.Form.String("LocationType")
	if kind == "" {
		kind = "region"
	}
	var list []offeringItem
	for _, name := range e.Catalogue().Names() {
		var locations []string
		for i, zone := range e.fixture.Zones {
			if !e.Catalogue().Offered(name, i) {
				continue
			}
			switch kind {
			case "availability-zone":
				locations = append(locations, zone.Name)
			case "availability-zone-id":
				locations = append(locations, zone.ID)
			case "region":
				locations = []string{e.fixture.Region}
			default:
				return nil, wire.Errorf("InvalidParameterValue", "Value (%s) for parameter locationType is invalid.", kind)
			}
		}
		for _, location := range locations {
			if filters.matchTags(nil, map[string]string{"instance-type": name, "location": location}) {
				list = append(list, offeringItem{Type: name, Location: location, LocationType: kind})
			}
		}
	}
	page, next, err := ec2Page(c, list, func(o offeringItem) string { return o.Type + "/" + o.Location }, 1000, 1000)
	return offeringsResponse{Items: page, Next: next}, err
}

type spotPriceItem struct {
	Type    string `xml:"instanceType"`
	Zone    string `xml:"availabilityZone"`
	ZoneID  string `xml:"availabilityZoneId"`
	Price   string `xml:"spotPrice"`
	Product string `xml:"productDescription"`
	Time    string `xml:"timestamp"`
}

type spotPricesResponse struct {
	Items []spotPriceItem `xml:"spotPriceHistorySet>item"`
	Next  string          `xml:"nextToken,omitempty"`
}

// describeSpotPrices returns current prices only: no client here reads older ones.
func (e *Emulator) describeSpotPrices(c *call) (any, error) {
	filters, err := untaggedFilters(c, "instance-type", "availability-zone", "product-description")
	if err != nil {
		return nil, err
	}
	const product = "Linux/UNIX"
	types, products, zoneRequested := c.Form.Strings("InstanceType"), c.Form.Strings("ProductDescription"), c.Form.String("AvailabilityZone")
	if len(products) > 0 && !slices.Contains(products, product) && !slices.Contains(products, product+" (Amazon VPC)") {
		return spotPricesResponse{}, nil
	}
	var list []spotPriceItem
	for _, name := range e.Catalogue().Names() {
		if len(types) > 0 && !slices.Contains(types, name) {
			continue
		}
		for _, zone := range e.fixture.Zones {
			price, offered := e.price(capacitySpot, name, zone.Name, c.now)
			if !offered || zoneRequested != "" && zoneRequested != zone.Name ||
				!filters.matchTags(nil, map[string]string{"instance-type": name, "availability-zone": zone.Name, "product-description": product}) {
				continue
			}
			list = append(list, spotPriceItem{
				Type: name, Zone: zone.Name, ZoneID: zone.ID, Product: product,
				Price: strconv.FormatFloat(price, 'f', 6, 64), Time: wire.Time(c.now.Truncate(time.Minute)),
			})
		}
	}
	page, next, err := ec2Page(c, list, func(i spotPriceItem) string { return i.Type + "/" + i.Zone }, 10000, 1000)
	return spotPricesResponse{Items: page, Next: next}, err
}

// zoneIndex is the place of a zone in the fixture, or -1.
func (e *Emulator) zoneIndex(name string) int {
	return slices.IndexFunc(e.fixture.Zones, func(z Zone) bool { return z.Name == name })
}

// price is what an instance type costs in a zone, in USD per hour; false when it is not offered there.
func (e *Emulator) price(capacityType, instanceType, zone string, now time.Time) (float64, bool) {
	index := e.zoneIndex(zone)
	t, known := e.Catalogue().Type(instanceType)
	if index < 0 || !known || !e.Catalogue().Offered(instanceType, index) || capacityType == capacitySpot && !t.Spot {
		return 0, false
	}
	for _, o := range slices.Backward(e.ec2().PriceOverrides) {
		if o.matches(capacityType, instanceType, zone) {
			return o.Price, true
		}
	}
	if capacityType == capacitySpot {
		return e.Catalogue().Spot(instanceType, index, now)
	}
	return e.Catalogue().OnDemand(instanceType)
}

type zoneItem struct {
	Name     string `xml:"zoneName"`
	ID       string `xml:"zoneId"`
	State    string `xml:"zoneState"`
	Region   string `xml:"regionName"`
	Type     string `xml:"zoneType"`
	OptIn    string `xml:"optInStatus"`
	Group    string `xml:"groupName"`
	Boundary string `xml:"networkBorderGroup"`
}

type zonesResponse struct {
	Items []zoneItem `xml:"availabilityZoneInfo>item"`
}

func (e *Emulator) describeZones(c *call) (any, error) {
	filters, err := untaggedFilters(c, "zone-name", "zone-id", "state", "zone-type", "region-name", "opt-in-status")
	if err != nil {
		return nil, err
	}
	var response zonesResponse
	names, ids := c.Form.Strings("ZoneName"), c.Form.Strings("ZoneId")
	for _, z := range e.fixture.Zones {
		if len(names) > 0 && !slices.Contains(names, z.Name) || len(ids) > 0 && !slices.Contains(ids, z.ID) {
			continue
		}
		if filters.matchTags(nil, map[string]string{
			"zone-name": z.Name, "zone-id": z.ID, "state": "available", "zone-type": "availability-zone",
			"region-name": e.fixture.Region, "opt-in-status": "opt-in-not-required",
		}) {
			response.Items = append(response.Items, zoneItem{
				Name: z.Name, ID: z.ID, State: "available", Region: e.fixture.Region, Type: "availability-zone",
				OptIn: "opt-in-not-required", Group: e.fixture.Region, Boundary: e.fixture.Region,
			})
		}
	}
	return response, nil
}
