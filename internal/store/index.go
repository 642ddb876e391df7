package store

import (
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// index finds instance types by name, for each list of types once.
type index struct {
	types  map[string][]catalog.InstanceType // by pool
	byName map[*catalog.InstanceType]map[string]*catalog.InstanceType
}

func newIndex(types map[string][]catalog.InstanceType) index {
	return index{types: types, byName: map[*catalog.InstanceType]map[string]*catalog.InstanceType{}}
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

// price is what a node costs; 0 if that is not known.
func (x index) price(n *cluster.Node) float64 {
	t := x.find(n.Pool, n.InstanceType)
	if t == nil {
		return 0
	}
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Zone == n.Zone && o.CapacityType == n.CapacityType {
			return o.Price
		}
	}
	return 0
}

// most is the largest that some instance types of a pool are, resource by resource.
func (x index) most(pool string, names []string) resources.Vec {
	var most resources.Vec
	for _, name := range names {
		if t := x.find(pool, name); t != nil {
			resources.MaxTo(&most, &t.Capacity)
		}
	}
	return most
}
