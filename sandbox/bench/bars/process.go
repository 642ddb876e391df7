package bars

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is what the kernel counts for a process.
type usage struct {
	at   time.Time
	rss  int64         // bytes in memory now
	peak int64         // the most that ever were
	cpu  time.Duration // in user and system mode since the start
}

// userHZ is the unit of times in /proc, which Linux fixed long ago.
const userHZ = 100

// processUsage reads /proc, and so works on Linux only.
func processUsage(pid int) (usage, error) {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		return usage{}, fmt.Errorf("what the controller uses: %w", err)
	}
	stat, err := os.ReadFile(filepath.Join(folder, "stat"))
	if err != nil {
		return usage{}, fmt.Errorf("what the controller uses: %w", err)
	}
	u := usage{at: time.Now()}
	var errRSS, errPeak, errCPU error
	u.rss, errRSS = memoryLine(string(status), "VmRSS:")
	u.peak, errPeak = memoryLine(string(status), "VmHWM:")
	u.cpu, errCPU = cpuTime(string(stat))
	return u, errors.Join(errRSS, errPeak, errCPU)
}

// memoryLine reads a line such as "VmRSS:	  1234 kB".
func memoryLine(status, name string) (int64, error) {
	for line := range strings.Lines(status) {
		rest, found := strings.CutPrefix(line, name)
		if !found {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		return kib << 10, err
	}
	return 0, fmt.Errorf("the kernel says no %s of the controller; has it ended?", name)
}

// cpuTime reads the fields utime and stime. The name of the process comes before them and may hold
// anything, so fields are counted from its end.
func cpuTime(stat string) (time.Duration, error) {
	const utime, stime = 11, 12 // after the name, from 0
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime {
		return 0, errors.New("the kernel says no times of the controller")
	}
	var ticks int64
	for _, text := range []string{fields[utime], fields[stime]} {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / userHZ, nil
}

// averageMillicores is the share of a core between two moments.
func averageMillicores(from, to usage) float64 {
	return 1000 * (to.cpu - from.cpu).Seconds() / max(to.at.Sub(from.at).Seconds(), 1e-9)
}

// loadAverage of the machine over the last minutes; empty where it is not known.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 2 {
		return strings.Join(fields[:3], " ")
	}
	return ""
}
