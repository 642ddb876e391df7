package offering

import (
	"encoding/binary"
	"hash/maphash"

	"k8s.io/apimachinery/pkg/runtime"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/discover"
	"github.com/dovetail-sh/dovetail/internal/aws/kubelet"
)

// digest hashes the parts of a class that matter. It allocates nothing.
type digest struct{ maphash.Hash }

func (d *digest) text(s string) {
	d.number(int64(len(s))) // so that "ab","c" and "a","bc" differ
	_, _ = d.WriteString(s)
}

func (d *digest) number(n int64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	_, _ = d.Write(b[:])
}

func (d *digest) flag(b bool) {
	if b {
		_ = d.WriteByte(1)
	} else {
		_ = d.WriteByte(0)
	}
}

func (d *digest) optional(s *string) {
	d.flag(s != nil)
	if s != nil {
		d.text(*s)
	}
}

// shapeKey stands for everything about a class that its instance types depend on. Two classes with the
// same key share them.
func shapeKey(class *awsv1.EC2NodeClass, override *runtime.RawExtension, group discover.PlacementGroup) uint64 {
	var d digest
	d.SetSeed(seed)
	d.text(string(class.Family()))
	d.text(group.ID)
	d.text(group.Strategy)
	d.number(int64(group.Partitions))
	if raw := kubelet.Of(class, override); raw != nil {
		d.number(int64(len(raw.Raw)))
		_, _ = d.Write(raw.Raw)
	}
	d.spec(&class.Spec)
	d.status(&class.Status)
	return d.Sum64()
}

func (d *digest) spec(spec *awsv1.EC2NodeClassSpec) {
	d.optional(spec.InstanceStorePolicy)
	d.flag(spec.ConnectionTracking != nil)
	d.flag(spec.PlacementGroupSelector != nil)
	d.flag(spec.CPUOptions != nil)
	if spec.CPUOptions != nil {
		d.optional(spec.CPUOptions.NestedVirtualization)
	}
	d.devices(spec.BlockDeviceMappings)
	d.number(int64(len(spec.NetworkInterfaces)))
	for _, n := range spec.NetworkInterfaces {
		d.number(int64(n.NetworkCardIndex))
		d.number(int64(n.DeviceIndex))
		d.text(n.InterfaceType)
	}
}

func (d *digest) devices(mappings []awsv1.BlockDeviceMapping) {
	d.number(int64(len(mappings)))
	for i := range mappings {
		m := &mappings[i]
		d.optional(m.DeviceName)
		d.flag(m.RootVolume)
		size := sizeOf(m)
		d.flag(size != nil)
		if size != nil {
			d.number(size.Value())
		}
	}
}

func (d *digest) status(status *awsv1.EC2NodeClassStatus) {
	d.number(int64(len(status.Subnets)))
	for i := range status.Subnets {
		d.text(status.Subnets[i].ID)
		d.text(status.Subnets[i].Zone)
		d.text(status.Subnets[i].ZoneID)
	}
	d.number(int64(len(status.AMIs)))
	for i := range status.AMIs {
		d.text(status.AMIs[i].ID)
		d.number(int64(len(status.AMIs[i].Requirements)))
		for _, r := range status.AMIs[i].Requirements {
			d.text(r.Key)
			d.text(string(r.Operator))
			d.number(int64(len(r.Values)))
			for _, v := range r.Values {
				d.text(v)
			}
		}
	}
	d.number(int64(len(status.CapacityReservations)))
	for i := range status.CapacityReservations {
		r := &status.CapacityReservations[i]
		for _, s := range []string{r.ID, r.InstanceType, r.AvailabilityZone, r.ReservationType, r.State} {
			d.text(s)
		}
		d.flag(r.Interruptible)
	}
}
