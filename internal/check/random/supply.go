package random

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

const gib = 1 << 30

// vec has millicores, GiB, pods and GPUs.
func (m *maker) vec(milli, memory, pods, gpus int64) resources.Vec {
	return m.table.Requests(quantities(milli, memory*gib, pods, gpus))
}

func (m *maker) makeTypes() {
	for i := range 1 + m.IntN(m.Types) {
		m.types = append(m.types, m.instanceType(i))
	}
}

func (m *maker) instanceType(i int) catalog.InstanceType {
	cores := int64(1) << m.IntN(5)
	ratio := pick(m, int64(2), 4, 8)
	family := pick(m, "c", "m", "r")
	t := catalog.InstanceType{
		Name: family + "." + strconv.Itoa(i),
		Labels: reqs.Set{
			corev1.LabelArchStable:     in(pick(m, "amd64", "amd64", "arm64")),
			corev1.LabelOSStable:       in("linux"),
			corev1.LabelTopologyRegion: in("region"),
			corev1.LabelWindowsBuild:   {},
			familyKey:                  in(family),
		},
		Overhead: m.vec(100, 0, 0, 0),
		Overlaid: m.oneIn(10),
	}
	gpus := int64(0)
	if m.oneIn(8) {
		gpus = 1 + int64(m.IntN(2))
	}
	t.Labels[corev1.LabelInstanceTypeStable] = in(t.Name)
	t.Capacity = m.vec(cores*1000, cores*ratio, pick(m, int64(4), 8, 30), gpus)
	if m.oneIn(5) {
		t.VolumeLimits = map[string]int{driver: m.IntN(4)}
	}
	price := float64(cores)*0.04 + float64(cores*ratio)*0.005 + float64(gpus)*0.5 + float64(m.IntN(4))*0.01
	m.offer(&t, price)
	return t
}

// offer makes a type available in some zones, on demand and as spot, and sometimes from a reservation.
func (m *maker) offer(t *catalog.InstanceType, price float64) {
	for _, zone := range some(m, m.zones) {
		add := func(capacityType string, price float64) *catalog.Offering {
			t.Offerings = append(t.Offerings, catalog.Offering{Zone: zone, CapacityType: capacityType, Price: price, Available: !m.oneIn(8)})
			return &t.Offerings[len(t.Offerings)-1]
		}
		add("on-demand", price)
		if !m.oneIn(3) {
			add("spot", price*pick(m, 0.3, 0.4, 0.5))
		}
		if m.oneIn(10) {
			o := add("reserved", price/1000)
			o.Reservation, o.Remaining = "cr-"+t.Name+"-"+zone, m.IntN(3)
			if m.oneIn(2) { // most clouds label nodes with it
				o.Labels = map[string]string{reservationKey: o.Reservation}
			}
		}
	}
}

func (m *maker) makePools() {
	for i := range 1 + m.IntN(m.Pools) {
		m.view.Pools = append(m.view.Pools, m.pool("pool-"+strconv.Itoa(i)))
	}
}

func (m *maker) pool(name string) cluster.Pool {
	p := cluster.Pool{
		Name: name, Types: m.types, Closed: m.oneIn(20),
		Weight:       pick(m, int32(0), 0, 10, 50),
		Requirements: reqs.Set{poolKey: in(name)},
	}
	if m.oneIn(3) {
		p.Types = some(m, m.types)
	}
	if m.oneIn(4) {
		p.Requirements[zoneKey] = in(some(m, m.zones)...)
	}
	if m.oneIn(3) {
		p.Requirements[capacityKey] = in(some(m, []string{"on-demand", "spot", "reserved"})...)
	}
	if m.oneIn(4) {
		p.Requirements[corev1.LabelArchStable] = pick(m, in("amd64"), in("amd64", "arm64"), notIn("arm64"))
	}
	if m.oneIn(3) {
		p.Requirements[rackKey] = pick(m, in("r1"), in("r1", "r2"), in("r1", "r2", "r3"), reqs.Req{Not: true})
	}
	if m.oneIn(3) {
		p.Requirements[teamKey] = in(pick(m, "red", "blue"))
	}
	m.restrict(&p)
	return p
}

// restrict gives a pool taints, limits and minValues.
func (m *maker) restrict(p *cluster.Pool) {
	if m.oneIn(6) {
		p.Taints = append(p.Taints, corev1.Taint{Key: "dedicated", Value: pick(m, "red", "blue"), Effect: pick(m, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)})
	}
	if m.oneIn(6) {
		p.Taints = append(p.Taints, corev1.Taint{Key: "avoid", Effect: corev1.TaintEffectPreferNoSchedule})
	}
	if m.oneIn(6) {
		p.StartupTaints = []corev1.Taint{{Key: "starting", Effect: corev1.TaintEffectNoSchedule}}
	}
	if m.oneIn(5) {
		p.Limits = append(p.Limits, cluster.Limit{Resource: corev1.ResourceCPU, Remaining: int64(m.IntN(40)-1) * 1000})
	}
	if m.oneIn(10) {
		p.Limits = append(p.Limits, cluster.Limit{Resource: corev1.ResourceMemory, Remaining: int64(m.IntN(100)) * gib})
	}
	if m.oneIn(8) {
		left := int64(m.IntN(5))
		p.NodeLimit = &left
	}
	if m.oneIn(5) {
		key := pick(m, corev1.LabelInstanceTypeStable, familyKey, zoneKey)
		r, found := p.Requirements[key]
		if !found {
			r = reqs.Req{Not: true}
		}
		p.Requirements[key] = r.WithMinValues(1 + m.IntN(3))
	}
}

func (m *maker) makeDaemons() {
	for i := range m.IntN(3) {
		s := cluster.Shape{
			Namespace: "system",
			Labels:    map[string]string{"app": "daemon-" + strconv.Itoa(i)},
			Requests:  m.vec(pick(m, int64(0), 50, 100, 300), 0, 1, 0),
			Required:  []reqs.Set{{}},
		}
		switch m.IntN(6) {
		case 0:
			s.Required = []reqs.Set{{corev1.LabelArchStable: in("amd64")}}
		case 1:
			s.Required = []reqs.Set{{zoneKey: in(m.zones[0])}}
		case 2:
			s.Required = []reqs.Set{{teamKey: in("red")}, {capacityKey: in("spot")}}
		}
		if !m.oneIn(3) {
			s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}
		if m.oneIn(3) {
			s.HostPorts = []cluster.HostPort{{IP: "0.0.0.0", Port: 9100, Protocol: "TCP"}}
		}
		m.view.Daemons = append(m.view.Daemons, cluster.Daemon{Key: cluster.PodKey{Namespace: "system", Name: "daemon-" + strconv.Itoa(i)}, Shape: m.intern(s)})
	}
}

// makeNodes adds nodes with pods on them that mostly fit.
func (m *maker) makeNodes(n int) {
	for i := range n {
		m.view.Nodes = append(m.view.Nodes, m.node("node-"+strconv.Itoa(i)))
	}
}

func (m *maker) node(name string) cluster.Node {
	t := &m.types[m.IntN(len(m.types))]
	o := &t.Offerings[m.IntN(len(t.Offerings))]
	n := cluster.Node{
		Name: name, Claim: "claim-" + name, InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price,
		Capacity: t.Capacity, Allocatable: t.Allocatable(), VolumeLimits: t.VolumeLimits,
		Initialized: !m.oneIn(8), Deleting: m.oneIn(10), Settling: m.oneIn(10),
		Labels: map[string]string{corev1.LabelHostname: name, zoneKey: o.Zone, capacityKey: o.CapacityType},
	}
	for key, r := range t.Labels {
		if len(r.Values) == 1 {
			n.Labels[key] = r.Values[0]
		}
	}
	if m.oneIn(10) { // not managed by this controller
		n.Claim, n.Price, n.Initialized = "", 0, true
	} else {
		m.belong(&n, &m.view.Pools[m.IntN(len(m.view.Pools))])
	}
	if !n.Initialized && m.oneIn(3) { // only claimed so far: it may land in several zones, and no pod runs there
		n.Needs = reqs.Set{zoneKey: in(some(m, m.zones)...)}
		n.Labels[zoneKey] = n.Needs[zoneKey].Values[0]
		if len(n.Needs[zoneKey].Values) > 1 {
			delete(n.Labels, zoneKey)
		}
		return n
	}
	m.populate(&n)
	return n
}

// belong makes a node one of a pool, with labels and taints of it.
func (m *maker) belong(n *cluster.Node, p *cluster.Pool) {
	n.Pool = p.Name
	n.Labels[poolKey] = p.Name
	n.Taints = slices.Clone(p.Taints)
	for _, key := range []string{rackKey, teamKey} {
		if r := p.Requirements[key]; len(r.Values) > 0 {
			n.Labels[key] = r.Values[m.IntN(len(r.Values))]
		}
	}
}

// populate puts pods on a node while there is room, and now and then one too many.
func (m *maker) populate(n *cluster.Node) {
	free := n.Allocatable
	for i := range m.view.Daemons {
		if m.oneIn(2) {
			d := &m.view.Daemons[i]
			pod := cluster.Pod{Key: cluster.PodKey{Namespace: "system", Name: d.Key.Name + "-" + n.Name}, Shape: d.Shape, Daemon: true, Stays: true}
			n.Pods = append(n.Pods, pod)
			free = resources.Sub(free, d.Shape.Requests)
		}
	}
	for range m.IntN(6) {
		p := m.pod(m.workload())
		if len(p.Shape.Invalid) > 0 || !resources.Fits(&p.Shape.Requests, &free) && !m.oneIn(20) {
			continue
		}
		p.Terminating, p.Stays = m.oneIn(12), m.oneIn(12)
		n.Pods = append(n.Pods, p)
		free = resources.Sub(free, p.Shape.Requests)
	}
	slices.SortFunc(n.Pods, func(a, b cluster.Pod) int { return compareKeys(a.Key, b.Key) })
}
