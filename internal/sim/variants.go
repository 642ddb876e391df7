package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// fixed is the name of the pool of fixed size.
const fixed = "fixed"

// enrich draws what only some runs have. It has numbers of its own, so that the rest of a run is the same with
// and without.
func enrich(c *Config) {
	m := &maker{Rand: rand.New(rand.NewPCG(c.Seed, 0xfeed)), c: c}
	for k := volumeClaims; k < kinds; k++ {
		c.Lag[k] = m.time(10*time.Millisecond, pick(m, 100*time.Millisecond, 3*time.Second))
	}
	if m.chance(0.5) {
		m.static()
	}
	if m.chance(0.5) {
		m.repairs()
	}
	if m.chance(0.4) {
		m.disks()
	}
	m.Rand = rand.New(rand.NewPCG(c.Seed, 0x900d)) // what follows came later, and leaves the numbers of the rest alone
	if m.chance(0.2) {
		name, lasts := c.Pools[m.IntN(len(c.Pools))].Name, m.time(5*time.Minute, 20*time.Minute)
		m.change("user: protects pool "+name+" for a while", func(w *World) { w.protectPool(name, lasts) })
	}
	if m.chance(0.15) {
		lasts := m.time(5*time.Minute, 20*time.Minute)
		m.change("fault: machines come up small", func(w *World) { w.market.small = w.now.Add(lasts) })
	}
	m.Rand = rand.New(rand.NewPCG(c.Seed, 0xca5)) // these came later still
	if m.chance(0.25) {
		m.prices()
	}
	if m.chance(0.25) {
		m.reservation()
	}
	m.Rand = rand.New(rand.NewPCG(c.Seed, 0x1e4d))
	if len(c.Reserved) > 0 && m.chance(0.4) {
		m.change("cloud: an instance of the reservation is taken back", (*World).reclaimReserved)
	}
	enrichLater(m)
	slices.SortStableFunc(c.Changes, func(a, b Change) int { return int(a.At - b.At) })
}

// enrichLater draws what came last, each with numbers of its own. The streams are such that seeds which tests name have
// none of it, so that they still are what they were.
func enrichLater(m *maker) {
	for _, f := range []struct {
		stream uint64
		share  float64
		draw   func()
	}{
		{0xb004, 0.1, m.reservations},
		{0xb2c9, 0.12, m.overlays},
		{0xb4d0, 0.07, m.risks},
		{0xb4d7, 0.04, m.gpus},
		{0xb51f, 0.05, m.brokenPools},
		{0xc016, 0.06, m.controllers},
		{0xc025, 0.05, m.slowWrites},
		{0xc028, 0.05, m.denials},
		{0xc02e, 0.05, m.deletesLaunching},
		{0xc031, 0.05, m.latePrices},
		{0xc134, 0.05, m.buffers},
		{0xc141, 0.05, m.evictionFaults},
		{0xc14d, 0.05, m.refusals},
		{0xc157, 0.05, m.losesNodes},
	} {
		m.Rand = rand.New(rand.NewPCG(m.c.Seed, f.stream))
		if m.chance(f.share) {
			f.draw()
		}
	}
}

// static is a pool of fixed size, for pods that tolerate it.
func (m *maker) static() {
	replicas := int64(1 + m.IntN(4))
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: fixed}}
	p.Spec.Replicas = new(replicas)
	p.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"},
		ExpireAfter:  "Never",
		Requirements: []karpv1.Requirement{
			{Key: karpv1.LabelCapacityType, Operator: corev1.NodeSelectorOpIn, Values: pick(m, []string{"on-demand"}, []string{"spot"}, []string{"spot", "on-demand"})},
			{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: pick(m, []string{"c6.large", "m6.large"}, []string{"m6.xlarge"}, []string{"r6.large", "c6.xlarge"})},
		},
	}
	if m.chance(0.15) {
		p.Spec.Template.Spec.ExpireAfter = pick(m, karpv1.Duration("30m"), "90m")
	}
	if m.chance(0.4) {
		p.Spec.Template.Spec.TerminationGracePeriod = pick(m, karpv1.Duration("30s"), "5m", "20m")
	}
	if m.chance(0.5) {
		p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: fixed, Effect: corev1.TaintEffectNoSchedule}}
		for i := range m.c.Apps {
			if m.chance(0.4) {
				m.c.Apps[i].Tolerates = append(m.c.Apps[i].Tolerates, corev1.Toleration{Key: fixed, Operator: corev1.TolerationOpExists})
			}
		}
	}
	if m.chance(0.4) {
		p.Spec.Limits = corev1.ResourceList{karpv1.LimitNodes: *resource.NewQuantity(replicas+int64(m.IntN(3)), resource.DecimalSI)}
	}
	m.disruption(&p.Spec.Disruption)
	m.c.Pools = append(m.c.Pools, p)
	m.c.Methods.Static, m.c.Methods.TerminateFirstDrift, m.c.Methods.TerminateFirstRepair = true, m.chance(0.4), m.chance(0.4)
	for range m.IntN(4) {
		n := int64(m.IntN(6))
		m.change("user: pool fixed has another size", func(w *World) {
			next := w.api.pools[fixed].DeepCopy()
			w.logf("user: pool fixed is scaled from %d to %d", *next.Spec.Replicas, n)
			next.Spec.Replicas = &n
			w.putPool(next)
		})
	}
	if m.chance(0.4) {
		m.change("user: pool fixed has another label", func(w *World) {
			next := w.api.pools[fixed].DeepCopy()
			next.Spec.Template.ObjectMeta.Labels = map[string]string{"version": "2"}
			w.putPool(next)
		})
	}
}

// repairs are policies, and what they are for.
func (m *maker) repairs() {
	const any = ".*"
	policy := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reasons string, action cloud.RepairAction) cloud.Repair {
		r := cloud.Repair{Condition: kind, Status: status, ReasonRegex: reasons, Action: action, Toleration: m.time(time.Minute, pick(m, 5*time.Minute, 30*time.Minute)), Priority: 10 * m.IntN(4)}
		switch m.IntN(3) {
		case 0:
			r.Bound = new(time.Duration(0))
		case 1:
			r.Bound = new(m.time(10*time.Second, 5*time.Minute))
		}
		return r
	}
	m.c.Repairs = []cloud.Repair{
		policy(corev1.NodeReady, corev1.ConditionFalse, "", cloud.ReplaceNode), // the fallback
		policy(corev1.NodeReady, corev1.ConditionUnknown, any, pick(m, cloud.ReplaceNode, cloud.RebootNode)),
		policy("StorageReady", corev1.ConditionFalse, any, cloud.ReplaceNode),
		policy("NetworkingReady", corev1.ConditionFalse, any, cloud.RebootNode),
		policy("KernelReady", corev1.ConditionFalse, "Broken", cloud.ReplaceNode),
		policy("KernelReady", corev1.ConditionFalse, "Stuck", cloud.RebootNode),
	}
	m.c.OldRepair = m.chance(0.2)
	m.c.Methods.Repair = !m.c.OldRepair
	m.c.RebootsHelp, m.c.NeverBack = pick(m, 0.3, 0.9), pick(m, 0, 0.2)
	for range 1 + m.IntN(5) {
		m.change("fault: a node becomes unhealthy", (*World).makeUnhealthy)
	}
	if m.chance(0.2) {
		m.change("fault: nodes are cut off", (*World).disconnectNodes)
	}
	if m.chance(0.2) {
		m.change("user: keeps a node from being repaired", (*World).forbidRepair)
	}
}

// disks gives pods of some apps volumes.
func (m *maker) disks() {
	m.c.Detach, m.c.Attachable = m.time(2*time.Second, time.Minute), pick(m, int32(0), 4, 8)
	for i := range m.c.Machines {
		m.c.Machines[i].Disks = int(m.c.Attachable)
	}
	for i := range m.c.Apps {
		if i == 0 || m.chance(0.3) {
			m.c.Apps[i].Volumes, m.c.Apps[i].Spread = 1+m.IntN(2), false
		}
	}
	for range m.IntN(3) {
		m.change("fault: a volume does not come off", (*World).delayDetach)
	}
}
