package offering

import (
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/aws/ami"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// storage is where pods keep what they write.
type storage struct {
	raid0  bool
	volume int64 // bytes of the volume, for machines without local disks
}

// storageOf reads it from a class (EC2NodeClass 12).
func storageOf(class *awsv1.EC2NodeClass, family ami.Family) storage {
	policy := class.Spec.InstanceStorePolicy
	return storage{raid0: policy != nil && *policy == "RAID0", volume: volumeBytes(class.Spec.BlockDeviceMappings, family)}
}

// volumeOfImage is what the volume of an image is taken to have if neither class nor family says.
const volumeOfImage = 20 * gibibyte

func volumeBytes(mappings []awsv1.BlockDeviceMapping, family ami.Family) int64 {
	for i := range mappings {
		if size := sizeOf(&mappings[i]); mappings[i].RootVolume && size != nil {
			return resources.Whole(*size)
		}
	}
	disk, known := family.DataDisk()
	if !known {
		if n := len(mappings); n > 0 {
			if size := sizeOf(&mappings[n-1]); size != nil {
				return resources.Whole(*size)
			}
		}
		return volumeOfImage
	}
	for i := range mappings {
		if size := sizeOf(&mappings[i]); mappings[i].DeviceName != nil && *mappings[i].DeviceName == disk.Device && size != nil {
			return resources.Whole(*size)
		}
	}
	return disk.GiB * gibibyte
}

func sizeOf(m *awsv1.BlockDeviceMapping) *resource.Quantity {
	if m.EBS == nil {
		return nil
	}
	return m.EBS.VolumeSize
}

// bytes of a machine. Local disks count in decimal gigabytes, as EC2 gives them.
func (s storage) bytes(m *machine) int64 {
	if local := m.info.InstanceStorageInfo; s.raid0 && local != nil && local.TotalSizeInGB != nil && *local.TotalSizeInGB > 0 {
		return *local.TotalSizeInGB * gigabyte
	}
	return s.volume
}
