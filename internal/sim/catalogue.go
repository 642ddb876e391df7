package sim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// Machine is an instance type that the cloud of a run offers, on demand in every zone and as spot.
type Machine struct {
	Name   string
	Milli  int64 // thousandths of a core
	MiB    int64
	Pods   int64
	Price  float64 // USD an hour, on demand
	Spot   float64 // USD an hour; 0: not offered as spot
	CPULow int64   // thousandths of a core that pods cannot have
	MiBLow int64
	Disks  int // volumes at most; 0: no limit

	Devices int   // of dynamic resource allocation
	Widgets int64 // that a device plugin finds on it; the cloud knows nothing of them
}

// Zones of every run.
func Zones() []string { return []string{"a", "b", "c"} }

// Machines is a small catalogue of three families.
func Machines() []Machine {
	var out []Machine
	for _, family := range []struct {
		name  string
		mib   int64 // for each core
		price float64
	}{{"c6", 2048, 0.0425}, {"m6", 4096, 0.048}, {"r6", 8192, 0.063}} {
		for i, size := range []string{"large", "xlarge", "2xlarge", "4xlarge"} {
			cores := int64(2) << i
			out = append(out, Machine{
				Name: family.name + "." + size, Milli: cores * 1000, MiB: cores * family.mib * 925 / 1000, Pods: 58,
				Price: float64(cores) * family.price, Spot: float64(cores) * family.price * 0.4, CPULow: 80, MiBLow: 600,
			})
		}
	}
	return out
}

func amounts(milli, mib int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(mib<<20, resource.BinarySI),
	}
}

func (m *Machine) capacity() corev1.ResourceList {
	list := amounts(m.Milli, m.MiB)
	list[corev1.ResourcePods] = *resource.NewQuantity(m.Pods, resource.DecimalSI)
	return list
}

func (m *Machine) allocatable() corev1.ResourceList {
	list := amounts(m.Milli-m.CPULow, m.MiB-m.MiBLow)
	list[corev1.ResourcePods] = *resource.NewQuantity(m.Pods, resource.DecimalSI)
	return list
}

// labels are those of every node of this type.
func (m *Machine) labels() map[string]string {
	return map[string]string{corev1.LabelInstanceTypeStable: m.Name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux"}
}

// instanceType is the machine as decisions read it. out says which offerings have no capacity.
func (m *Machine) instanceType(lanes resources.Table, out func(offering string) bool) catalog.InstanceType {
	t := catalog.InstanceType{
		Name: m.Name, Labels: reqs.FromLabels(m.labels(), awsv1.Vocabulary()), Capacity: lanes.Capacity(m.capacity()), Overhead: lanes.Requests(amounts(m.CPULow, m.MiBLow)),
	}
	t.Devices = devicePools(m)
	if m.Disks > 0 {
		t.VolumeLimits = map[string]int{disks: m.Disks}
	}
	for _, zone := range Zones() {
		for _, o := range m.offers(zone) {
			o.Available = !out(offering(m.Name, o.Zone, o.CapacityType))
			t.Offerings = append(t.Offerings, o)
		}
	}
	return t
}

func (m *Machine) offers(zone string) []catalog.Offering {
	list := []catalog.Offering{{Zone: zone, CapacityType: karpv1.CapacityTypeOnDemand, Price: m.Price}}
	if m.Spot > 0 {
		list = append(list, catalog.Offering{Zone: zone, CapacityType: karpv1.CapacityTypeSpot, Price: m.Spot})
	}
	return list
}

func offering(name, zone, capacityType string) string {
	return fmt.Sprintf("%s/%s/%s", name, zone, capacityType)
}
