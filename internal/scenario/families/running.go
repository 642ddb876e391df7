package families

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/scenario"
)

// running are the types that the nodes of a scenario have: common ones, none of them the cheapest.
func running() []string {
	return []string{"m5.xlarge", "m5.2xlarge", "m6a.xlarge", "m6a.2xlarge", "c6i.2xlarge", "c6a.4xlarge", "r6i.xlarge", "m7a.2xlarge"}
}

func (m *maker) row(name string) *row {
	i := slices.IndexFunc(m.table, func(r row) bool { return r.name == name })
	if i < 0 {
		m.err = fmt.Errorf("the table of instance types lacks %s", name)
		return &row{}
	}
	return &m.table[i]
}

// fill returns sizes of so many pods that use about a share of a node, once the DaemonSets have
// theirs. Memory is used less than cpu, by a different degree in each pod.
func (m *maker) fill(r *row, share float64, pods int) []size {
	cpu, memory := float64(r.vcpu*1000-overheadCPU-200), float64(r.capacityMiB()-r.overheadMiB()-256)
	parts, total := make([]float64, pods), 0.0
	for i := range parts {
		parts[i] = m.between(0.3, 1.7)
		total += parts[i]
	}
	sizes := make([]size, 0, pods)
	for _, part := range parts {
		of := share * part / total
		sizes = append(sizes, size{max(10, step(cpu*of, 10)), max(16, step(memory*of*m.between(0.4, 1), 16))})
	}
	return sizes
}

// step rounds down to a multiple.
func step(n float64, multiple int) int { return int(math.Floor(n)) / multiple * multiple }

func (m *maker) addNode(i int, instanceType string, pods []*corev1.PodTemplateSpec) {
	m.scenario.Nodes = append(m.scenario.Nodes, scenario.Node{
		Name: fmt.Sprintf("node-%04d", i), NodePool: "default", InstanceType: instanceType, Zone: zones()[i%len(zones())],
		CapacityType: "on-demand", Pods: m.fold(pods),
	})
}

// fullCluster is s5: as many nodes as the size says, nearly full, and as many pods waiting.
func (m *maker) fullCluster(n int) {
	const podsPerNode, apps, skew = 10, 50, 5
	m.describe("%d nodes, 80 to 99%% full with %d pods; %d waiting: 60%% plain, 20%% zone spread, 10%% host anti-affinity, 10%% zone selector", n, n*podsPerNode, n)
	m.scenario.NodePools, m.scenario.DaemonSets = []*karpv1.NodePool{generalPool()}, daemons()
	names := make([]string, apps)
	for i := range names {
		names[i] = fmt.Sprintf("app-%02d", i)
	}
	for i := range n {
		kind := running()[i%len(running())]
		spreading := sample(m, 3, names)
		var pods []*corev1.PodTemplateSpec
		for k, s := range m.fill(m.row(kind), m.between(0.80, 0.995), podsPerNode) {
			switch {
			case k == 0 && i%10 == 0:
				l := labels{"solo": spreading[0]}
				pods = append(pods, pod(s, l, apart(l)))
			case k < len(spreading):
				l := labels{"app": spreading[k]}
				pods = append(pods, pod(s, l, spread(zoneKey, skew, l, corev1.DoNotSchedule)))
			default:
				pods = append(pods, pod(s, labels{"app": "other"}))
			}
		}
		m.addNode(i, kind, pods)
	}
	var waiting []*corev1.PodTemplateSpec
	for i := range n {
		app := pick(m, names)
		switch kind := i % 10; {
		case kind < 6:
			waiting = append(waiting, pod(m.smallSize(), labels{"app": "other"}))
		case kind < 8:
			l := labels{"app": app}
			waiting = append(waiting, pod(m.smallSize(), l, spread(zoneKey, skew, l, corev1.DoNotSchedule)))
		case kind < 9:
			l := labels{"solo": app}
			waiting = append(waiting, pod(m.smallSize(), l, apart(l)))
		default:
			waiting = append(waiting, pod(m.smallSize(), labels{"app": "other"}, selecting(labels{zoneKey: pick(m, zones())})))
		}
	}
	m.scenario.Pods = m.fold(waiting)
}

// scaledDown is c1: nodes filled to 90% and then left with a third of their pods.
func (m *maker) scaledDown(n int) {
	m.describe("%d nodes left about 30%% used by a scale-down; nothing waiting", n)
	m.scenario.NodePools, m.scenario.DaemonSets = []*karpv1.NodePool{generalPool()}, daemons()
	for i := range n {
		kind := running()[i%len(running())]
		sizes := m.fill(m.row(kind), 0.9, 12+m.IntN(13))
		m.addNode(i, kind, plain(sample(m, max(1, len(sizes)/3), sizes)))
	}
}

// nothingToGain is c2: nodes of the cheapest type of their size, full of pods of a tenth each.
func (m *maker) nothingToGain(n int) {
	const kind, podsPerNode = "c6a.4xlarge", 10
	m.describe("%d nodes, 96 to 99.5%% used; nothing waiting, nothing to gain", n)
	m.scenario.NodePools, m.scenario.DaemonSets = []*karpv1.NodePool{generalPool()}, daemons()
	for i := range n {
		m.addNode(i, kind, plain(m.fill(m.row(kind), m.between(0.96, 0.995), podsPerNode)))
	}
}

func plain(sizes []size) []*corev1.PodTemplateSpec {
	pods := make([]*corev1.PodTemplateSpec, 0, len(sizes))
	for _, s := range sizes {
		pods = append(pods, pod(s, labels{"app": "any"}))
	}
	return pods
}
