package store

import (
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// index finds instance types by name, for each list of types once.
type index struct {
	types  map[string][]catalog.InstanceType // by pool
	byName map[*catalog.InstanceType]map[string]*catalog.InstanceType
	rooms  map[*catalog.InstanceType]resources.Vec // see room
}

func newIndex(types map[string][]catalog.InstanceType) index {
	return index{types: types, byName: map[*catalog.InstanceType]map[string]*catalog.InstanceType{}, rooms: map[*catalog.InstanceType]resources.Vec{}}
}

func (x index) find(pool, name string) *catalog.InstanceType {
	list := x.types[pool]
	if len(list) == 0 || name == "" {
		return nil
	}
	names := x.byName[&list[0]]
	if names == nil {
		names = make(map[string]*catalog.InstanceType, len(list))
		for i := range list {
			names[list[i].Name] = &list[i]
		}
		x.byName[&list[0]] = names
	}
	return names[name]
}

// price is what a node costs. 0 is not known, unless it is free.
func (x index) price(n *cluster.Node) (usd float64, free bool) {
	t := x.find(n.Pool, n.InstanceType)
	if t == nil {
		return 0, false
	}
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Zone == n.Zone && o.CapacityType == n.CapacityType {
			return o.Price, o.Free
		}
	}
	return 0, false
}

// leastAllocatable is what pods can use on every node that a claim can become, resource by resource. It is zero if the claim does
// not list its types, or if one of them is not known.
func (x index) leastAllocatable(pool string, types reqs.Req) resources.Vec {
	if types.Not || len(types.Values) == 0 {
		return resources.Vec{}
	}
	var least resources.Vec
	for i, name := range types.Values {
		t := x.find(pool, name)
		if t == nil {
			return resources.Vec{}
		}
		room := x.usableResources(t)
		if i == 0 {
			least = room.Clone()
		} else {
			resources.MinTo(&least, &room)
		}
	}
	return least
}

// usableResources is what pods can use on a node of a type, whichever offering is launched.
func (x index) usableResources(t *catalog.InstanceType) resources.Vec {
	room, known := x.rooms[t]
	if !known {
		room = t.Allocatable()
		for i := range t.Offerings {
			if size := t.Offerings[i].Size; size != nil {
				other := size.Allocatable()
				resources.MinTo(&room, &other)
			}
		}
		x.rooms[t] = room
	}
	return room
}

// largestCapacity is the largest that some instance types of a pool are, resource by resource.
func (x index) largestCapacity(pool string, names []string) resources.Vec {
	var most resources.Vec
	for _, name := range names {
		if t := x.find(pool, name); t != nil {
			resources.MaxTo(&most, &t.Capacity)
		}
	}
	return most
}
