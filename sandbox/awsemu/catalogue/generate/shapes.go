package main

// instance is the part of a source record that we read.
type instance struct {
	Name         string                  `json:"instance_type"`
	VCPU         int                     `json:"vCPU"`
	MemoryGiB    float64                 `json:"memory"`
	Arch         []string                `json:"arch"`
	Processor    string                  `json:"physical_processor"`
	Clock        string                  `json:"clock_speed_ghz"` // "3.1 GHz", "Up to 3.5 GHz" or null
	Generation   string                  `json:"generation"`
	EBSMbps      int                     `json:"ebs_max_bandwidth"`
	EBSNVMe      bool                    `json:"ebs_as_nvme"`
	GPUs         int                     `json:"GPU"`
	GPUModel     string                  `json:"GPU_model"`
	GPUMemoryGiB int                     `json:"GPU_memory"` // of all GPUs together
	Cluster      bool                    `json:"placement_group_support"`
	Network      string                  `json:"network_performance"` // "Up to 12.5 Gigabit", "4x 100 Gigabit", "Moderate"
	Zones        map[string][]string     `json:"availability_zones"`
	Pricing      map[string]regionPrices `json:"pricing"`
	VPC          struct {
		MaxENIs   int `json:"max_enis"`
		IPsPerENI int `json:"ips_per_eni"`
	} `json:"vpc"`
	Storage *struct {
		Devices int  `json:"devices"`
		SizeGB  int  `json:"size"`
		NVMe    bool `json:"nvme_ssd"`
	} `json:"storage"`
}

type regionPrices struct {
	Linux prices `json:"linux"`
}

type prices struct {
	OnDemand string   `json:"ondemand"`
	Spot     []string `json:"spot"` // sorted, one per zone, without the names of the zones
}

// document and record are what package catalogue reads; its record.go has the same tags.
type document struct {
	Source, Region string
	Types          []record
}

type record struct {
	Name       string    `json:"name"`
	VCPU       int       `json:"vcpu"`
	MemoryMiB  int       `json:"mib"`
	Arch       []string  `json:"arch"`
	Processor  string    `json:"cpu"`
	ClockGHz   float64   `json:"ghz,omitempty"`
	Current    bool      `json:"current,omitempty"`
	MaxENIs    int       `json:"enis"`
	IPv4PerENI int       `json:"ips"`
	EBSMbps    int       `json:"ebs,omitempty"`
	EBSNVMe    bool      `json:"ebsNVMe,omitempty"`
	Disks      int       `json:"disks,omitempty"`
	DiskGB     int       `json:"diskGB,omitempty"`
	GPUs       int       `json:"gpus,omitempty"`
	GPUModel   string    `json:"gpu,omitempty"`
	GPUMiB     int       `json:"gpuMiB,omitempty"`
	Cluster    bool      `json:"cluster,omitempty"`
	Zones      string    `json:"zones"`
	OnDemand   float64   `json:"usd"`
	Spot       []float64 `json:"spot,omitempty"`

	NetworkMbps int `json:"-"` // for the table only; 0: the source has a word for it
}
