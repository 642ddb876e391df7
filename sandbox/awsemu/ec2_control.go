package awsemu

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// registerEC2Controls adds the controls that hold data of EC2.
func (e *Emulator) registerEC2Controls() {
	e.controls["ice"] = control{
		http.MethodGet:    func(*controlRequest) (any, error) { return e.ec2().ICE, nil },
		http.MethodPost:   e.addICE,
		http.MethodDelete: e.removeICE,
	}
	e.controls["quota"] = mergingControl(func() *EC2Quotas { return &e.ec2().Quotas }, checkQuotas)
	e.controls["timing"] = mergingControl(func() *EC2Timing { return &e.ec2().Timing }, checkTiming)
	e.controls["low-capacity"] = mergingControl(func() *[]CapacityPool { return &e.ec2().LowCapacity }, nil)
	e.controls["prices"] = mergingControl(func() *[]PriceOverride { return &e.ec2().PriceOverrides }, checkPrices)
	e.controls["images"] = collectionControl(func() map[string]*Image { return e.ec2().Images }, e.completeImage)
	e.controls["subnets"] = collectionControl(func() map[string]*Subnet { return e.ec2().Subnets }, e.completeSubnet)
	e.controls["groups"] = collectionControl(func() map[string]*SecurityGroup { return e.ec2().Groups }, func(g *SecurityGroup, id string, _ time.Time) error {
		setDefault(&g.ID, id)
		setDefault(&g.Name, id)
		setDefault(&g.VPC, e.ec2().VPC)
		return nil
	})
	e.controls["reservations"] = collectionControl(func() map[string]*CapacityReservation { return e.ec2().Reservations }, e.completeReservation)
	e.controls["placement-groups"] = collectionControl(func() map[string]*PlacementGroup { return e.ec2().Placements }, completePlacement)
	templates := collectionControl(func() map[string]*LaunchTemplate { return e.ec2().Templates }, nil)
	delete(templates, http.MethodPut) // the API makes them
	e.controls["launch-templates"] = templates
	e.controls["catalogue"] = e.catalogueControl()
	e.controls["instances"] = control{http.MethodGet: e.showInstances}
}

// mergingControl is a control that shows a value and changes the members that are sent; a list is replaced. A
// value that does not pass the check changes nothing.
func mergingControl[T any](value func() *T, check func(*T) error) control {
	return control{
		http.MethodGet: func(*controlRequest) (any, error) { return value(), nil },
		http.MethodPut: func(r *controlRequest) (any, error) {
			var next T
			if strings.HasPrefix(strings.TrimSpace(string(r.body)), "{") {
				if err := copyDeep(&next, value()); err != nil {
					return nil, err
				}
			}
			if err := r.decode(&next); err != nil {
				return nil, err
			}
			if check != nil {
				if err := check(&next); err != nil {
					return nil, err
				}
			}
			*value() = next
			return nil, nil
		},
	}
}

// copyDeep copies a value that survives JSON, so that the copy shares nothing with it.
func copyDeep[T any](into, from *T) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// collectionControl is a control over things by id: GET shows all or one, PUT takes a list in which each
// element changes the one with its id or adds it, DELETE takes the id as path.
func collectionControl[T any](items func() map[string]*T, complete func(item *T, id string, now time.Time) error) control {
	return control{
		http.MethodGet: func(r *controlRequest) (any, error) {
			if r.rest == "" {
				return items(), nil
			}
			if item := items()[r.rest]; item != nil {
				return item, nil
			}
			return nil, fmt.Errorf("there is no %q", r.rest)
		},
		http.MethodPut: func(r *controlRequest) (any, error) {
			var list []json.RawMessage
			if err := r.decode(&list); err != nil {
				return nil, err
			}
			changed := map[string]*T{}
			for n, raw := range list {
				id, item, err := decodeItem(items(), raw)
				if err == nil {
					err = complete(item, id, r.now)
				}
				if err != nil {
					return nil, fmt.Errorf("element %d: %w", n, err)
				}
				changed[id] = item
			}
			maps.Copy(items(), changed)
			return nil, nil
		},
		http.MethodDelete: func(r *controlRequest) (any, error) {
			if items()[r.rest] == nil {
				return nil, fmt.Errorf("there is no %q", r.rest)
			}
			delete(items(), r.rest)
			return nil, nil
		},
	}
}

// decodeItem reads an element onto a copy of the one that has its id.
func decodeItem[T any](items map[string]*T, raw json.RawMessage) (string, *T, error) {
	var key struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &key); err != nil {
		return "", nil, err
	}
	if key.ID == "" {
		return "", nil, fmt.Errorf("id: is required")
	}
	item := new(T)
	if old := items[key.ID]; old != nil {
		if err := copyDeep(item, old); err != nil {
			return "", nil, err
		}
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	return key.ID, item, decoder.Decode(item)
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

func (e *Emulator) completeImage(i *Image, id string, now time.Time) error {
	i.ID = id
	setDefault(&i.Name, id)
	setDefault(&i.Architecture, "x86_64")
	setDefault(&i.Owner, e.fixture.Account)
	setDefault(&i.State, "available")
	setDefault(&i.RootDevice, "/dev/xvda")
	if i.Created.IsZero() {
		i.Created = now
	}
	return nil
}

func (e *Emulator) completeSubnet(s *Subnet, id string, _ time.Time) error {
	s.ID = id
	setDefault(&s.VPC, e.ec2().VPC)
	setDefault(&s.CIDR, fmt.Sprintf("10.%d.0.0/16", 100+len(e.ec2().Subnets)%100))
	if prefix, err := netip.ParsePrefix(s.CIDR); err != nil || !prefix.Addr().Is4() || prefix.Bits() < 8 || prefix.Bits() > 28 {
		return fmt.Errorf("cidr: want an IPv4 network between /8 and /28, not %q", s.CIDR)
	}
	index := e.zoneIndex(s.Zone)
	if index < 0 {
		return fmt.Errorf("zone: %q is not one of the region", s.Zone)
	}
	setDefault(&s.ZoneID, e.fixture.Zones[index].ID)
	return nil
}

func (e *Emulator) completeReservation(r *CapacityReservation, id string, _ time.Time) error {
	r.ID = id
	setDefault(&r.Owner, e.fixture.Account)
	setDefault(&r.Match, "targeted")
	setDefault(&r.Type, "default")
	setDefault(&r.State, "active")
	if _, known := e.Catalogue().Type(r.InstanceType); !known {
		return fmt.Errorf("instanceType: %q is not known", r.InstanceType)
	}
	if e.zoneIndex(r.Zone) < 0 {
		return fmt.Errorf("zone: %q is not one of the region", r.Zone)
	}
	if r.Total < 0 || r.Available < 0 || r.Available > r.Total {
		return fmt.Errorf("available: %d of %d is not possible", r.Available, r.Total)
	}
	return nil
}

func completePlacement(g *PlacementGroup, id string, _ time.Time) error {
	g.ID = id
	setDefault(&g.Name, id)
	setDefault(&g.State, "available")
	if !slices.Contains([]string{"cluster", "spread", "partition"}, g.Strategy) {
		return fmt.Errorf("strategy: want cluster, spread or partition, not %q", g.Strategy)
	}
	return nil
}

func checkQuotas(q *EC2Quotas) error {
	for _, quota := range []*int{q.SpotVCPU, q.OnDemandVCPU, q.Fleets} {
		if quota != nil && *quota < 0 {
			return fmt.Errorf("a quota cannot be negative; null takes it away")
		}
	}
	return nil
}

func checkTiming(t *EC2Timing) error {
	if t.WarmAddresses < 0 || min(t.FleetResponse, t.Pending, t.ShuttingDown, t.Terminated, t.Notice) < 0 {
		return fmt.Errorf("nothing takes less than no time")
	}
	return nil
}

func checkPrices(list *[]PriceOverride) error {
	for n, p := range *list {
		if p.Price < 0 {
			return fmt.Errorf("element %d: price: is negative", n)
		}
	}
	return nil
}

// iceBody is the body of the control "ice".
type iceBody struct {
	CapacityPool
	Remaining int      `json:"remaining,omitempty"`
	Code      string   `json:"code,omitempty"` // instead of InsufficientInstanceCapacity, such as PendingVerification
	Message   string   `json:"message,omitempty"`
	TTL       Duration `json:"ttl,omitempty"` // 0: until it is removed
}

func (e *Emulator) addICE(r *controlRequest) (any, error) {
	var body iceBody
	if err := r.decode(&body); err != nil {
		return nil, err
	}
	pool := &ICEPool{CapacityPool: body.CapacityPool, Remaining: body.Remaining, Code: body.Code, Message: body.Message}
	if body.TTL > 0 {
		pool.Expires = r.now.Add(time.Duration(body.TTL))
	}
	e.ec2().ICE = append(e.ec2().ICE, pool)
	return pool, nil
}

// removeICE removes the pools that are exactly the one in the body, or all without a body.
func (e *Emulator) removeICE(r *controlRequest) (any, error) {
	if len(r.body) == 0 {
		e.ec2().ICE = nil
		return nil, nil
	}
	var body iceBody
	if err := r.decode(&body); err != nil {
		return nil, err
	}
	e.ec2().ICE = slices.DeleteFunc(e.ec2().ICE, func(p *ICEPool) bool { return p.CapacityPool == body.CapacityPool })
	return nil, nil
}

// showInstances serves instances, instances/{id} and instances/{id}/userdata.
func (e *Emulator) showInstances(r *controlRequest) (any, error) {
	if r.rest == "" {
		list := append([]*Instance{}, slices.Collect(maps.Values(e.ec2().Instances))...)
		sortInstances(list)
		return list, nil
	}
	id, part, _ := strings.Cut(r.rest, "/")
	i := e.ec2().Instances[id]
	switch {
	case i == nil:
		return nil, fmt.Errorf("there is no instance %q", id)
	case part == "":
		return i, nil
	case part == "userdata":
		return string(i.decodedUserData()), nil
	default:
		return nil, fmt.Errorf("an instance has no %q; want userdata", part)
	}
}
