package snapshot

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/overlay"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// Cluster is what decisions see of the File, with the words of its cloud. The same File gives the same Cluster. The File
// must not change afterwards.
func (f *File) Cluster(words reqs.Vocabulary) (*inspect.Cluster, error) {
	lanes := f.lanes()
	types, untyped := f.types(lanes)
	classes := make([]schema.GroupKind, 0, len(f.Settings.Classes))
	for _, k := range f.Settings.Classes {
		classes = append(classes, schema.GroupKind(k))
	}
	s := store.New(store.Options{
		Words: words, Lanes: lanes, Classes: classes, Strict: f.Settings.Strict, CostManaged: f.Settings.CostManaged,
		DefaultSpread: f.Settings.DefaultSpread, Devices: f.Settings.Devices, Now: func() time.Time { return f.Taken },
	})
	if err := s.Load(f.Objects.list()); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name, err)
	}
	if f.Settings.Buffers {
		s.SetVirtualPods(pointers(f.Objects.VirtualPods))
	}
	if f.Settings.Overlays {
		f.applyOverlays(s, types, words)
	}
	policy := f.Settings.Policy
	if policy.Workers == 0 { // their number never changes a decision
		policy.Workers = runtime.GOMAXPROCS(0)
	}
	disruption, view := s.Inspect(types)
	c := &inspect.Cluster{
		View: disrupt.View{
			DisruptionView: disruption, Policy: policy, Tuning: f.Settings.Tuning, Methods: f.Settings.Methods,
		},
		Ignored: view.Ignored, Awaiting: view.AwaitingReplacement, Untyped: untyped,
	}
	return c, nil
}

// Record decides what would be done to the cluster, and keeps it in the File with the name of who decided.
func (f *File) Record(words reqs.Vocabulary, tool string, stop func() bool) error {
	c, err := f.Cluster(words)
	if err != nil {
		return err
	}
	f.Decided = &Decided{Tool: tool, Changes: inspect.PlanOf(c, stop)}
	return nil
}

// applyOverlays changes the instance types as the NodeOverlays say.
func (f *File) applyOverlays(s *store.Store, types map[string][]catalog.InstanceType, words reqs.Vocabulary) {
	if len(f.Objects.NodeOverlays) == 0 {
		return
	}
	var pools []overlay.Pool
	for _, p := range s.Pools() {
		pools = append(pools, overlay.Pool{Name: p.Name, Labels: p.Spec.Template.ObjectMeta.Labels, Types: types[p.Name]})
	}
	table := s.Lanes(overlay.ResourceNames(f.Objects.NodeOverlays)...)
	set, _ := overlay.Evaluate(f.Objects.NodeOverlays, pools, table, words)
	for _, p := range pools {
		types[p.Name] = set.Apply(p)
	}
}

// lanes has a lane for every resource of an instance type.
func (f *File) lanes() resources.Table {
	var names []corev1.ResourceName
	for i := range f.Catalogues {
		for j := range f.Catalogues[i].InstanceTypes {
			t := &f.Catalogues[i].InstanceTypes[j]
			names = append(names, resources.Names(t.Capacity, t.Overhead)...)
		}
	}
	slices.Sort(names)
	return resources.NewTable(slices.Compact(names)...)
}

// types are the instance types by NodePool, and why those of others are not known. NodePools of one catalogue share the
// list.
func (f *File) types(lanes resources.Table) (types map[string][]catalog.InstanceType, untyped map[string]string) {
	types, untyped = map[string][]catalog.InstanceType{}, map[string]string{}
	for i := range f.Catalogues {
		c := &f.Catalogues[i]
		list := make([]catalog.InstanceType, 0, len(c.InstanceTypes))
		for j := range c.InstanceTypes {
			list = append(list, c.InstanceTypes[j].read(lanes))
		}
		for _, pool := range c.NodePools {
			if c.Problem != "" {
				untyped[pool] = c.Problem
				continue
			}
			types[pool] = list
		}
	}
	return types, untyped
}

func (t *InstanceType) read(lanes resources.Table) catalog.InstanceType {
	out := catalog.InstanceType{
		Name: t.Name, Labels: make(reqs.Set, len(t.Labels)), Capacity: lanes.Capacity(t.Capacity), Overhead: lanes.Requests(t.Overhead),
		Offerings: make([]catalog.Offering, 0, len(t.Offerings)), VolumeLimits: t.VolumeLimits, Unsuited: t.Unsuited,
	}
	for key, values := range t.Labels {
		out.Labels[key] = reqs.Req{Values: values}
	}
	for _, d := range t.Devices {
		out.Devices = append(out.Devices, catalog.DevicePool(d))
	}
	for i := range t.Offerings {
		o := &t.Offerings[i]
		read := catalog.Offering{
			Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, Risk: o.Risk, Available: o.Available, Out: o.Out,
			Reservation: o.Reservation, Remaining: o.Remaining, Takers: o.Takers, Labels: o.Labels,
		}
		if o.Capacity != nil {
			read.Size = &catalog.Size{Capacity: lanes.Capacity(o.Capacity), Overhead: lanes.Requests(o.Overhead)}
		}
		out.Offerings = append(out.Offerings, read)
	}
	return out
}

// InstanceTypeOf writes an instance type in the form of a File. NodeOverlays must not have changed it.
func InstanceTypeOf(t *catalog.InstanceType, lanes resources.Table) InstanceType {
	out := InstanceType{
		Name: t.Name, Labels: make(map[string][]string, len(t.Labels)), Capacity: lanes.List(t.Capacity), Overhead: lanes.List(t.Overhead),
		Offerings: make([]Offering, 0, len(t.Offerings)), VolumeLimits: t.VolumeLimits, Unsuited: t.Unsuited,
	}
	for key, r := range t.Labels {
		out.Labels[key] = r.Values
	}
	for _, d := range t.Devices {
		out.Devices = append(out.Devices, Devices(d))
	}
	for i := range t.Offerings {
		o := &t.Offerings[i]
		written := Offering{
			Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, Risk: o.Risk, Available: o.Available, Out: o.Out,
			Reservation: o.Reservation, Remaining: o.Remaining, Takers: o.Takers, Labels: o.Labels,
		}
		if o.Size != nil {
			written.Capacity, written.Overhead = lanes.List(o.Size.Capacity), lanes.List(o.Size.Overhead)
		}
		out.Offerings = append(out.Offerings, written)
	}
	return out
}

// list is all objects that a store takes in.
func (o *Objects) list() []client.Object {
	var all []client.Object
	all = appendObjects(all, o.Namespaces)
	all = appendObjects(all, o.NodePools)
	all = appendObjects(all, o.NodeClaims)
	all = appendObjects(all, o.Nodes)
	all = appendObjects(all, o.CSINodes)
	all = appendObjects(all, o.StorageClasses)
	all = appendObjects(all, o.Volumes)
	all = appendObjects(all, o.VolumeClaims)
	all = appendObjects(all, o.LimitRanges)
	all = appendObjects(all, o.Budgets)
	all = appendObjects(all, o.DaemonSets)
	all = appendObjects(all, o.ReplicaSets)
	all = appendObjects(all, o.StatefulSets)
	all = appendObjects(all, o.Controllers)
	all = appendObjects(all, o.Services)
	all = appendObjects(all, o.ResourceClaims)
	all = appendObjects(all, o.ResourceSlices)
	all = appendObjects(all, o.DeviceClasses)
	return appendObjects(all, o.Pods)
}

// appendObjects appends pointers to the objects of a list.
func appendObjects[T any, P interface {
	*T
	client.Object
}](all []client.Object, list []T) []client.Object {
	for i := range list {
		all = append(all, P(&list[i]))
	}
	return all
}

func pointers[T any](list []T) []*T {
	out := make([]*T, 0, len(list))
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}
