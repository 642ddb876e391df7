package exact

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/devices"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve/model"
)

// devicesAllow returns how many of some pods of a class devices let onto an existing node: at most one at a time, since
// each takes some of them.
func (s *State) devicesAllow(c *model.Class, n, want int) int {
	if len(c.Shape.Devices) == 0 || want <= 0 {
		return want
	}
	if _, why := s.DevicesOnNode(c, n); why != nil {
		return 0
	}
	return 1
}

// DevicesOnNode finds devices for a pod on an existing node, or says why there are none.
func (s *State) DevicesOnNode(c *model.Class, n int) (*devices.Offer, *reason.Reason) {
	if s.Devices == nil {
		return nil, devicesOff()
	}
	return s.Devices.OnNode(s.Model.Nodes[n].Source, int32(n), s.Model.DaemonClaimsOnNode(n), c.Shape.Devices, s.stop)
}

// devicesOff is said of pods whose claims were read although dynamic resource allocation is off, as in a recorded problem.
func devicesOff() *reason.Reason {
	return &reason.Reason{Code: reason.DevicesUnsupported, Subject: "spec.resourceClaims", Have: "the pod", Want: "that is supported with --ignore-dra-requests=false"}
}

// UnusableDevices says which claim of a class no node can serve.
func (s *State) UnusableDevices(c *model.Class) *reason.Reason {
	switch {
	case len(c.Shape.Devices) == 0:
		return nil
	case s.Devices == nil:
		return devicesOff()
	}
	return s.Devices.Unusable(c.Shape.Devices)
}

// takeDevicesOnNode records the devices of a pod that is put on an existing node.
func (s *State) takeDevicesOnNode(c *model.Class, n int) {
	if len(c.Shape.Devices) > 0 && s.Devices != nil {
		o, _ := s.DevicesOnNode(c, n)
		s.Devices.Commit(o)
	}
}

// keepTypesWithDevices drops the types of a trial that have no devices for one pod more. It reports whether any is left,
// and otherwise says why.
func (s *State) keepTypesWithDevices(c *model.Class, b *Bin, f *Trial) bool {
	if s.Devices == nil {
		s.NoDevices = devicesOff()
		return false
	}
	at := slices.Index(s.Bins, b)
	if at < 0 { // about to be opened
		at = len(s.Bins)
	}
	o, why := s.Devices.OnNewNode(int32(len(s.Model.Nodes)+at), certainLabels(s.Model, f.Row), c.Shape.Devices, s.stop)
	if why != nil {
		s.NoDevices = why
		return false
	}
	if !o.Template() {
		return true
	}
	pl := &s.Model.Pools[b.Pool]
	cat := s.Model.Catalogues[pl.Catalogue]
	for t := f.Types.Next(0); t >= 0; t = f.Types.Next(t + 1) {
		if !s.Devices.Serves(o, s.Model.DaemonClaims(pl.Capacity, t), pl.Source.Name, cat.Types[t].InstanceType.Name, s.stop) {
			f.Types.Remove(t)
		}
	}
	if f.Types.Empty() {
		s.NoDevices = s.Devices.NoTypeServes(c.Shape.Devices, pl.Source.Name)
		return false
	}
	return true
}

// certainLabels returns the labels of a planned node for which only one value is left.
func certainLabels(m *model.Model, row reqs.Row) map[string]string {
	var labels map[string]string
	for k := range m.Table.Len() {
		if r := row.Req(reqs.KeyID(k)); !r.Not && len(r.Values) == 1 {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[m.Table.KeyName(reqs.KeyID(k))] = r.Values[0]
		}
	}
	return labels
}

// takeDevicesInBin records the devices of a pod that is put on a planned node.
func (s *State) takeDevicesInBin(c *model.Class, b *Bin, place int32) {
	if len(c.Shape.Devices) > 0 && s.Devices != nil {
		o, _ := s.Devices.OnNewNode(place, certainLabels(s.Model, b.Row), c.Shape.Devices, s.stop)
		s.Devices.Commit(o)
	}
}

// driversOf returns the drivers whose devices the pods of a planned node use, whichever of some types is launched.
func (s *State) driversOf(b *Bin, at int, types []string) []string {
	if s.Devices == nil {
		return nil
	}
	var all []string
	for i, name := range types {
		drivers := s.Devices.Drivers(int32(len(s.Model.Nodes)+at), s.daemonClaims(b.Pool, name), s.Model.Pools[b.Pool].Source.Name, name)
		if i == 0 {
			all = slices.Clone(drivers)
			continue
		}
		all = slices.DeleteFunc(all, func(d string) bool { return !slices.Contains(drivers, d) })
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// daemonClaims lists the claims of DaemonSets on an instance type of a pool.
func (s *State) daemonClaims(poolID int, instanceType string) [][]string {
	pl := &s.Model.Pools[poolID]
	types := s.Model.Catalogues[pl.Catalogue].Types
	t := slices.IndexFunc(types, func(e model.TypeEntry) bool { return e.InstanceType.Name == instanceType })
	return s.Model.DaemonClaims(pl.Capacity, t)
}

// MarkDevices returns a point that UndoDevices can go back to.
func (s *State) MarkDevices() int { return s.Devices.Mark() }

// UndoDevices gives back the devices that pods were given since a point.
func (s *State) UndoDevices(mark int) { s.Devices.Undo(mark) }

// SealDevices keeps the devices that planned nodes have given away, when those nodes take no further pods.
func (s *State) SealDevices() { s.Devices.Seal(int32(len(s.Model.Nodes))) }

// TakeDevicesOfType gives a pod devices of a planned node of one type, and reports whether there are any.
func (s *State) TakeDevicesOfType(c *model.Class, place int32, poolID, t int) bool {
	if len(c.Shape.Devices) == 0 {
		return true
	}
	if s.Devices == nil {
		return false
	}
	o, why := s.Devices.OnNewNode(place, nil, c.Shape.Devices, s.stop)
	pl := &s.Model.Pools[poolID]
	name := s.Model.Catalogues[pl.Catalogue].Types[t].InstanceType.Name
	if why != nil || o.Template() && !s.Devices.Serves(o, s.Model.DaemonClaims(pl.Capacity, t), pl.Source.Name, name, s.stop) {
		return false
	}
	s.Devices.Commit(o)
	return true
}

// HasDevicesOfType is TakeDevicesOfType without taking them.
func (s *State) HasDevicesOfType(c *model.Class, place int32, poolID, t int) bool {
	mark := s.MarkDevices()
	if len(c.Shape.Devices) == 0 {
		return true
	}
	fits := s.TakeDevicesOfType(c, place, poolID, t)
	s.UndoDevices(mark)
	return fits
}
