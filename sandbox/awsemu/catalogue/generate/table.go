package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// zonesInTable are the last digits of the zone ids of us-east-1a, b and c.
const zonesInTable = "246"

// writeTable writes one line per type that scenarios are made of: current, no bare metal, and none of
// the families that are not used for pods.
func writeTable(out io.Writer, source string, types []record) error {
	text := bufio.NewWriter(out)
	fmt.Fprintf(text, "# %s. Written by sandbox/awsemu/catalogue/generate -table; do not edit.\n", source)
	fmt.Fprintln(text, "# Prices are USD an hour; a zone that does not sell the type has none.")
	fmt.Fprintln(text, "name,arch,vcpu,memoryMiB,maxPods,hypervisor,networkMbps,ebsMbps,nvmeGB,devices,maker,model,deviceMiB,onDemand,a,b,c")
	for i := range types {
		if r := &types[i]; isListed(r) {
			fmt.Fprintln(text, strings.Join(tableRow(r), ","))
		}
	}
	return text.Flush()
}

func isListed(r *record) bool {
	family, size, _ := strings.Cut(r.Name, ".")
	unusual := slices.ContainsFunc([]string{"hpc", "u-", "u7"}, func(prefix string) bool { return strings.HasPrefix(family, prefix) })
	return r.Current && !unusual && !strings.HasPrefix(size, "metal") && strings.ContainsAny(r.Zones, zonesInTable)
}

// mostENIs is how many interfaces the first network card has at most. Pods get addresses of that card
// alone.
const mostENIs = 15

func tableRow(r *record) []string {
	arch, hypervisor := "amd64", "xen"
	if slices.Contains(r.Arch, "arm64") {
		arch = "arm64"
	}
	if r.EBSNVMe {
		hypervisor = "nitro"
	}
	maker, model, _ := strings.Cut(r.GPUModel, " ")
	if r.GPUs == 0 {
		maker, model = "", ""
	}
	cells := []string{
		r.Name, arch, strconv.Itoa(r.VCPU), strconv.Itoa(r.MemoryMiB), strconv.Itoa(min(r.MaxENIs, mostENIs)*(r.IPv4PerENI-1) + 2), hypervisor,
		formatNumber(r.NetworkMbps), formatNumber(r.EBSMbps), formatNumber(r.Disks * r.DiskGB),
		formatNumber(r.GPUs), strings.ToLower(maker), strings.ToLower(strings.ReplaceAll(model, " ", "-")), formatNumber(r.GPUMiB),
		strconv.FormatFloat(r.OnDemand, 'f', -1, 64),
	}
	for _, zone := range zonesInTable {
		cells = append(cells, spotPriceInZone(r, zone))
	}
	return cells
}

// spotPriceInZone is the price in a zone: empty where the type is not offered, "-" where it is offered on demand only.
// The source does not say which price is whose, so they are dealt out beginning somewhere in the list.
func spotPriceInZone(r *record, zone rune) string {
	place := strings.IndexRune(r.Zones, zone)
	switch {
	case place < 0:
		return ""
	case len(r.Spot) == 0:
		return "-"
	}
	price := r.Spot[(place+len(r.Name))%len(r.Spot)]
	return strconv.FormatFloat(math.Round(price*1e4)/1e4, 'f', -1, 64)
}

func formatNumber(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// networkMbps reads "Up to 12.5 Gigabit" and "4x 100 Gigabit".
func networkMbps(text string) int {
	words := strings.Fields(strings.TrimPrefix(text, "Up to "))
	if len(words) == 0 || words[len(words)-1] != "Gigabit" {
		return 0
	}
	gigabits := 1.0
	for _, word := range words[:len(words)-1] {
		n, err := strconv.ParseFloat(strings.TrimSuffix(word, "x"), 64)
		if err != nil {
			return 0
		}
		gigabits *= n
	}
	return int(gigabits * 1000)
}
