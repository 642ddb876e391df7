package fakenode

import (
	"maps"
	"math"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	mebi = 1 << 20
	gibi = 1 << 30
	most = 1 << 60 // of anything, so that three of them can be added
)

// dataDevice is where Bottlerocket keeps what is not the image.
const dataDevice = "/dev/xvdb"

// withStorage is what a machine has, with the disk that pods write to: the local disks if user data joins
// them, else the volume that the family of the image uses.
func (i Instance) withStorage(c Config) corev1.ResourceList {
	bytes := int64(0)
	for _, d := range i.Disks {
		if d.Root && bytes == 0 || c.Family == Bottlerocket && d.Device == dataDevice {
			bytes = d.Bytes
		}
	}
	if c.RAID0 && i.LocalBytes > 0 {
		bytes = i.LocalBytes
	}
	if bytes == 0 {
		return i.Capacity
	}
	machine := corev1.ResourceList{} // also of a type that the cloud knows no more
	maps.Copy(machine, i.Capacity)
	machine[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(bytes, resource.BinarySI)
	return machine
}

// Capacity is what a node reports that was configured by c: what the machine has, less a share of its
// memory, and with its own number of pods.
func Capacity(machine corev1.ResourceList, c Config, memoryLoss float64) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range machine {
		if !q.IsZero() || name == corev1.ResourcePods {
			out[name] = q.DeepCopy()
		}
	}
	if memory, ok := machine[corev1.ResourceMemory]; ok {
		left := float64(memory.Value()) * (1 - min(max(memoryLoss, 0), 1))
		out[corev1.ResourceMemory] = *resource.NewQuantity(int64(left)/1024*1024, resource.BinarySI)
	}
	out[corev1.ResourcePods] = *resource.NewQuantity(pods(machine, c), resource.DecimalSI)
	return out
}

// pods is how many pods the kubelet takes: as configured, else what the network interfaces allow, or
// 110 on Windows; with podsPerCore as a further limit, which Bottlerocket has no setting for.
func pods(machine corev1.ResourceList, c Config) int64 {
	n := machine.Pods().Value()
	if c.Family == Windows || n == 0 {
		n = 110
	}
	if c.MaxPods > 0 {
		n = int64(c.MaxPods)
	}
	if c.PodsPerCore > 0 {
		n = min(n, int64(c.PodsPerCore)*machine.Cpu().Value())
	}
	return n
}

// Allocatable is the capacity of a node less what its kubelet reserves and less the hard eviction
// thresholds. What c does not say, the boot software of the family fills in.
func Allocatable(machine, capacity corev1.ResourceList, c Config) corev1.ResourceList {
	out := capacity.DeepCopy()
	for name, defaults := range map[corev1.ResourceName]int64{
		corev1.ResourceCPU:              reservedMilliCPU(machine.Cpu().Value()),
		corev1.ResourceMemory:           reservedMemory(machine, capacity, c),
		corev1.ResourceEphemeralStorage: gibi,
	} {
		q, ok := capacity[name]
		if !ok {
			continue
		}
		if name == corev1.ResourceCPU {
			left := q.MilliValue() - reservedAmount(c.KubeReserved, name, defaults, true) - reservedAmount(c.SystemReserved, name, 0, true)
			out[name] = *resource.NewMilliQuantity(max(left, 0), resource.DecimalSI)
			continue
		}
		left := q.Value() - reservedAmount(c.KubeReserved, name, defaults, false) - reservedAmount(c.SystemReserved, name, 0, false) -
			evictionThreshold(name, q.Value(), c.EvictionHard)
		out[name] = *resource.NewQuantity(max(left, 0), resource.BinarySI)
	}
	return out
}

// reservedAmount of a reservation, or what applies when it is not given.
func reservedAmount(list map[string]string, name corev1.ResourceName, otherwise int64, milli bool) int64 {
	text, ok := list[string(name)]
	if !ok {
		return otherwise
	}
	q, err := parseQuantity(text)
	switch {
	case err != nil:
		return otherwise // ParseUserData refuses it
	case milli:
		return min(q.MilliValue(), most)
	}
	return min(q.Value(), most)
}

// reservedMilliCPU is 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the
// rest, each slice cut to whole millicores.
func reservedMilliCPU(cores int64) int64 {
	var sum int64
	for _, slice := range []struct{ cores, per100k int64 }{{1, 6000}, {1, 1000}, {2, 500}, {math.MaxInt64, 250}} {
		n := min(max(cores, 0), slice.cores)
		sum += n * slice.per100k / 100
		cores -= n
	}
	return sum
}

// reservedMemory counts the pods that the network interfaces allow, except in the families that count
// those the kubelet takes.
func reservedMemory(machine, capacity corev1.ResourceList, c Config) int64 {
	n := machine.Pods().Value()
	if c.Family == Bottlerocket || c.Family == Windows || n == 0 {
		n = capacity.Pods().Value()
	}
	return (11*n + 255) * mebi
}

func evictionThreshold(name corev1.ResourceName, capacity int64, hard map[string]string) int64 {
	signal, otherwise := "memory.available", "100Mi"
	if name == corev1.ResourceEphemeralStorage {
		signal, otherwise = "nodefs.available", "10%"
	}
	text, ok := hard[signal]
	if !ok {
		text = otherwise
	}
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		share, err := strconv.ParseFloat(percent, 64)
		if err != nil || share >= 100 {
			return 0 // 100 % turns the threshold off
		}
		return int64(math.Ceil(float64(capacity) * share / 100))
	}
	q, err := parseQuantity(text)
	if err != nil {
		return 0
	}
	return min(q.Value(), most)
}
