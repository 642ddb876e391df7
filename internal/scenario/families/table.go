package families

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/scenario"
)

//go:embed types.csv
var packedTable string

const (
	instanceLabel = "karpenter.k8s.aws/instance-"
	mebi          = 1 << 20
)

func zones() []string { return []string{"us-east-1a", "us-east-1b", "us-east-1c"} }

// row is one instance type of the table.
type row struct {
	name, arch, hypervisor, maker, model                                       string
	vcpu, memoryMiB, maxPods, networkMbps, ebsMbps, nvmeGB, devices, deviceMiB int
	onDemand                                                                   float64
	spot                                                                       [3]float64 // by zone; 0: not offered as spot
	offered                                                                    [3]bool
}

// readTable reads the table that the sandbox's generator writes.
func readTable(text string) ([]row, error) {
	reader := csv.NewReader(strings.NewReader(text))
	reader.Comment = '#'
	lines, err := reader.ReadAll()
	if err != nil {
		return nil, err
	}
	rows := make([]row, 0, len(lines))
	for _, line := range lines[min(1, len(lines)):] {
		r, err := readRow(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line[0], err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func readRow(cells []string) (row, error) {
	const zoneCells = 14 // the first of three
	r := row{name: cells[0], arch: cells[1], hypervisor: cells[5], maker: cells[10], model: cells[11]}
	for at, field := range []*int{
		2: &r.vcpu, 3: &r.memoryMiB, 4: &r.maxPods, 6: &r.networkMbps, 7: &r.ebsMbps, 8: &r.nvmeGB, 9: &r.devices, 12: &r.deviceMiB,
	} {
		if field == nil || cells[at] == "" {
			continue
		}
		n, err := strconv.Atoi(cells[at])
		if err != nil {
			return row{}, err
		}
		*field = n
	}
	var err error
	if r.onDemand, err = strconv.ParseFloat(cells[13], 64); err != nil {
		return row{}, err
	}
	for zone, cell := range cells[zoneCells:] {
		r.offered[zone] = cell != ""
		if cell == "" || cell == "-" {
			continue
		}
		if r.spot[zone], err = strconv.ParseFloat(cell, 64); err != nil {
			return row{}, err
		}
	}
	return r, nil
}

// Memory is what EC2 states less what firmware and kernel keep; overhead is what the kubelet reserves.
func (r *row) capacityMiB() int { return r.memoryMiB * 925 / 1000 }
func (r *row) overheadMiB() int { return 255 + 11*r.maxPods }

const overheadCPU = 80 // thousandths of a core

func instanceTypes(table []row) []scenario.InstanceType {
	types := make([]scenario.InstanceType, 0, len(table))
	for i := range table {
		r := &table[i]
		t := scenario.InstanceType{
			Name: r.name, Arch: r.arch, OS: []string{"linux"}, Labels: r.labels(),
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU:              *resource.NewQuantity(int64(r.vcpu), resource.DecimalSI),
				corev1.ResourceMemory:           *resource.NewQuantity(int64(r.capacityMiB())*mebi, resource.BinarySI),
				corev1.ResourcePods:             *resource.NewQuantity(int64(r.maxPods), resource.DecimalSI),
				corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
			},
			Overhead: requests(overheadCPU, r.overheadMiB()),
		}
		if name := r.device(); name != "" {
			t.Capacity[name] = *resource.NewQuantity(int64(r.devices), resource.DecimalSI)
		}
		for zone, name := range zones() {
			if r.offered[zone] {
				t.Offerings = append(t.Offerings, scenario.Offering{Zone: name, CapacityType: "on-demand", Price: r.onDemand, Available: true})
			}
			if r.spot[zone] > 0 {
				t.Offerings = append(t.Offerings, scenario.Offering{Zone: name, CapacityType: "spot", Price: r.spot[zone], Available: true})
			}
		}
		types = append(types, t)
	}
	return types
}

// device is the extended resource that a type has; AWS's own accelerators are not GPUs.
func (r *row) device() corev1.ResourceName {
	switch {
	case r.devices == 0:
		return ""
	case r.maker == "aws":
		return "aws.amazon.com/neuron"
	default:
		return corev1.ResourceName(r.maker + ".com/gpu")
	}
}

func (r *row) labels() map[string]string {
	family, size, _ := strings.Cut(r.name, ".")
	digits := strings.IndexAny(family, "0123456789")
	labels := map[string]string{
		"category": family[:digits], "generation": family[digits : digits+1], "family": family, "size": size,
		"cpu": strconv.Itoa(r.vcpu), "memory": strconv.Itoa(r.memoryMiB), "hypervisor": r.hypervisor,
	}
	for name, n := range map[string]int{"network-bandwidth": r.networkMbps, "ebs-bandwidth": r.ebsMbps, "local-nvme": r.nvmeGB} {
		if n > 0 {
			labels[name] = strconv.Itoa(n)
		}
	}
	if r.devices > 0 && r.maker != "aws" {
		labels["gpu-name"], labels["gpu-manufacturer"], labels["gpu-count"] = r.model, r.maker, strconv.Itoa(r.devices)
		labels["gpu-memory"] = strconv.Itoa(r.deviceMiB)
	}
	full := make(map[string]string, len(labels))
	// any order: each name has an entry of its own
	for name, value := range labels {
		full[instanceLabel+name] = value
	}
	return full
}
