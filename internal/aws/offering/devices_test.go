package offering

import (
	"fmt"
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

// DR-07: the GPUs of a type as EC2 reports them, as their driver will publish it. Other makers have no such driver here.
func TestDR_07_DevicesOfTypes(t *testing.T) {
	t.Parallel()
	gpus := func(maker, name string, count int32, mib int32) func(*ec2types.InstanceTypeInfo) {
		return func(i *ec2types.InstanceTypeInfo) {
			i.GpuInfo = &ec2types.GpuInfo{Gpus: []ec2types.GpuDeviceInfo{{
				Manufacturer: &maker, Name: &name, Count: &count, MemoryInfo: &ec2types.GpuDeviceMemoryInfo{SizeInMiB: &mib},
			}}}
		}
	}
	for name, tc := range map[string]struct {
		more func(*ec2types.InstanceTypeInfo)
		want []string
	}{
		"none":            {},
		"two of NVIDIA":   {more: gpus("NVIDIA", "T4", 2, 16384), want: []string{"gpu.nvidia.com gpu-0 gpu NVIDIA T4 16Gi", "gpu.nvidia.com gpu-1 gpu NVIDIA T4 16Gi"}},
		"of other makers": {more: gpus("AMD", "Radeon Pro V520", 1, 8192)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(described(t, "m5.large", tc.more))
			var got []string
			for _, pool := range m.devicePools() {
				for _, d := range pool.Devices {
					memory := d.Capacity["memory"].Value
					got = append(got, fmt.Sprintf("%s %s %s %s %s", pool.Driver, d.Name, *d.Attributes["type"].StringValue, *d.Attributes["productName"].StringValue, memory.String()))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("want - got +\n%s", diff)
			}
		})
	}
}
