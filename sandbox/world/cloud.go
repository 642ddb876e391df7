package world

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/catalogue"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

// rootVolume is the disk of a machine of which no volumes are known: one launched by an older version.
const rootVolume = "20Gi"

// gigabyte is how EC2 counts the disks of a machine; volumes have binary ones.
const gigabyte = 1e9

// cloud shows the emulated account to the simulated kubelets.
type cloud struct {
	emulator *awsemu.Emulator
	boot     *bootClock // of the kubelets
}

// Instances returns the machines with what they have.
func (c *cloud) Instances() []fakenode.Instance {
	views := c.emulator.Instances()
	out := make([]fakenode.Instance, 0, len(views))
	for _, v := range views {
		instance := fakenode.Instance{
			ID: v.ID, Type: v.Type, Zone: v.Zone, ZoneID: v.ZoneID, Region: v.Region,
			PrivateDNS: v.PrivateDNS, PrivateIP: v.PrivateIP, ImageID: v.ImageID, Architecture: v.Architecture,
			CapacityType: v.CapacityType, Profile: v.Profile, State: v.State, Running: c.boot.machineTime(v.Running), Rebooted: c.boot.machineTime(v.Rebooted), UserData: v.UserData,
		}
		if t, known := c.emulator.Catalogue().Machine(v.Type); known {
			instance.Capacity, instance.LocalBytes = instanceCapacity(t), int64(t.NVMeGB)*gigabyte
		}
		for _, d := range v.Disks {
			instance.Disks = append(instance.Disks, fakenode.Disk{Device: d.Device, Bytes: int64(d.SizeGiB) << 30, Root: d.Device == v.RootDevice})
		}
		out = append(out, instance)
	}
	return out
}

// Changed signals the next change in the account.
func (c *cloud) Changed() <-chan struct{} { return c.emulator.Changed() }

// MayJoin says whether the cluster has an access entry for the role of a profile.
func (c *cloud) MayJoin(profile string) bool { return c.emulator.MayJoin(profile) }

// volumes shows the emulated account to the volume driver.
type volumes struct{ *awsemu.Emulator }

func (v volumes) Create(d fakenode.Volume) {
	v.MakeVolume(awsemu.Volume{
		ID: d.ID, Zone: d.Zone, Type: d.Type, SizeGiB: int((d.Bytes + 1<<30 - 1) >> 30), Encrypted: d.Encrypted, Tags: d.Tags,
	})
}

func (v volumes) Delete(id string)           { v.RemoveVolume(id) }
func (v volumes) Attach(id, instance string) { v.AttachVolume(id, instance) }
func (v volumes) Detach(id string)           { v.DetachVolume(id) }

// instanceCapacity is what a machine of a type has, and its network interfaces allow.
func instanceCapacity(t catalogue.Type) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(t.VCPU), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(int64(t.MemoryMiB)<<20, resource.BinarySI),
		corev1.ResourceEphemeralStorage: resource.MustParse(rootVolume),
		corev1.ResourcePods:             *resource.NewQuantity(int64(pods(t)), resource.DecimalSI),
	}
	add := func(name corev1.ResourceName, n int) {
		if n > 0 {
			have := list[name]
			have.Add(*resource.NewQuantity(int64(n), resource.DecimalSI))
			list[name] = have
		}
	}
	for _, gpu := range t.GPUs {
		switch gpu.Manufacturer {
		case "NVIDIA":
			add("nvidia.com/gpu", gpu.Count)
		case "AMD":
			add("amd.com/gpu", gpu.Count)
		case "Habana":
			add("habana.ai/gaudi", gpu.Count)
		}
	}
	for _, device := range t.Neuron {
		add("aws.amazon.com/neuron", device.Count)
		add("aws.amazon.com/neuroncore", device.Count*device.Cores)
	}
	return list
}

// pods is how many the interfaces of the first network card can address.
func pods(t catalogue.Type) int {
	interfaces := t.MaxENIs
	if len(t.Cards) > 0 {
		interfaces = t.Cards[0].MaxENIs
	}
	return interfaces*(t.IPv4PerENI-1) + 2
}
