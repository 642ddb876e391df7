package catalogue

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDevices(t *testing.T) {
	t.Parallel()
	c := load(t)
	for name, want := range map[string]Type{
		"p3dn.24xlarge":  {GPUs: []GPU{{Name: "V100", Manufacturer: "NVIDIA", Count: 8, MemoryMiB: 32768}}},
		"p4d.24xlarge":   {GPUs: []GPU{{Name: "A100", Manufacturer: "NVIDIA", Count: 8, MemoryMiB: 40960}}},
		"p5.48xlarge":    {GPUs: []GPU{{Name: "H100", Manufacturer: "NVIDIA", Count: 8, MemoryMiB: 81920}}},
		"g5.xlarge":      {GPUs: []GPU{{Name: "A10G", Manufacturer: "NVIDIA", Count: 1, MemoryMiB: 22888}}},
		"g6.48xlarge":    {GPUs: []GPU{{Name: "L4", Manufacturer: "NVIDIA", Count: 8, MemoryMiB: 22888}}},
		"g6e.12xlarge":   {GPUs: []GPU{{Name: "L40S", Manufacturer: "NVIDIA", Count: 4, MemoryMiB: 45776}}},
		"g5g.xlarge":     {GPUs: []GPU{{Name: "T4g", Manufacturer: "NVIDIA", Count: 1, MemoryMiB: 16384}}},
		"g4ad.8xlarge":   {GPUs: []GPU{{Name: "Radeon Pro V520", Manufacturer: "AMD", Count: 2, MemoryMiB: 8192}}},
		"trn1n.32xlarge": {Neuron: []Neuron{{Name: "Trainium", Count: 16, Cores: 2}}},
		"inf1.24xlarge": {
			Accelerators: []Accelerator{{Name: "Inferentia", Manufacturer: "AWS", Count: 16}},
			Neuron:       []Neuron{{Name: "Inferentia", Count: 16, Cores: 4}},
		},
		"inf2.48xlarge": {
			Accelerators: []Accelerator{{Name: "Inferentia2", Manufacturer: "AWS", Count: 12}},
			Neuron:       []Neuron{{Name: "Inferentia2", Count: 12, Cores: 2}},
		},
		"m5.large": {},
	} {
		kind, _ := c.Type(name)
		got := Type{GPUs: kind.GPUs, Accelerators: kind.Accelerators, Neuron: kind.Neuron}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("devices of %s (-want +got):\n%s", name, diff)
		}
	}
}

// Rules that no named type shows.
func TestRules(t *testing.T) {
	t.Parallel()
	c := load(t)
	for name, want := range map[string]struct {
		threads, efa            int
		ena, encrypts, enclaves bool
		feature                 bool
	}{
		"t2.medium":      {threads: 1},
		"m4.large":       {threads: 2},
		"m4.16xlarge":    {threads: 2, ena: true},
		"i3.metal":       {threads: 2, ena: true},
		"m6a.large":      {threads: 2, ena: true, encrypts: true, feature: true},
		"m6a.48xlarge":   {threads: 2, ena: true, encrypts: true, enclaves: true, efa: 1},
		"m7a.large":      {threads: 1, ena: true, encrypts: true},
		"m7i.2xlarge":    {threads: 2, ena: true, encrypts: true, enclaves: true},
		"m7i.metal-48xl": {threads: 2, ena: true, encrypts: true, efa: 1},
		"c7g.large":      {threads: 1, ena: true, encrypts: true, enclaves: true},
		"c7g.medium":     {threads: 1, ena: true, encrypts: true},
		"i7ie.24xlarge":  {threads: 2, ena: true, encrypts: true, enclaves: true},
		"p5.48xlarge":    {threads: 2, ena: true, encrypts: true, efa: 32},
		"trn1n.32xlarge": {threads: 2, ena: true, encrypts: true, efa: 16},
	} {
		kind, _ := c.Type(name)
		got := want
		got.threads, got.efa, got.ena = kind.ThreadsPerCore, kind.EFAInterfaces, kind.ENA
		got.encrypts, got.enclaves, got.feature = kind.EncryptionInTransit, kind.NitroEnclaves, len(kind.Features) > 0
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
