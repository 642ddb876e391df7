package families

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/scenario"
)

// oneSize is s1: pods of one size and nothing else.
func (m *maker) oneSize(n int) {
	m.describe("one size: 1 cpu, 1.5Gi")
	m.scenario.NodePools = []*karpv1.NodePool{generalPool()}
	m.scenario.Pods = []scenario.PodGroup{{Count: new(n), Template: pod(size{1000, 1536}, labels{"app": "inflate"})}}
}

// sixKinds is s2: a sixth each of what pods commonly request.
func (m *maker) sixKinds(n int) {
	m.describe("a sixth each: plain, zone spread, host spread, zone affinity, host anti-affinity, node selectors; 7 labels a kind")
	m.scenario.NodePools, m.scenario.DaemonSets = []*karpv1.NodePool{generalPool()}, daemons()
	one := func(key string) labels { return labels{key: pick(m, []string{"a", "b", "c", "d", "e", "f", "g"})} }
	kinds := []func() *corev1.PodTemplateSpec{
		func() *corev1.PodTemplateSpec {
			l := one("zone-spread")
			return pod(m.smallSize(), l, spread(zoneKey, 1, l, corev1.DoNotSchedule))
		},
		func() *corev1.PodTemplateSpec {
			l := one("host-spread")
			return pod(m.smallSize(), l, spread(hostKey, 1, l, corev1.DoNotSchedule))
		},
		func() *corev1.PodTemplateSpec {
			l := one("together")
			return pod(m.smallSize(), l, together(zoneKey, l))
		},
		func() *corev1.PodTemplateSpec {
			l := one("apart")
			return pod(m.smallSize(), l, apart(l))
		},
		func() *corev1.PodTemplateSpec { return pod(m.smallSize(), one("app"), m.anySelector()) },
	}
	var pods []*corev1.PodTemplateSpec
	for _, kind := range kinds {
		for range n / (len(kinds) + 1) {
			pods = append(pods, kind())
		}
	}
	for len(pods) < n {
		pods = append(pods, pod(m.smallSize(), one("app")))
	}
	m.scenario.Pods = m.fold(pods)
}

// anySelector requests a zone, a category or a generation.
func (m *maker) anySelector() func(*corev1.PodSpec) {
	switch m.IntN(3) {
	case 0:
		return selecting(labels{zoneKey: pick(m, zones())})
	case 1:
		return selecting(labels{categoryKey: pick(m, []string{"c", "m", "r"})})
	default:
		return onNodes(expression(generation, corev1.NodeSelectorOpGt, strconv.Itoa(pick(m, []int{4, 5, 6}))))
	}
}

// manySizes is s3: nearly every pod has a size of its own.
func (m *maker) manySizes(n int) {
	m.describe("many sizes: cpu 50m to 8, memory 64Mi to 32Gi, log-uniform and independent")
	m.scenario.NodePools = []*karpv1.NodePool{generalPool()}
	uniform := func(low, high float64) float64 { return math.Exp(m.between(math.Log(low), math.Log(high))) }
	var pods []*corev1.PodTemplateSpec
	for range n {
		cpu, memory := int(math.Round(uniform(50, 8000)/10))*10, int(math.Round(uniform(64, 32768)))
		pods = append(pods, pod(size{cpu, memory}, labels{"app": "any"}))
	}
	m.scenario.Pods = m.fold(pods)
}

// manyPools is s4: a hundred teams with a pool each.
func (m *maker) manyPools(n int) {
	const teams, teamKey = 100, "example.com/team"
	m.describe("%d NodePools: half tainted, weights, architectures, capacity types and zones vary; half the pods for a tainted pool, a fifth for an untainted one by label, the rest anywhere", teams)
	m.scenario.DaemonSets = daemons()
	var open, tainted []string
	for i := range teams {
		team := fmt.Sprintf("team-%02d", i)
		p := m.teamPool(i, fmt.Sprintf("pool-%02d", i))
		p.Spec.Template.ObjectMeta.Labels = labels{teamKey: team}
		if i%2 == 1 {
			p.Spec.Template.Spec.Taints = taint("dedicated", team)
			tainted = append(tainted, team)
		} else {
			open = append(open, team)
		}
		m.scenario.NodePools = append(m.scenario.NodePools, p)
	}
	var pods []*corev1.PodTemplateSpec
	for range n {
		switch kind := m.Float64(); {
		case kind < 0.3:
			pods = append(pods, pod(m.smallSize(), labels{"app": "any"}))
		case kind < 0.8:
			team := pick(m, tainted)
			pods = append(pods, pod(m.smallSize(), labels{"app": team}, selecting(labels{teamKey: team}), tolerating(corev1.Toleration{
				Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: team, Effect: corev1.TaintEffectNoSchedule,
			})))
		default:
			team := pick(m, open)
			pods = append(pods, pod(m.smallSize(), labels{"app": team}, selecting(labels{teamKey: team})))
		}
	}
	m.scenario.Pods = m.fold(pods)
}

// teamPool is the i-th pool: a fifth arm64, 30% with spot, a fifth limited to one or two zones.
func (m *maker) teamPool(i int, name string) *karpv1.NodePool {
	arch, capacityTypes := "amd64", []string{"on-demand"}
	if i%5 == 4 {
		arch = "arm64"
	}
	if i%10 >= 7 {
		capacityTypes = []string{"spot", "on-demand"}
	}
	categories := slices.Sorted(slices.Values(sample(m, 1+m.IntN(3), []string{"c", "m", "r"})))
	p := pool(name, in(archKey, arch), in(capacityKey, capacityTypes...), in(categoryKey, categories...), newer(pick(m, []int{2, 4, 5})))
	if i%5 == 0 {
		limited := slices.Sorted(slices.Values(sample(m, 1+m.IntN(2), zones())))
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, in(zoneKey, limited...))
	}
	p.Spec.Weight = new(int32(1 + m.IntN(100)))
	return p
}

// threePools is s6: spot and on-demand on both architectures, GPUs behind a taint, on-demand behind a
// taint.
func (m *maker) threePools(n int) {
	const gpu, tier = "nvidia.com/gpu", "example.com/tier"
	m.describe("three NodePools: spot and on-demand on both architectures, GPUs behind a taint, on-demand behind a taint")
	general := pool("general", in(archKey, "amd64", "arm64"), in(capacityKey, "spot", "on-demand"), in(categoryKey, "c", "m", "r", "t", "i"))
	general.Spec.Weight = new(int32(50))
	accelerated := pool("gpu", in(archKey, "amd64"), in(capacityKey, "spot", "on-demand"), in(categoryKey, "g", "p"))
	accelerated.Spec.Weight = new(int32(10))
	accelerated.Spec.Template.Spec.Taints = taint(gpu, "true")
	stable := pool("stable", in(archKey, "amd64"), in(capacityKey, "on-demand"), in(categoryKey, "c", "m", "r"))
	stable.Spec.Template.ObjectMeta.Labels = labels{tier: "stable"}
	stable.Spec.Template.Spec.Taints = taint("tier", "stable")
	m.scenario.NodePools, m.scenario.DaemonSets = []*karpv1.NodePool{general, accelerated, stable}, daemons()

	onGPU := tolerating(corev1.Toleration{Key: gpu, Operator: corev1.TolerationOpExists})
	onStable := tolerating(corev1.Toleration{Key: "tier", Operator: corev1.TolerationOpEqual, Value: "stable"})
	var pods []*corev1.PodTemplateSpec
	for range n {
		var p *corev1.PodTemplateSpec
		switch kind := m.Float64(); {
		case kind < 0.40:
			p = pod(m.smallSize(), labels{"app": "any"})
		case kind < 0.60:
			p = pod(m.smallSize(), labels{"app": "arm"}, selecting(labels{archKey: "arm64"}))
		case kind < 0.72:
			p = pod(m.smallSize(), labels{"app": "amd"}, selecting(labels{archKey: "amd64", capacityKey: "on-demand"}))
		case kind < 0.85:
			p = pod(m.smallSize(), labels{"app": "stable"}, selecting(labels{tier: "stable"}), onStable)
		case kind < 0.95:
			p = pod(size{3000, 12 << 10}, labels{"app": "infer"}, gpus(1), onGPU)
		case kind < 0.98:
			p = pod(size{6000, 24 << 10}, labels{"app": "train"}, gpus(1), onGPU, onNodes(
				expression(instanceLabel+"gpu-name", corev1.NodeSelectorOpIn, "a10g", "l4", "l40s"),
				expression(capacityKey, corev1.NodeSelectorOpIn, "on-demand")))
		default:
			p = pod(size{24000, 96 << 10}, labels{"app": "train"}, gpus(4), onGPU)
		}
		pods = append(pods, p)
	}
	m.scenario.Pods = m.fold(pods)
}

// preferences is s7: nothing is required, much is wished for.
func (m *maker) preferences(n int) {
	const apps = 40
	m.describe("preferences only, %d apps: half prefer to be apart by host, a quarter spread by zone and host if possible, a quarter prefer a zone and arm64, which is not offered", apps)
	m.scenario.NodePools, m.scenario.DaemonSets = []*karpv1.NodePool{generalPool()}, daemons()
	preference := func(weight int32, key, value string) corev1.PreferredSchedulingTerm {
		return corev1.PreferredSchedulingTerm{Weight: weight, Preference: matching(expression(key, corev1.NodeSelectorOpIn, value))}
	}
	var pods []*corev1.PodTemplateSpec
	for i := range n {
		l := labels{"app": fmt.Sprintf("app-%02d", i%apps)}
		switch i % 4 {
		case 0, 1:
			pods = append(pods, pod(m.smallSize(), l, preferApart(hostKey, l)))
		case 2:
			pods = append(pods, pod(m.smallSize(), l, spread(zoneKey, 1, l, corev1.ScheduleAnyway), spread(hostKey, 1, l, corev1.ScheduleAnyway)))
		default:
			pods = append(pods, pod(m.smallSize(), l, preferNodes(preference(50, zoneKey, zones()[0]), preference(1, archKey, "arm64"))))
		}
	}
	m.scenario.Pods = m.fold(pods)
}
