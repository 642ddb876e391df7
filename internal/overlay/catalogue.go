package overlay

import (
	"hash/fnv"

	"github.com/dovetail-sh/dovetail/internal/catalog"
)

// catalogue notices that other instance types are offered than those that overlays were evaluated for: two overlays may
// conflict about a type that is new. Prices and capacity at the moment make no difference.
type catalogue struct {
	known map[listKey]uint64
}

// listKey identifies a list of the cloud, which stays the same while nothing changes.
type listKey struct {
	first *catalog.InstanceType
	n     int
}

// differs reports whether two lists have different types, or offer them in other places.
func (c *catalogue) differs(a, b []catalog.InstanceType) bool { return c.identity(a) != c.identity(b) }

// identity is a number for the types of a list and where they are offered. Each list is read once.
func (c *catalogue) identity(list []catalog.InstanceType) uint64 {
	if len(list) == 0 {
		return 0
	}
	key := listKey{&list[0], len(list)}
	if known, found := c.known[key]; found {
		return known
	}
	h := fnv.New64a()
	for i := range list {
		h.Write([]byte(list[i].Name + "\x00"))
		for j := range list[i].Offerings {
			o := &list[i].Offerings[j]
			h.Write([]byte(o.Zone + "\x00" + o.CapacityType + "\x00" + o.Reservation + "\x01"))
		}
	}
	if c.known == nil || len(c.known) >= maxResults {
		c.known = map[listKey]uint64{}
	}
	c.known[key] = h.Sum64()
	return c.known[key]
}
