package awsemu

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// maxOverrides is how many overrides all configurations of a fleet may have together.
const maxOverrides = 300

type fleetResponse struct {
	ID        string          `xml:"fleetId"`
	Errors    []fleetError    `xml:"errorSet>item"`
	Instances []fleetInstance `xml:"fleetInstanceSet>item"`
}

type fleetError struct {
	Pool      fleetPool `xml:"launchTemplateAndOverrides"`
	Lifecycle string    `xml:"lifecycle"`
	Code      string    `xml:"errorCode"`
	Message   string    `xml:"errorMessage"`
}

type fleetInstance struct {
	Pool      fleetPool `xml:"launchTemplateAndOverrides"`
	Lifecycle string    `xml:"lifecycle"`
	IDs       []string  `xml:"instanceIds>item"`
	Type      string    `xml:"instanceType"`
	Platform  string    `xml:"platform,omitempty"`
}

type fleetPool struct {
	Template fleetTemplate `xml:"launchTemplateSpecification"`
	Override fleetOverride `xml:"overrides"`
}

type fleetTemplate struct {
	ID      string `xml:"launchTemplateId"`
	Name    string `xml:"launchTemplateName"`
	Version string `xml:"version"`
}

type fleetOverride struct {
	Type     string `xml:"instanceType"`
	Subnet   string `xml:"subnetId"`
	Zone     string `xml:"availabilityZone"`
	Image    string `xml:"imageId"`
	Priority string `xml:"priority,omitempty"`
}

// createFleet responds after the time that EC2 takes; what it did is done at once.
func (e *Emulator) createFleet(c *call) (any, error) {
	var response *fleetResponse
	var wait Duration
	err := c.runLocked(func(*Model) error {
		var err error
		response, err = e.createFleetInstances(c)
		if wait = e.ec2().Timing.FleetResponse; wait > 0 {
			wait = e.scaledDuration(wait)
		}
		e.notifyChange()
		return err
	})
	if err != nil {
		return nil, err
	}
	if speed := e.clock.Speed(); wait > 0 && speed > 0 {
		reached, stop := e.clock.Until(c.now.Add(time.Duration(wait)))
		defer stop()
		select {
		case <-reached:
		case <-c.gone:
		}
	}
	return response, nil
}

// createFleetInstances does what CreateFleet requests. The emulator must be locked.
func (e *Emulator) createFleetInstances(c *call) (*fleetResponse, error) {
	if kind := c.Form.String("Type"); kind != "instant" {
		return nil, wire.Errorf("InvalidParameter", "Fleets of type '%s' are not emulated; only instant ones are", kind)
	}
	pools, err := e.poolsOfFleet(c)
	if err != nil {
		return nil, err
	}
	target := c.Form.Int("TargetCapacitySpecification.TotalTargetCapacity", 0)
	if target < 1 || target > 10000 {
		return nil, wire.Errorf("InvalidParameter", "The total target capacity must be between 1 and 10000, not '%s'", c.Form.String("TargetCapacitySpecification.TotalTargetCapacity"))
	}
	denied := e.permitLaunch(c, pools)
	if c.Form.Bool("DryRun") {
		if denied != nil {
			return nil, denied
		}
		return nil, errDryRun()
	}
	if old, err := e.findClientToken(c); err != nil {
		return nil, err
	} else if old != nil && old.Fleet != nil {
		return old.Fleet, nil
	}
	if _, err := tagsFor(c.Form, "instance"); err != nil {
		return nil, err
	}
	if denied == nil {
		denied = e.checkFleets()
	}
	response := &fleetResponse{ID: e.nextID("fleet-")}
	run := &fleetRun{emu: e, call: c, response: response, problems: make([]error, len(pools)), pools: pools, left: target}
	run.check(denied)
	run.fillFromPools()
	run.reportErrors()
	e.storeClientToken(c, clientToken{Fleet: response})
	return response, nil
}

// poolsOfFleet reads the overrides of every configuration.
func (e *Emulator) poolsOfFleet(c *call) ([]*launchPool, error) {
	market := c.Form.String("TargetCapacitySpecification.DefaultTargetCapacityType")
	switch market {
	case "":
		market = capacityOnDemand
	case capacityOnDemand, capacitySpot, marketCapacityBlock, marketReserved:
	default:
		return nil, wire.Errorf("InvalidParameter", "The default target capacity type '%s' is not known", market)
	}
	var pools []*launchPool
	for _, config := range c.Form.List("LaunchTemplateConfigs") {
		spec := config.Sub("LaunchTemplateSpecification")
		t, err := e.templateOf(c, spec)
		if err != nil {
			return nil, err
		}
		data, version := t.dataForm(), spec.String("Version")
		if !oneVersion(version) {
			return nil, versionNotFound(version, t)
		}
		for _, o := range config.List("Overrides") {
			pools = append(pools, &launchPool{
				template: t, version: "1", data: data, market: market, instanceType: cmp.Or(o.String("InstanceType"), data.String("InstanceType")),
				subnetID: o.String("SubnetId"), imageID: o.String("ImageId"), zone: o.String("AvailabilityZone"), priority: o.String("Priority"),
			})
		}
	}
	if len(pools) == 0 {
		return nil, wire.Errorf("InvalidParameter", "The launch template configurations must have overrides")
	}
	if len(pools) > maxOverrides {
		return nil, wire.Errorf("InvalidParameter", "%d overrides are more than the %d that are allowed", len(pools), maxOverrides)
	}
	return pools, nil
}

// fleetRun is one CreateFleet at work.
type fleetRun struct {
	emu      *Emulator
	call     *call
	response *fleetResponse
	pools    []*launchPool // in the order of the request
	problems []error       // by pool; nil while it has none
	left     int           // instances that are still to be launched
}

// check finds out which pools cannot be used at all.
func (r *fleetRun) check(denied error) {
	for n, p := range r.pools {
		err := r.emu.resolve(r.call, p) // always: it completes what the response repeats
		if denied != nil {
			err = denied
		}
		if err == nil {
			err = r.emu.checkOffered(p)
		}
		if err == nil {
			err = r.emu.checkPoolCapacity(r.call, p)
		}
		r.problems[n] = err
	}
}

// fillFromPools launches from the best pool until it is full, then from the next.
func (r *fleetRun) fillFromPools() {
	strategy := r.allocationStrategy()
	var skipped []int
	for _, n := range r.rankPools(strategy) {
		p := r.pools[n]
		if r.problems[n] != nil || r.left == 0 {
			continue
		}
		if strategy == "price-capacity-optimized" && slices.ContainsFunc(r.emu.ec2().LowCapacity, func(low CapacityPool) bool {
			return low.matches(p.capacityType(), p.instanceType, p.zone)
		}) {
			skipped = append(skipped, n)
			continue
		}
		r.problems[n] = r.launch(p)
	}
	if r.left > 0 {
		for _, n := range skipped {
			r.problems[n] = wire.Errorf("UnfulfillableCapacity", "Unable to fulfill capacity due to your request configuration. Please adjust your request and try again.")
		}
	}
}

// launch takes what is left from one pool and says why it could not take all.
func (r *fleetRun) launch(p *launchPool) error {
	tags, err := launchTags(p.data, r.call.Form)
	if err != nil {
		return err
	}
	item := fleetInstance{Pool: poolItem(p), Lifecycle: lifecycleItem(p), Type: p.instanceType, Platform: p.image.Platform}
	launch := ""
	for r.left > 0 {
		if err = r.emu.checkPoolCapacity(r.call, p); err != nil {
			break
		}
		if launch == "" {
			launch = r.emu.nextID("r-")
		}
		item.IDs = append(item.IDs, r.emu.launchOne(r.call, p, tags, r.response.ID, launch).ID)
		r.left--
	}
	if len(item.IDs) > 0 {
		r.response.Instances = append(r.response.Instances, item)
	}
	return err
}

func (r *fleetRun) allocationStrategy() string {
	form := r.call.Form
	if r.pools[0].market == capacitySpot {
		return cmp.Or(form.String("SpotOptions.AllocationStrategy"), "lowest-price")
	}
	return cmp.Or(form.String("OnDemandOptions.AllocationStrategy"), "lowest-price")
}

// rankPools ranks pools by price or priority; equal ones stay as they were requested.
func (r *fleetRun) rankPools(strategy string) []int {
	rank := make([]float64, len(r.pools))
	order := make([]int, len(r.pools))
	for n, p := range r.pools {
		order[n] = n
		switch strategy {
		case "prioritized", "capacity-optimized-prioritized":
			priority, err := strconv.ParseFloat(p.priority, 64)
			if err != nil || math.IsNaN(priority) {
				priority = math.MaxFloat64 // none: after all that have one
			}
			rank[n] = priority
		default:
			market := capacityOnDemand
			if p.market == capacitySpot {
				market = capacitySpot
			}
			rank[n], _ = r.emu.price(market, p.instanceType, p.zone, r.call.now)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank[a], rank[b]) })
	return order
}

// reportErrors lists one error for each distinct pool that had one.
func (r *fleetRun) reportErrors() {
	for n, p := range r.pools {
		problem, ok := errors.AsType[*wire.Error](r.problems[n])
		if !ok {
			continue
		}
		item := fleetError{Pool: poolItem(p), Lifecycle: lifecycleItem(p), Code: problem.Code, Message: problem.Message}
		if !slices.Contains(r.response.Errors, item) {
			r.response.Errors = append(r.response.Errors, item)
		}
	}
}

func lifecycleItem(p *launchPool) string {
	if p.market == capacitySpot {
		return capacitySpot
	}
	return capacityOnDemand
}

func poolItem(p *launchPool) fleetPool {
	item := fleetPool{Override: fleetOverride{Type: p.instanceType, Subnet: p.subnetID, Zone: p.zone, Image: p.imageID, Priority: p.priority}}
	if p.template != nil {
		item.Template = fleetTemplate{ID: p.template.ID, Name: p.template.Name, Version: p.version}
	}
	return item
}
