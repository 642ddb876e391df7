package awsemu

import (
	"encoding/base64"
	"maps"
	"slices"
	"time"
)

// InstanceView is an instance as those see it who play its part, such as nodes.
type InstanceView struct {
	ID           string            `json:"id"`
	Type         string            `json:"type"`
	Zone         string            `json:"zone"`
	ZoneID       string            `json:"zoneID"`
	Region       string            `json:"region"`
	SubnetID     string            `json:"subnetID"`
	PrivateDNS   string            `json:"privateDNS"`
	PrivateIP    string            `json:"privateIP"`
	ImageID      string            `json:"imageID"`
	Architecture string            `json:"architecture"`
	CapacityType string            `json:"capacityType"`
	Profile      string            `json:"profile"`
	State        string            `json:"state"`
	Launched     time.Time         `json:"launched"`
	Running      time.Time         `json:"running,omitzero"`
	Rebooted     time.Time         `json:"rebooted,omitzero"` // for the last time
	Terminated   time.Time         `json:"terminated,omitzero"`
	UserData     []byte            `json:"userData,omitempty"` // decoded
	Tags         map[string]string `json:"tags,omitempty"`
	Tenancy      string            `json:"tenancy"`
	RootDevice   string            `json:"rootDevice,omitempty"`
	Disks        []DiskView        `json:"disks,omitempty"`
}

// DiskView is a volume of an instance.
type DiskView struct {
	Device  string `json:"device"`
	SizeGiB int    `json:"sizeGiB"`
}

// Instances returns a copy of all instances by id, also those that were terminated a while ago.
func (e *Emulator) Instances() []InstanceView {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advanceModel(e.clock.Now())
	list := slices.Collect(maps.Values(e.ec2().Instances))
	sortInstances(list)
	views := make([]InstanceView, 0, len(list))
	for _, i := range list {
		view := InstanceView{
			ID: i.ID, Type: i.Type, Zone: i.Zone, ZoneID: i.ZoneID, Region: e.fixture.Region, SubnetID: i.Subnet,
			PrivateDNS: i.PrivateDNS, PrivateIP: i.PrivateIP, ImageID: i.ImageID, Architecture: i.Architecture,
			CapacityType: i.CapacityType, Profile: i.Profile, State: i.State, Launched: i.Launched, Running: i.Running, Rebooted: i.Rebooted,
			Terminated: i.Terminated, UserData: i.decodedUserData(), Tags: maps.Clone(i.Tags), Tenancy: i.Tenancy, RootDevice: i.RootDevice,
		}
		for _, v := range e.attachedTo(i) {
			view.Disks = append(view.Disks, DiskView{Device: v.Device, SizeGiB: v.SizeGiB})
		}
		views = append(views, view)
	}
	return views
}

// Price is what an hour of an offering costs now, in USD.
func (e *Emulator) Price(capacityType, instanceType, zone string) (float64, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.price(capacityType, instanceType, zone, e.clock.Now())
}

// decodedUserData is the user data as the instance reads it.
func (i *Instance) decodedUserData() []byte {
	decoded, err := base64.StdEncoding.DecodeString(i.UserData)
	if err != nil {
		return nil // an imported state; calls with such user data are refused
	}
	return decoded
}

// Changed returns a channel that is closed at the next change of anything. Take it before looking, so
// that no change is missed in between.
func (e *Emulator) Changed() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed
}

// MakeVolume adds a volume for an external provisioner such as a CSI driver. One
// that is there stays as it is.
func (e *Emulator) MakeVolume(v Volume) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ec2().Volumes[v.ID] != nil {
		return
	}
	v.Created = e.clock.Now()
	v.setDefaults()
	e.ec2().Volumes[v.ID] = &v
	e.notifyChange()
}

// RemoveVolume deletes an unused volume; one that is gone is no error.
func (e *Emulator) RemoveVolume(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v := e.ec2().Volumes[id]; v != nil && v.Instance == "" {
		delete(e.ec2().Volumes, id)
		e.notifyChange()
	}
}

// AttachVolume attaches a volume to an instance that is alive, at the next free device.
func (e *Emulator) AttachVolume(id, instance string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v, i := e.ec2().Volumes[id], e.ec2().Instances[instance]
	if v == nil || i == nil || !i.holdsResources() || v.Instance == instance {
		return
	}
	e.detach(v)
	v.attach(i, e.freeDevice(i), e.clock.Now())
	e.notifyChange()
}

// freeDevice is the next of the names that the CSI driver gives to volumes.
func (e *Emulator) freeDevice(i *Instance) string {
	taken := map[string]bool{}
	for _, v := range e.attachedTo(i) {
		taken[v.Device] = true
	}
	for n := 0; ; n++ {
		if name := "/dev/xvd" + string(rune('a'+n/26%26)) + string(rune('a'+n%26)); !taken[name] || n >= 26*26 {
			return name
		}
	}
}

// DetachVolume takes a volume from the instance it is attached to.
func (e *Emulator) DetachVolume(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v := e.ec2().Volumes[id]; v != nil && v.Instance != "" {
		e.detach(v)
		e.notifyChange()
	}
}
