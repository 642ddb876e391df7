package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// usage is what a stretch of work took.
type usage struct {
	WallMs     float64 `json:"wallMs"`
	CPUMs      float64 `json:"cpuMs"` // user and system time of the process
	Allocs     uint64  `json:"allocs"`
	AllocMiB   float64 `json:"allocMiB"`
	BaseRSSMiB float64 `json:"baseRssMiB"` // before, with the scenario loaded and garbage collected
	PeakRSSMiB float64 `json:"peakRssMiB"` // the kernel's high-water mark over the stretch
}

// meter measures a stretch of work.
type meter struct {
	start  time.Time
	cpu    time.Duration
	memory runtime.MemStats
	base   float64
}

// startMeter collects garbage and resets the kernel's peak mark, so that the peak is that of what
// follows and not of reading the scenario. Where the kernel has no such mark, figures read zero.
func startMeter() *meter {
	runtime.GC()
	debug.FreeOSMemory()
	m := &meter{base: residentMiB("VmRSS:")}
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	runtime.ReadMemStats(&m.memory)
	m.cpu = cpuTime()
	m.start = time.Now()
	return m
}

func (m *meter) stop() usage {
	wall, cpu := time.Since(m.start), cpuTime()-m.cpu
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	return usage{
		WallMs:     millis(wall),
		CPUMs:      millis(cpu),
		Allocs:     after.Mallocs - m.memory.Mallocs,
		AllocMiB:   float64(after.TotalAlloc-m.memory.TotalAlloc) / (1 << 20),
		BaseRSSMiB: m.base,
		PeakRSSMiB: residentMiB("VmHWM:"),
	}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// residentMiB reads one line of what the kernel says about this process.
func residentMiB(field string) float64 {
	data, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == field {
			kib, _ := strconv.Atoi(f[1])
			return float64(kib) / 1024
		}
	}
	return 0
}
