package families

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/scenario"
)

// machine is a node of a scenario while pods are put on it.
type machine struct {
	pool, kind, zone, capacity string
	row                        *row
	cpu, memory, slots         int // that are left
	pods                       []*corev1.PodTemplateSpec
	apps                       map[string]int
}

func (m *maker) machine(pool, kind, zone, capacity string) *machine {
	r := m.row(kind)
	return &machine{
		pool: pool, kind: kind, zone: zone, capacity: capacity, row: r, apps: map[string]int{},
		cpu: r.vcpu*1000 - overheadCPU - 200, memory: r.capacityMiB() - r.overheadMiB() - 256, slots: r.maxPods - len(daemons()),
	}
}

// app is a workload: replicas that are alike, and where they may run.
type app struct {
	name     string
	size     size
	template *corev1.PodTemplateSpec
	pool     string // "": any that has no taint
	zone     func(replica int) string
	category string
	perNode  int // 0: any number
}

func anywhere(int) string { return "" }

// kinds of apps, as rules over where their replicas may be.
const (
	plainApp = iota
	zoneSpreadApp
	hostSpreadApp
	apartApp
	togetherApp
	zoneApp
	categoryApp
)

func (m *maker) newApp(i, kind int, s size) *app {
	a := &app{name: fmt.Sprintf("app-%03d", i), size: s, zone: anywhere}
	l := labels{"app": a.name}
	switch kind {
	case zoneSpreadApp:
		first := m.IntN(len(zones()))
		a.template = pod(s, l, spread(zoneKey, 1, l, corev1.DoNotSchedule))
		a.zone = func(replica int) string { return zones()[(first+replica)%len(zones())] }
	case hostSpreadApp:
		a.template, a.perNode = pod(s, l, spread(hostKey, 1, l, corev1.DoNotSchedule)), 1
	case apartApp:
		a.template, a.perNode = pod(s, l, apart(l)), 1
	case togetherApp:
		zone := pick(m, zones())
		a.template, a.zone = pod(s, l, together(zoneKey, l)), func(int) string { return zone }
	case zoneApp:
		zone := pick(m, zones())
		a.template, a.zone = pod(s, l, selecting(labels{zoneKey: zone})), func(int) string { return zone }
	case categoryApp:
		a.category = pick(m, []string{"c", "m", "r"})
		a.template = pod(s, l, selecting(labels{categoryKey: a.category}))
	default:
		a.template = pod(s, l)
	}
	return a
}

// suits reports whether a replica may run on a node and has room there.
func (a *app) suits(n *machine, replica int) bool {
	zone := a.zone(replica)
	return n.cpu >= a.size.cpu && n.memory >= a.size.memory && n.slots > 0 && (zone == "" || zone == n.zone) &&
		(a.category == "" || a.category == n.row.labels()[categoryKey]) && (a.perNode == 0 || n.apps[a.name] < a.perNode) &&
		(a.pool == n.pool || a.pool == "" && n.pool != teamPool)
}

// deploy puts replicas on nodes, each on a random one that suits. It stops at the first that finds none: replicas
// are numbered, and rules hold for the first of them, however many.
func (m *maker) deploy(a *app, replicas int, nodes []*machine) {
	for r := range replicas {
		at := -1
		for _, i := range m.Perm(len(nodes)) {
			if a.suits(nodes[i], r) {
				at = i
				break
			}
		}
		if at < 0 {
			return
		}
		n := nodes[at]
		n.cpu, n.memory, n.slots = n.cpu-a.size.cpu, n.memory-a.size.memory, n.slots-1
		n.apps[a.name]++
		n.pods = append(n.pods, a.template)
	}
}

// addNodes writes nodes down. Those without pods are left out: they would be removed at once, which shows nothing.
func (m *maker) addNodes(nodes []*machine) {
	for i, n := range nodes {
		if len(n.pods) == 0 {
			continue
		}
		node := scenario.Node{
			Name: fmt.Sprintf("node-%04d", i), NodePool: n.pool, InstanceType: n.kind, Zone: n.zone, CapacityType: n.capacity, Pods: m.fold(n.pods),
		}
		if n.pool == teamPool {
			node.Taints = taint(teamPool, "")
		}
		m.scenario.Nodes = append(m.scenario.Nodes, node)
	}
}

// large are the types that a burst leaves behind: pools that are open to all sizes end on such.
func large() []string {
	return []string{"m5a.8xlarge", "m5a.4xlarge", "m6a.2xlarge", "c6i.4xlarge", "r6i.2xlarge", "c6a.8xlarge", "m5.2xlarge", "m7a.4xlarge"}
}

// topology is c3: after a scale-down, apps with every rule over zones and hosts that is common.
func (m *maker) topology(n int) {
	m.describe("%d nodes about a third used after a scale-down: zone spread, host spread, anti-affinity, affinity, node selectors", n)
	m.scenario.NodePools, m.scenario.DaemonSets = []*karpv1.NodePool{generalPool()}, daemons()
	nodes := make([]*machine, n)
	for i := range nodes {
		nodes[i] = m.machine("default", pick(m, running()), zones()[i%len(zones())], "on-demand")
	}
	for i := range 2 * n {
		m.deploy(m.newApp(i, i%7, m.smallSize()), 1+m.IntN(3), nodes)
	}
	m.addNodes(nodes)
}

// fewNodes is c4: a handful of large nodes after a scale-down, some apps spread over zones.
func (m *maker) fewNodes(n int) {
	m.describe("%d nodes after a scale-down, a third of the apps spread over zones", n)
	m.scenario.NodePools, m.scenario.DaemonSets = []*karpv1.NodePool{generalPool()}, daemons()
	nodes := make([]*machine, n)
	for i := range nodes {
		nodes[i] = m.machine("default", pick(m, large()), pick(m, zones()), "on-demand")
	}
	for i := range 3 * n {
		kind := plainApp
		if i%3 == 0 {
			kind = zoneSpreadApp
		}
		if i%8 == 7 {
			kind = pick(m, []int{hostSpreadApp, apartApp, zoneApp, categoryApp})
		}
		s := m.smallSize()
		if i%4 == 1 {
			s = size{2 * s.cpu, 2 * s.memory}
		}
		m.deploy(m.newApp(i, kind, s), 1+m.IntN(4), nodes)
	}
	m.addNodes(nodes)
}

// teamPool is tainted, and of the pods only those of its team go there.
const teamPool = "team"

// poolsAndLimits is c5: pools of one team, of spot and of everybody, with limits just above what is there.
func (m *maker) poolsAndLimits(n int) {
	m.describe("%d nodes of three NodePools with limits after a scale-down: general, spot, and one behind a taint", n)
	general, spot := generalPool(), pool("spot", in(archKey, "amd64"), in(capacityKey, "spot"), in(categoryKey, "c", "m", "r"), newer(2))
	team := pool(teamPool, in(archKey, "amd64"), in(capacityKey, "on-demand"), in(categoryKey, "m", "r"), newer(2))
	team.Spec.Template.Spec.Taints = taint(teamPool, "")
	spot.Spec.Weight = new(int32(10))
	m.scenario.NodePools, m.scenario.DaemonSets = []*karpv1.NodePool{general, spot, team}, daemons()
	cores := map[string]int{}
	nodes := make([]*machine, n)
	for i := range nodes {
		name, kind, capacity := general.Name, pick(m, large()), "on-demand"
		switch i % 5 {
		case 1, 3:
			name, capacity = spot.Name, "spot"
		case 2:
			name, kind = teamPool, pick(m, []string{"m5a.4xlarge", "m6a.2xlarge", "r6i.2xlarge", "m5.2xlarge"})
		}
		nodes[i] = m.machine(name, kind, pick(m, zones()), capacity)
		cores[name] += nodes[i].row.vcpu
	}
	for i := range 3 * n {
		a := m.newApp(i, []int{plainApp, zoneSpreadApp, plainApp, apartApp, hostSpreadApp, zoneApp}[i%6], m.smallSize())
		switch i % 5 {
		case 2:
			a.pool = teamPool
			tolerating(corev1.Toleration{Key: teamPool, Operator: corev1.TolerationOpExists})(&a.template.Spec)
			a.template.Spec.NodeSelector = labels{karpv1.LabelNodePool: teamPool}
		case 3:
			a.pool = general.Name
			a.template.Spec.NodeSelector = labels{capacityKey: "on-demand"}
		}
		m.deploy(a, 1+m.IntN(4), nodes)
	}
	for _, p := range m.scenario.NodePools {
		p.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(cores[p.Name]+4), resource.DecimalSI)}
	}
	m.addNodes(nodes)
}
