package awsemu

import (
	"encoding/json"
	"maps"
	"time"
)

// EC2State is everything that EC2 keeps. It survives JSON; maps are by id unless said otherwise.
type EC2State struct {
	VPC            string                          `json:"vpc"`
	Subnets        map[string]*Subnet              `json:"subnets"`
	Groups         map[string]*SecurityGroup       `json:"groups"`
	Images         map[string]*Image               `json:"images"`
	Templates      map[string]*LaunchTemplate      `json:"templates"`
	Instances      map[string]*Instance            `json:"instances"`
	Volumes        map[string]*Volume              `json:"volumes"`
	Reservations   map[string]*CapacityReservation `json:"reservations"`
	Placements     map[string]*PlacementGroup      `json:"placementGroups"`
	Tokens         map[string]*clientToken         `json:"tokens"` // by action and token
	ICE            []*ICEPool                      `json:"ice"`
	Quotas         EC2Quotas                       `json:"quotas"`
	LowCapacity    []CapacityPool                  `json:"lowCapacity"`
	PriceOverrides []PriceOverride                 `json:"prices"`
	StatusChecks   map[string]*StatusCheck         `json:"statusChecks"`
	Timing         EC2Timing                       `json:"timing"`
	Types          map[string]*TypeOffer           `json:"types,omitempty"` // by name: how the catalogue differs from the embedded one
}

// Subnet is a subnet and what is left of it.
type Subnet struct {
	ID          string            `json:"id"`
	VPC         string            `json:"vpc"`
	Zone        string            `json:"zone"`
	ZoneID      string            `json:"zoneID"`
	CIDR        string            `json:"cidr"`
	Free        int               `json:"free"` // addresses that can still be taken
	MapPublicIP bool              `json:"mapPublicIP,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
	Cursor      int               `json:"cursor,omitempty"` // last address handed out, as an offset
}

// SecurityGroup is a security group; its rules have no effect here.
type SecurityGroup struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	VPC         string            `json:"vpc"`
	Tags        map[string]string `json:"tags,omitempty"`
	// Rules by id.
	Rules map[string]*GroupRule `json:"rules,omitempty"`
}

// Image is a machine image.
type Image struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Architecture string            `json:"architecture"` // x86_64 or arm64
	Platform     string            `json:"platform,omitempty"`
	Owner        string            `json:"owner"`
	OwnerAlias   string            `json:"ownerAlias,omitempty"`
	State        string            `json:"state"`
	RootDevice   string            `json:"rootDevice"`
	Devices      []ImageDevice     `json:"devices,omitempty"` // none: a root volume of the usual size
	Created      time.Time         `json:"created"`
	Deprecated   time.Time         `json:"deprecated,omitzero"` // from then on; zero means never
	Tags         map[string]string `json:"tags,omitempty"`
}

// LaunchTemplate is a launch template with one version.
type LaunchTemplate struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Created time.Time         `json:"created"`
	Visible time.Time         `json:"visible"` // describes and launches lag behind
	Data    map[string]string `json:"data"`    // every key below LaunchTemplateData, as it was sent
	Tags    map[string]string `json:"tags,omitempty"`
}

// PlacementGroup is a placement group.
type PlacementGroup struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Strategy   string            `json:"strategy"` // cluster, spread or partition
	Partitions int               `json:"partitions,omitempty"`
	Spread     string            `json:"spread,omitempty"` // rack or host
	State      string            `json:"state"`
	Tags       map[string]string `json:"tags,omitempty"`
}

// CapacityPool names offerings. Empty members and * match all.
type CapacityPool struct {
	CapacityType string `json:"capacityType,omitempty"` // spot, on-demand or reserved
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
}

// matches reports whether an offering is one of the pool.
func (p CapacityPool) matches(capacityType, instanceType, zone string) bool {
	covers := func(pattern, value string) bool { return pattern == "" || ec2Wildcard(pattern, value) }
	return covers(p.CapacityType, capacityType) && covers(p.InstanceType, instanceType) && covers(p.Zone, zone)
}

// ICEPool limits how much capacity a pool still has.
type ICEPool struct {
	CapacityPool
	Remaining int       `json:"remaining"`
	Code      string    `json:"code,omitempty"`    // of the error; empty: InsufficientInstanceCapacity
	Message   string    `json:"message,omitempty"` // of the error
	Expires   time.Time `json:"expires,omitzero"`  // zero: until it is removed
}

// EC2Quotas are limits of the account; nil means none.
type EC2Quotas struct {
	SpotVCPU     *int `json:"spotVCPU"`
	OnDemandVCPU *int `json:"onDemandVCPU"`
	Fleets       *int `json:"fleets"` // with instances that are alive
}

// PriceOverride sets a price; the last one that matches counts.
type PriceOverride struct {
	CapacityPool
	Price float64 `json:"price"` // USD per hour
}

// StatusCheck is what DescribeInstanceStatus says about an instance instead of ok.
type StatusCheck struct {
	Instance      string           `json:"instance,omitempty"` // empty means ok
	System        string           `json:"system,omitempty"`
	AttachedEBS   string           `json:"attachedEBS,omitempty"`
	ImpairedSince time.Time        `json:"impairedSince,omitzero"`
	Events        []ScheduledEvent `json:"events,omitempty"`
}

// ScheduledEvent is maintenance that EC2 announces for an instance.
type ScheduledEvent struct {
	Code        string    `json:"code"` // such as instance-retirement
	Description string    `json:"description,omitempty"`
	NotBefore   time.Time `json:"notBefore,omitzero"`
	NotAfter    time.Time `json:"notAfter,omitzero"`
}

// EC2Timing is how long things take, at speed 1.
type EC2Timing struct {
	FleetResponse Duration `json:"fleetResponse"` // of CreateFleet; not waited for while the clock stands still
	Pending       Duration `json:"pending"`       // until running
	ShuttingDown  Duration `json:"shuttingDown"`  // until terminated, and stopping until stopped
	Terminated    Duration `json:"terminated"`    // until gone, in real time at any speed: affects only lookups
	Notice        Duration `json:"notice"`        // between an interruption warning and its end
	WarmAddresses int      `json:"warmAddresses"` // that an instance takes from its subnet besides its own
}

func newEC2Timing() EC2Timing {
	return EC2Timing{
		FleetResponse: Duration(200 * time.Millisecond), Pending: Duration(5 * time.Second), ShuttingDown: Duration(10 * time.Second),
		Terminated: Duration(time.Hour), Notice: Duration(2 * time.Minute),
	}
}

func newEC2State() *EC2State {
	s := &EC2State{Timing: newEC2Timing()}
	s.fillMissing()
	return s
}

// UnmarshalJSON reads a state and repairs what would not be safe to use.
func (s *EC2State) UnmarshalJSON(data []byte) error {
	type plain EC2State
	p := plain{Timing: newEC2Timing()}
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	*s = EC2State(p)
	s.fillMissing()
	return nil
}

// fillMissing makes absent maps and drops absent elements.
func (s *EC2State) fillMissing() {
	fillMap(&s.Subnets)
	fillMap(&s.Groups)
	fillMap(&s.Images)
	fillMap(&s.Templates)
	fillMap(&s.Instances)
	fillMap(&s.Volumes)
	fillMap(&s.Reservations)
	fillMap(&s.Placements)
	fillMap(&s.Tokens)
	fillMap(&s.StatusChecks)
	fillMap(&s.Types)
	var ice []*ICEPool
	for _, pool := range s.ICE {
		if pool != nil {
			ice = append(ice, pool)
		}
	}
	s.ICE = ice
}

func fillMap[T any](m *map[string]*T) {
	if *m == nil {
		*m = map[string]*T{}
	}
	maps.DeleteFunc(*m, func(_ string, v *T) bool { return v == nil })
}

// ec2 is the part of the model that EC2 owns; the emulator must be locked.
func (e *Emulator) ec2() *EC2State {
	if e.model.EC2 == nil {
		e.model.EC2 = newEC2State()
	}
	return e.model.EC2
}
