package bench

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
)

// Phase is what a part of the benchmark took, of the whole process.
type Phase struct {
	Name     string             `json:"name"`
	Wall     float64            `json:"wallSeconds"`
	CPU      float64            `json:"cpuSeconds"`
	PeakRSS  int64              `json:"peakRSSBytes"` // since the start of the process
	Heap     int64              `json:"heapBytes"`    // in use at the end of the phase, garbage included
	Requests int                `json:"apiRequests"`  // that the API server served
	AWSCalls int                `json:"awsCalls"`
	Parts    map[string]float64 `json:"cpuSecondsByPart"` // from samples, scaled to CPU
}

// measurePhase runs a phase under the profiler.
func measurePhase(name string, calls func() int, phase func() error) (Phase, error) {
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		return Phase{}, err
	}
	began, cpu, requests, before := time.Now(), cpuSeconds(), apiRequests(), calls()
	err := phase()
	m := Phase{Name: name, Wall: time.Since(began).Seconds(), CPU: cpuSeconds() - cpu, PeakRSS: peakRSS(), Heap: heapInUse()}
	m.Requests, m.AWSCalls = apiRequests()-requests, max(0, calls()-before)
	pprof.StopCPUProfile()
	parts, readErr := cpuByPart(profile.Bytes(), m.CPU)
	m.Parts = parts
	return m, errors.Join(err, readErr)
}

const (
	partLabel  = "part"       // that controlplane and world put on what they start
	unlabelled = "Go runtime" // collecting garbage in the background, and looking for work
)

// cpuByPart splits CPU seconds as the samples of a profile are. The profiler itself misses some.
func cpuByPart(text []byte, cpu float64) (map[string]float64, error) {
	p, err := readProfile(text)
	if err != nil {
		return nil, err
	}
	out, sum := map[string]float64{}, 0.0
	for _, s := range p.samples {
		if len(s.values) == 0 {
			return nil, errProfile
		}
		times := float64(s.values[0])
		out[partOf(p.sampleLabel(s, partLabel))] += times
		sum += times
	}
	for part, times := range out {
		out[part] = cpu * times / sum
	}
	return out, nil
}

// partOf names the part that a step of the start belongs to.
func partOf(label string) string {
	switch label {
	case "":
		return unlabelled
	case "AWS":
		return "awsemu"
	case "nodes":
		return "fakenode"
	}
	return label
}

// cpuSeconds is what the process used so far, in user and system mode.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return time.Duration(t.Nano()).Seconds() }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

func peakRSS() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return usage.Maxrss
	}
	return usage.Maxrss << 10
}

func heapInUse() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// apiRequests is how many requests the API server of this process served.
func apiRequests() int {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return 0
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() != "apiserver_request_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			total += m.GetCounter().GetValue()
		}
	}
	return int(total)
}

// loadAverage of the machine over the last minutes; empty where it is not known.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
