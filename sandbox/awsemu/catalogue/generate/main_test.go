package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestProject(t *testing.T) {
	t.Parallel()
	got, err := projectTypes([]byte(`[
		{"instance_type":"z9.large","vCPU":2,"memory":1.7,"arch":["i386","x86_64"],"physical_processor":"Intel Xeon","clock_speed_ghz":"Up to 3.5 GHz",
		 "generation":"current","ebs_max_bandwidth":4750,"ebs_as_nvme":true,"GPU":2,"GPU_model":"NVIDIA T4","GPU_memory":32,"placement_group_support":true,
		 "vpc":{"max_enis":3,"ips_per_eni":10},"storage":{"devices":2,"size":75,"nvme_ssd":true},
		 "availability_zones":{"us-east-1":["use1-az2","use1-az6"],"eu-west-1":["euw1-az1"]},
		 "pricing":{"us-east-1":{"linux":{"ondemand":"0.1","spot":["0.03","0.04"]}}}},
		{"instance_type":"a9.large","vCPU":1,"memory":2,"arch":["arm64"],"clock_speed_ghz":null,"GPU_model":null,"vpc":{"max_enis":2,"ips_per_eni":4},
		 "storage":{"devices":1,"size":350,"nvme_ssd":false},"availability_zones":{"us-east-1":["use1-az4"]},
		 "pricing":{"us-east-1":{"linux":{"ondemand":"0.2"}}}},
		{"instance_type":"elsewhere.large","vpc":{"max_enis":2,"ips_per_eni":4},"availability_zones":{"eu-west-1":["euw1-az1"]},"pricing":{}},
		{"instance_type":"gone.large","vpc":null,"availability_zones":null,"pricing":{"us-east-1":{"linux":{"ondemand":"0.2"}}}}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	want := []record{
		{Name: "a9.large", VCPU: 1, MemoryMiB: 2048, Arch: []string{"arm64"}, MaxENIs: 2, IPv4PerENI: 4, Zones: "4", OnDemand: 0.2},
		{
			Name: "z9.large", VCPU: 2, MemoryMiB: 1740, Arch: []string{"x86_64"}, Processor: "Intel Xeon", ClockGHz: 3.5, Current: true,
			MaxENIs: 3, IPv4PerENI: 10, EBSMbps: 4750, EBSNVMe: true, Disks: 2, DiskGB: 75, GPUs: 2, GPUModel: "NVIDIA T4", GPUMiB: 32768,
			Cluster: true, Zones: "26", OnDemand: 0.1, Spot: []float64{0.03, 0.04},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("project():\n%+v\nwant\n%+v", got, want)
	}
}

func TestProjectRefusesNonsense(t *testing.T) {
	t.Parallel()
	const frame = `[{"instance_type":"a.b","clock_speed_ghz":"CLOCK","vpc":{"max_enis":2},"availability_zones":{"us-east-1":["use1-az4"]},
		"pricing":{"us-east-1":{"linux":{"ondemand":"PRICE","spot":["SPOT"]}}}}]`
	for name, values := range map[string][]string{
		"clock speed":     {"CLOCK", "fast", "PRICE", "1", "SPOT", "1"},
		"on-demand price": {"CLOCK", "1 GHz", "PRICE", "dear", "SPOT", "1"},
		"spot price":      {"CLOCK", "1 GHz", "PRICE", "1", "SPOT", "cheap"},
	} {
		_, err := projectTypes([]byte(strings.NewReplacer(values...).Replace(frame)))
		if err == nil || !strings.Contains(err.Error(), "a.b: "+name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Needs the data module, which `go mod download` fetches. The texts are compared: compression may
// differ from one Go to the next.
func TestFileIsCurrent(t *testing.T) {
	t.Parallel()
	var fresh bytes.Buffer
	if err := run(t.Context(), &fresh, false); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("../types.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(unpackGzip(t, fresh.Bytes()), unpackGzip(t, file)) {
		t.Error("types.json.gz is out of date: go run . > ../types.json.gz")
	}
}

// The same for the table that scenarios are made of.
func TestTableIsCurrent(t *testing.T) {
	t.Parallel()
	var fresh bytes.Buffer
	if err := run(t.Context(), &fresh, true); err != nil {
		t.Fatal(err)
	}
	const name = "../../../../internal/scenario/families/types.csv"
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(fresh.Bytes(), file) {
		t.Errorf("types.csv is out of date: go run . -table > %s", name)
	}
}

func TestNetworkMbps(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"Up to 12.5 Gigabit": 12500, "4x 100 Gigabit": 400000, "25 Gigabit": 25000, "Moderate": 0, "": 0} {
		if got := networkMbps(text); got != want {
			t.Errorf("networkMbps(%q) = %d, want %d", text, got, want)
		}
	}
}

func unpackGzip(t *testing.T, data []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
