package awsemu

import (
	"cmp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Volume is an EBS volume. It is in use while it names an instance.
type Volume struct {
	ID         string            `json:"id"`
	Zone       string            `json:"zone"`
	SizeGiB    int               `json:"sizeGiB"`
	Type       string            `json:"type"`
	IOPS       int               `json:"iops,omitempty"`
	Throughput int               `json:"throughput,omitempty"` // MiB/s
	Encrypted  bool              `json:"encrypted,omitempty"`
	Snapshot   string            `json:"snapshot,omitempty"`
	Created    time.Time         `json:"created"`
	Instance   string            `json:"instance,omitempty"`
	Device     string            `json:"device,omitempty"`
	Attached   time.Time         `json:"attached,omitzero"`
	Delete     bool              `json:"delete,omitempty"` // with the instance
	Tags       map[string]string `json:"tags,omitempty"`
}

func (v *Volume) state() string {
	if v.Instance != "" {
		return "in-use"
	}
	return "available"
}

// ImageDevice is a volume that an image brings.
type ImageDevice struct {
	Name    string `json:"name"`
	SizeGiB int    `json:"sizeGiB"`
	Type    string `json:"type,omitempty"`
}

// usualRootGiB is the default size of a root volume.
const usualRootGiB = 20

// blockDevices are the volumes that an image brings; every image has a root volume.
func (i *Image) blockDevices() []ImageDevice {
	if len(i.Devices) == 0 {
		return []ImageDevice{{Name: i.RootDevice, SizeGiB: usualRootGiB, Type: "gp3"}}
	}
	return i.Devices
}

// setDefaults fills what EC2 decides by itself.
func (v *Volume) setDefaults() {
	v.Type = cmp.Or(v.Type, "gp2")
	switch v.Type {
	case "gp3":
		v.IOPS, v.Throughput = cmp.Or(v.IOPS, 3000), cmp.Or(v.Throughput, 125)
	case "gp2":
		v.IOPS = min(max(100, 3*v.SizeGiB), 16000)
	}
}

// volumesOf makes the volumes of a new instance: those of its image, changed by the block devices of the
// launch, and those that the launch adds.
func (e *Emulator) volumesOf(c *call, p *launchPool, i *Instance) {
	var list []*Volume
	for _, d := range p.image.blockDevices() {
		list = append(list, &Volume{Device: d.Name, SizeGiB: d.SizeGiB, Type: d.Type, Delete: true, Snapshot: stableID("snap-", p.image.ID+d.Name)})
	}
	for _, requested := range p.data.List("BlockDeviceMapping") {
		name, ebs := requested.String("DeviceName"), requested.Sub("Ebs")
		at := slices.IndexFunc(list, func(v *Volume) bool { return v.Device == name })
		switch {
		case requested.Has("NoDevice"):
			list = slices.DeleteFunc(list, func(v *Volume) bool { return v.Device == name })
			continue
		case !requested.Has("Ebs"):
			continue // a disk of the machine
		case at < 0:
			at = len(list)
			list = append(list, &Volume{Device: name, SizeGiB: usualRootGiB})
		}
		list[at].applyLaunchSettings(ebs)
	}
	tags := requestedTags("volume", p.data, c.Form)
	for _, v := range list {
		v.ID, v.Zone, v.Created, v.Tags = e.nextID("vol-"), i.Zone, c.now, tags
		v.setDefaults()
		e.ec2().Volumes[v.ID] = v
		v.attach(i, v.Device, c.now)
	}
}

// applyLaunchSettings applies what a launch says of a volume.
func (v *Volume) applyLaunchSettings(ebs wire.Form) {
	v.SizeGiB, v.Type = ebs.Int("VolumeSize", v.SizeGiB), cmp.Or(ebs.String("VolumeType"), v.Type)
	v.IOPS, v.Throughput = ebs.Int("Iops", v.IOPS), ebs.Int("Throughput", v.Throughput)
	v.Snapshot, v.Encrypted = cmp.Or(ebs.String("SnapshotId"), v.Snapshot), ebs.Bool("Encrypted")
	if ebs.Has("DeleteOnTermination") {
		v.Delete = ebs.Bool("DeleteOnTermination")
	}
}

func (v *Volume) attach(i *Instance, device string, at time.Time) {
	v.Instance, v.Device, v.Attached = i.ID, device, at
	i.Volumes = append(i.Volumes, v.ID)
}

// detach takes a volume from its instance, if it has one.
func (e *Emulator) detach(v *Volume) {
	if i := e.ec2().Instances[v.Instance]; i != nil {
		i.Volumes = slices.DeleteFunc(i.Volumes, func(id string) bool { return id == v.ID })
	}
	v.Instance, v.Device, v.Attached, v.Delete = "", "", time.Time{}, false
}

// releaseVolumes lets the volumes of an instance go, with it or without.
func (e *Emulator) releaseVolumes(i *Instance) {
	for _, id := range slices.Clone(i.Volumes) {
		v := e.ec2().Volumes[id]
		if v == nil {
			continue
		}
		gone := v.Delete
		e.detach(v)
		if gone {
			delete(e.ec2().Volumes, id)
		}
	}
	i.Volumes = nil
}

// attachedTo are the volumes of an instance, in the order of their devices.
func (e *Emulator) attachedTo(i *Instance) []*Volume {
	var list []*Volume
	for _, id := range i.Volumes {
		if v := e.ec2().Volumes[id]; v != nil {
			list = append(list, v)
		}
	}
	slices.SortStableFunc(list, func(a, b *Volume) int { return cmp.Compare(a.Device, b.Device) })
	return list
}
