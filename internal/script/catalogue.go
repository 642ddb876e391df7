package script

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

const (
	onDemand = "on-demand"
	spot     = "spot"
	reserved = "reserved"
)

// machine is an instance type before resource names have lanes.
type machine struct {
	name      string
	capacity  corev1.ResourceList
	overhead  corev1.ResourceList
	labels    map[string]string
	offerings []catalog.Offering
	volumes   map[string]int
	overlaid  bool
	resized   bool
	unsuited  string
}

// builtIn lists the machines that `types` knows: name, cores, GiB, pods, USD an hour, spot.
func builtIn() []string {
	return []string{
		"c5.large cpu=2 memory=4Gi pods=29 price=0.085 spot=0.034",
		"c5.xlarge cpu=4 memory=8Gi pods=58 price=0.17 spot=0.068",
		"c5.2xlarge cpu=8 memory=16Gi pods=58 price=0.34 spot=0.136",
		"m5.large cpu=2 memory=8Gi pods=29 price=0.096 spot=0.0384",
		"m5.xlarge cpu=4 memory=16Gi pods=58 price=0.192 spot=0.0768",
		"m5.2xlarge cpu=8 memory=32Gi pods=58 price=0.384 spot=0.1536",
		"r5.large cpu=2 memory=16Gi pods=29 price=0.126 spot=0.0504",
		"r5.xlarge cpu=4 memory=32Gi pods=58 price=0.252 spot=0.1008",
		"m6g.large cpu=2 memory=8Gi pods=29 price=0.077 spot=0.0308 arch=arm64",
		"g4dn.xlarge cpu=4 memory=16Gi pods=29 price=0.526 spot=0.2104 nvidia.com/gpu=1",
	}
}

// readTypes performs `types`: machines of the built-in list, all of them if none is named.
func readTypes(w *World, l *Line) string {
	wanted := l.Bare()
	for _, text := range builtIn() {
		name, _, _ := strings.Cut(text, " ")
		at := slices.Index(wanted, name)
		if at < 0 && len(wanted) > 0 {
			continue
		}
		if at >= 0 {
			wanted = slices.Delete(wanted, at, at+1)
			if len(wanted) == 0 {
				wanted = []string{""} // none left, which is not the same as none named
			}
		}
		known, err := parseLine(l.Number, "type name="+text)
		if err != nil {
			l.Failf("%v", err)
			continue
		}
		readType(w, known)
	}
	for _, name := range wanted {
		if name != "" {
			l.Failf("%s is not built in; describe it with type name=%s cpu=… price=…", name, name)
		}
	}
	return ""
}

// readType performs `type`; count= makes several that differ in name alone, m-001, m-002, ….
func readType(w *World, l *Line) string {
	m := machine{capacity: l.Amounts(), overhead: l.Resources("overhead"), volumes: l.counts("volumes"), overlaid: l.Flag("overlaid"), resized: l.Flag("capacity-overlaid"), unsuited: l.Text("unsuited"), offerings: l.offerings()}
	for i := range m.offerings {
		m.offerings[i].Available = m.offerings[i].Available && m.unsuited == ""
	}
	cpu, given := m.capacity[corev1.ResourceCPU]
	if !given {
		l.Failf("cpu= is missing; write cpu=4")
	}
	if _, given = m.capacity[corev1.ResourceMemory]; !given {
		m.capacity[corev1.ResourceMemory] = *resource.NewQuantity(cpu.Value()*4<<30, resource.BinarySI)
	}
	if _, given = m.capacity[corev1.ResourcePods]; !given {
		m.capacity[corev1.ResourcePods] = *resourceOf(110)
	}
	name, arch, labels := l.Name("name"), orElse(l.Text("arch"), "amd64"), l.Pairs("label")
	count, numbered := l.Int("count", 1), l.Text("count") != ""
	for i := range count {
		m.name = name
		if numbered {
			m.name += fmt.Sprintf("-%03d", i+1)
		}
		m.labels = machineLabels(m.name, arch, cpu.Value())
		maps.Copy(m.labels, labels)
		w.types = slices.DeleteFunc(w.types, func(o machine) bool { return o.name == m.name })
		w.types = append(w.types, m)
	}
	return ""
}

// machineLabels are those a name such as c5.xlarge implies.
func machineLabels(name, arch string, cores int64) map[string]string {
	family, size, _ := strings.Cut(name, ".")
	labels := map[string]string{
		corev1.LabelInstanceTypeStable: name, corev1.LabelArchStable: arch, corev1.LabelOSStable: "linux",
		corev1.LabelTopologyRegion: "region-1", labelFamily: family, labelCPUs: strconv.FormatInt(cores, 10),
		labelCategory: family[:strings.IndexAny(family+"0", "0123456789")],
	}
	if size != "" {
		labels[labelSize] = size
	}
	return labels
}

// reservedShare is what the price of reserved capacity is of the price on demand, as clouds have it: it is paid for in any case.
const reservedShare = 10_000_000

// offerings reads price=, spot=, zones=, reserved= and unavailable=.
func (l *Line) offerings() []catalog.Offering {
	zones := l.List("zones")
	if zones == nil {
		zones = []string{"a", "b", "c"}
	}
	slices.Sort(zones)
	var offerings []catalog.Offering
	regular := l.prices("price", zones)
	for _, kind := range []struct{ key, captype string }{{"price", onDemand}, {"spot", spot}} {
		prices := l.prices(kind.key, zones)
		for _, zone := range zones {
			if price, offered := prices[zone]; offered {
				offerings = append(offerings, catalog.Offering{Zone: zone, CapacityType: kind.captype, Price: price, Available: true})
			}
		}
	}
	for _, text := range l.List("reserved") {
		id, rest, _ := strings.Cut(text, ":")
		count, zone, found := strings.Cut(rest, "@")
		n, err := strconv.Atoi(count)
		if err != nil || !found {
			l.Failf("reserved=%s is not id:count@zone; write reserved=cr-1:2@a", text)
		}
		offerings = append(offerings, catalog.Offering{
			Zone: zone, CapacityType: reserved, Price: regular[zone] / reservedShare, Available: true, Reservation: id, Remaining: n,
			Labels: map[string]string{labelReservation: id},
		})
	}
	for _, text := range l.List("unavailable") {
		found := false
		for i := range offerings {
			o := &offerings[i]
			if text == o.Zone+"/"+o.CapacityType || text == o.Reservation {
				o.Available, o.Out, found = false, true, true
			}
		}
		if !found {
			l.Failf("unavailable=%s names no offering; write zone/captype or a reservation", text)
		}
	}
	if len(offerings) == 0 {
		l.Failf("no offering is given; write price=, spot= or reserved=")
	}
	return offerings
}

// prices reads "0.17", the same everywhere, or "0.17@a,0.2@b", offered only there.
func (l *Line) prices(key string, zones []string) map[string]float64 {
	prices := map[string]float64{}
	for _, text := range l.List(key) {
		amount, zone, one := strings.Cut(text, "@")
		price := l.amount(key, amount)
		switch {
		case !one:
			for _, z := range zones {
				prices[z] = price
			}
		case !slices.Contains(zones, zone):
			l.Failf("%s=%s: zone %s is not among zones=; add it there", key, text, zone)
		default:
			prices[zone] = price
		}
	}
	return prices
}

// counts reads "driver:3,other:none"; none is -1.
func (l *Line) counts(key string) map[string]int {
	var counts map[string]int
	pairs := l.Pairs(key)
	for _, name := range slices.Sorted(maps.Keys(pairs)) { // of several faults the first is reported
		if counts == nil {
			counts = map[string]int{}
		}
		text := pairs[name]
		n, err := strconv.Atoi(text)
		if text == "none" {
			n, err = -1, nil
		}
		if err != nil {
			l.Failf("%s=%s:%s is not a count; write %s=driver:3", key, name, text, key)
		}
		counts[name] = n
	}
	return counts
}

// words is the vocabulary of scripts: the core's and what the cloud of builtIn adds.
func words() reqs.Vocabulary {
	return reqs.CoreVocabulary().With(reqs.Vocabulary{
		WellKnownKeys: map[string]bool{labelCategory: true, labelFamily: true, labelSize: true, labelCPUs: true, labelReservation: true},
		Aliases:       map[string]string{"topology.ebs.csi.aws.com/zone": corev1.LabelTopologyZone},
	})
}

// instanceType gives a machine its lanes. Well-known labels that it does not have are absent for
// certain; those of offerings are left open.
func (m *machine) instanceType(table resources.Table) catalog.InstanceType {
	labels := reqs.FromLabels(m.labels, words())
	open := []string{karpv1.LabelNodePool, corev1.LabelTopologyZone, karpv1.LabelCapacityType, labelReservation}
	for key := range words().WellKnownKeys {
		if _, has := labels[key]; !has && !slices.Contains(open, key) {
			labels[key] = reqs.Req{}
		}
	}
	return catalog.InstanceType{
		Name: m.name, Labels: labels, Capacity: table.Capacity(m.capacity), Overhead: table.Requests(m.overhead),
		Offerings: m.offerings, VolumeLimits: m.volumes, Overlaid: m.overlaid, CapacityOverlaid: m.resized, Unsuited: m.unsuited,
	}
}

// price is what a node of this machine costs; 0 if it is not offered so.
func (m *machine) price(zone, captype string) float64 {
	for i := range m.offerings {
		if o := &m.offerings[i]; o.Zone == zone && o.CapacityType == captype {
			return o.Price
		}
	}
	return 0
}
