package store

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// deviceObjects are the objects of dynamic resource allocation.
type deviceObjects struct {
	claims  map[podKey]*resourcev1.ResourceClaim
	slices  map[string]*resourcev1.ResourceSlice
	classes map[string]*resourcev1.DeviceClass
	listed  *cluster.Devices // of all of them; nil if one has changed since
}

func newDeviceObjects() deviceObjects {
	return deviceObjects{claims: map[podKey]*resourcev1.ResourceClaim{}, slices: map[string]*resourcev1.ResourceSlice{}, classes: map[string]*resourcev1.DeviceClass{}}
}

// list returns the objects in order. Snapshots share the result.
func (d *deviceObjects) list() *cluster.Devices {
	if d.listed != nil {
		return d.listed
	}
	all := &cluster.Devices{}
	// any order: sorted below
	for _, c := range d.claims {
		all.Claims = append(all.Claims, c)
	}
	// any order: sorted below
	for _, s := range d.slices {
		all.Slices = append(all.Slices, s)
	}
	// any order: sorted below
	for _, c := range d.classes {
		all.Classes = append(all.Classes, c)
	}
	slices.SortFunc(all.Claims, func(a, b *resourcev1.ResourceClaim) int { return keyOf(a).Compare(keyOf(b)) })
	slices.SortFunc(all.Slices, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(all.Classes, func(a, b *resourcev1.DeviceClass) int { return strings.Compare(a.Name, b.Name) })
	d.listed = all
	return all
}

// WatchDevices feeds the Store with one kind of the objects of dynamic resource allocation. Watch does not include them:
// the API may not be served, and the permission to read it may be missing, and then they would never sync.
func (s *Store) WatchDevices(ctx context.Context, from informers, kind client.Object) error {
	return s.watchKind(ctx, from, kind, s.onDeviceObject)
}

func (s *Store) onDeviceObject(obj client.Object, gone bool) {
	switch o := obj.(type) {
	case *resourcev1.ResourceClaim:
		putOrRemove(s.devices.claims, keyOf(o), o, gone)
	case *resourcev1.ResourceSlice:
		putOrRemove(s.devices.slices, o.Name, o, gone)
	case *resourcev1.DeviceClass:
		putOrRemove(s.devices.classes, o.Name, o, gone)
	}
	s.devices.listed = nil
	s.changes++
}

// putOrRemove puts an object into a map, or removes it.
func putOrRemove[K comparable, V any](m map[K]V, key K, value V, gone bool) {
	if gone {
		delete(m, key)
	} else {
		m[key] = value
	}
}

// extendedResources returns the extended resources that are served by devices, with their DeviceClass (DR-15). Those
// that a device plugin offers on some node are not among them: new nodes are expected to be like it.
func (s *Store) extendedResources() map[corev1.ResourceName]string {
	if !s.opts.Devices || len(s.devices.classes) == 0 {
		return nil
	}
	served := cluster.ExtendedResources(s.devices.list().Classes)
	// any order: names are only removed
	for _, n := range s.nodes {
		maps.DeleteFunc(served, func(name corev1.ResourceName, _ string) bool {
			q, offered := n.Status.Allocatable[name]
			return offered && !q.IsZero()
		})
	}
	return served
}

// PublishedSlices returns the ResourceSlices of a node, by name.
func (s *Store) PublishedSlices(node string) []*resourcev1.ResourceSlice {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*resourcev1.ResourceSlice
	for _, slice := range s.devices.list().Slices {
		if slice.Spec.NodeName != nil && *slice.Spec.NodeName == node {
			out = append(out, slice)
		}
	}
	return out
}
