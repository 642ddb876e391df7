package offering

import (
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/catalog"
)

// gpuDriver is the driver of dynamic resource allocation for GPUs of NVIDIA.
const gpuDriver = "gpu.nvidia.com"

// devicePools are the devices that drivers of dynamic resource allocation will publish for a node, as far as EC2 reports them:
// the GPUs of NVIDIA, with the attributes that follow from their name and memory. It is what planning begins with; once
// a node of the type has published its devices, those count.
func (m *machine) devicePools() []catalog.DevicePool {
	if m.info.GpuInfo == nil {
		return nil
	}
	var list []resourcev1.Device
	for _, gpu := range m.info.GpuInfo.Gpus {
		if text(gpu.Manufacturer) != "NVIDIA" {
			continue
		}
		for range number(gpu.Count) {
			d := resourcev1.Device{
				Name: "gpu-" + strconv.Itoa(len(list)),
				Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
					"type": {StringValue: new("gpu")}, "brand": {StringValue: new("Nvidia")},
					"productName": {StringValue: new("NVIDIA " + text(gpu.Name))},
				},
			}
			if gpu.MemoryInfo != nil {
				size := resource.NewQuantity(number(gpu.MemoryInfo.SizeInMiB)<<20, resource.BinarySI)
				d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: *size}}
			}
			list = append(list, d)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return []catalog.DevicePool{{Driver: gpuDriver, Devices: list}}
}
