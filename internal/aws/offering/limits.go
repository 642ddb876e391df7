package offering

import (
	_ "embed"
	"math"
	"strconv"
	"strings"
)

// limits.txt holds what EC2 documents but its API does not say of every type, one type per line: name,
// baseline network bandwidth in Mbps, branch interfaces of its trunk (0: it has no trunk). A dash means
// not known. Sorted by name.
//
//go:embed limits.txt
var limitLines string

// limit is one line. What is not known is zero.
type limit struct{ bandwidth, branches int64 }

func readLimits(lines string) map[string]limit {
	limits := make(map[string]limit, strings.Count(lines, "\n"))
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		bandwidth, _ := strconv.ParseInt(fields[1], 10, 64)
		branches, _ := strconv.ParseInt(fields[2], 10, 64)
		limits[fields[0]] = limit{bandwidth: max(0, bandwidth), branches: max(0, branches)}
	}
	return limits
}

// bandwidth is the baseline of all network cards in Mbps: what EC2 says, else what is built in; 0 if
// neither knows.
func (m *machine) bandwidth(limits map[string]limit) int64 {
	gbps := 0.0
	if m.info.NetworkInfo != nil {
		for _, card := range m.info.NetworkInfo.NetworkCards {
			if card.BaselineBandwidthInGbps != nil {
				gbps += *card.BaselineBandwidthInGbps
			}
		}
	}
	if gbps > 0 {
		return int64(math.Round(gbps * 1000))
	}
	return limits[m.name].bandwidth
}
