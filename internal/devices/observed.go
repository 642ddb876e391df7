package devices

import (
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
)

// observed returns what a node publishes, as a template for nodes of its kind: one entry for each driver. Pools that
// are not complete say nothing.
func observed(list []*resourcev1.ResourceSlice, node string) []catalog.DevicePool {
	pools := map[poolID][]*resourcev1.ResourceSlice{}
	var order []poolID
	for _, s := range list {
		id := poolOf(s)
		if pools[id] == nil {
			order = append(order, id)
		}
		pools[id] = append(pools[id], s)
	}
	var out []catalog.DevicePool
	for _, id := range order {
		latest := current(pools[id])
		if !complete(latest) {
			continue
		}
		at := slices.IndexFunc(out, func(p catalog.DevicePool) bool { return p.Driver == id.driver })
		if at < 0 {
			at, out = len(out), append(out, catalog.DevicePool{Driver: id.driver})
		}
		for _, s := range latest {
			if s.Spec.NodeName == nil || *s.Spec.NodeName != node {
				continue
			}
			for i := range s.Spec.Devices {
				out[at].Devices = append(out[at].Devices, likeNew(s.Spec.Devices[i]))
			}
			out[at].Counters = append(out[at].Counters, s.Spec.SharedCounters...)
		}
	}
	return out
}

// current returns the slices of the highest generation of a pool.
func current(list []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	var latest []*resourcev1.ResourceSlice
	for _, s := range list {
		switch {
		case len(latest) == 0 || s.Spec.Pool.Generation > latest[0].Spec.Pool.Generation:
			latest = []*resourcev1.ResourceSlice{s}
		case s.Spec.Pool.Generation == latest[0].Spec.Pool.Generation:
			latest = append(latest, s)
		}
	}
	return latest
}

// complete reports whether slices of one generation are all of their pool.
func complete(list []*resourcev1.ResourceSlice) bool {
	return len(list) > 0 && int64(len(list)) == list[0].Spec.Pool.ResourceSliceCount
}

// likeNew returns a device without what belongs to one piece of hardware: a claim that requests it can be served only
// where it is. A taint says what is wrong with that piece.
func likeNew(d resourcev1.Device) resourcev1.Device {
	d.Taints = nil
	own := func(name resourcev1.QualifiedName) bool {
		_, last, found := strings.Cut(string(name), "/")
		if !found {
			last = string(name)
		}
		last = strings.ToLower(last)
		return strings.Contains(last, "uuid") || strings.Contains(last, "serial")
	}
	kept := maps.Clone(d.Attributes)
	maps.DeleteFunc(kept, func(name resourcev1.QualifiedName, _ resourcev1.DeviceAttribute) bool { return own(name) })
	d.Attributes = kept
	return d
}

// CompleteDrivers returns the drivers that have published at least one complete pool of devices for a node, in order.
func CompleteDrivers(list []*resourcev1.ResourceSlice, node string) []string {
	pools := map[poolID][]*resourcev1.ResourceSlice{}
	for _, s := range list {
		if s.Spec.NodeName != nil && *s.Spec.NodeName == node {
			pools[poolOf(s)] = append(pools[poolOf(s)], s)
		}
	}
	var drivers []string
	// any order: sorted below
	for id, slicesOfPool := range pools {
		if complete(current(slicesOfPool)) {
			drivers = append(drivers, id.driver)
		}
	}
	slices.Sort(drivers)
	return slices.Compact(drivers)
}
