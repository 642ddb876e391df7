package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// maker draws a run.
type maker struct {
	*rand.Rand
	c *Config
}

// Generate draws a run from a seed: a cluster of some nodes, and an hour in which nearly everything goes
// wrong that can.
func Generate(seed uint64) Config {
	c := Plain(seed)
	enrich(&c)
	return c
}

// Plain is a run without static pools, repair, reboots and volumes.
func Plain(seed uint64) Config {
	c := Config{
		Seed: seed, Machines: Machines(), Active: time.Hour, Quiet: 3 * time.Hour, Pass: 2 * time.Minute,
		Policy: solve.Policy{NodeFee: 0.02, Workers: 1},
		Tuning: disrupt.Tuning{Horizon: 24 * time.Hour, PodCost: 0.01, MinSaving: 0.1},
	}
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 0xd0fe)), c: &c}
	c.Daemons = m.chance(0.5)
	c.Boot, c.PodStart = m.time(20*time.Second, 2*time.Minute), m.time(2*time.Second, 20*time.Second)
	if m.chance(0.3) {
		c.NeverJoins = 0.05
	}
	if m.chance(0.2) {
		c.Tuning = disrupt.Tuning{}
	}
	c.Policy.SpotToSpot = m.chance(0.3)
	c.Packs = m.chance(0.2)
	for k := range volumeClaims {
		c.Lag[k] = m.time(10*time.Millisecond, pick(m, 100*time.Millisecond, 100*time.Millisecond, 3*time.Second))
	}
	m.pools()
	m.apps()
	m.changes()
	m.faults()
	slices.SortStableFunc(c.Changes, func(a, b Change) int { return int(a.At - b.At) })
	return c
}

func (m *maker) chance(share float64) bool { return m.Float64() < share }

func (m *maker) time(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(m.Int64N(int64(high-low)))
}

func pick[T any](m *maker, from ...T) T { return from[m.IntN(len(from))] }

// pools are one or two, the second for pods that select it.
func (m *maker) pools() {
	expires := m.chance(0.15)
	for i := range 1 + m.IntN(2) {
		p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pool%d", i)}}
		kinds := pick(m, []string{"on-demand"}, []string{"on-demand", "spot"}, []string{"spot", "on-demand"})
		p.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
			NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind, Name: "default"},
			ExpireAfter:  "Never",
			Requirements: []karpv1.Requirement{{Key: karpv1.LabelCapacityType, Operator: corev1.NodeSelectorOpIn, Values: kinds}},
		}
		if expires {
			p.Spec.Template.Spec.ExpireAfter = pick(m, karpv1.Duration("30m"), "45m", "90m")
		}
		if m.chance(0.4) {
			p.Spec.Template.Spec.TerminationGracePeriod = pick(m, karpv1.Duration("30s"), "5m", "20m")
		}
		if i == 1 {
			p.Spec.Template.ObjectMeta.Labels = map[string]string{"tier": "two"}
			if m.chance(0.5) {
				p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "tier", Value: "two", Effect: corev1.TaintEffectNoSchedule}}
			}
		}
		if m.chance(0.15) {
			p.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(8+m.IntN(40)), resource.DecimalSI)}
		}
		m.disruption(&p.Spec.Disruption)
		m.c.Pools = append(m.c.Pools, p)
	}
}

func (m *maker) disruption(d *karpv1.Disruption) {
	d.ConsolidationPolicy = pick(m, karpv1.ConsolidationWhenEmptyOrUnderutilized, karpv1.ConsolidationWhenEmptyOrUnderutilized, karpv1.ConsolidationBalanced, karpv1.ConsolidationWhenEmpty)
	d.ConsolidateAfter = pick(m, karpv1.Duration("0s"), "30s", "5m")
	percent := func(text string, why ...karpv1.DisruptionReason) karpv1.Budget {
		return karpv1.Budget{Nodes: intstr.FromString(text), Reasons: why}
	}
	switch m.IntN(6) {
	case 0:
		d.Budgets = []karpv1.Budget{percent("100%")}
	case 1:
		d.Budgets = []karpv1.Budget{percent("1")}
	case 2:
		d.Budgets = []karpv1.Budget{percent("50%"), percent("1", karpv1.ReasonDrifted)}
	case 3:
		d.Budgets = []karpv1.Budget{percent("2"), {Nodes: intstr.FromString("0"), Schedule: new("0 7 * * *"), Duration: new(karpv1.Duration("30m"))}}
	case 4:
		d.Budgets = []karpv1.Budget{percent("20%"), percent("100%", karpv1.ReasonEmpty)}
	default:
		d.Budgets = []karpv1.Budget{percent("10%")}
	}
}

// apps are two to six, of all manners.
func (m *maker) apps() {
	for i := range 2 + m.IntN(5) {
		a := App{
			Name: fmt.Sprintf("app%d", i), Replicas: 1 + m.IntN(7), Milli: pick(m, int64(100), 250, 500, 1000, 1900, 3000), Grace: pick(m, int64(1), 30, 30, 120),
			Priority: pick(m, int32(0), 0, 0, 1000, 1<<20),
		}
		a.MiB = a.Milli * pick(m, int64(1), 2, 4, 7)
		switch m.IntN(6) {
		case 0:
			a.Budget = &policyBudget{max: new(intstr.FromInt32(1))}
		case 1:
			a.Budget = &policyBudget{min: new(intstr.FromString("50%"))}
		case 2:
			if m.chance(0.3) {
				a.Budget = &policyBudget{max: new(intstr.FromInt32(0))}
			}
		}
		switch m.IntN(12) {
		case 0:
			a.Protect = "true"
		case 1:
			a.Protect = pick(m, "10m", "40m", "soon")
		}
		a.Apart, a.Spread = m.chance(0.15), m.chance(0.15)
		if len(m.c.Pools) > 1 && m.chance(0.4) {
			a.Selector, a.Tolerates = map[string]string{"tier": "two"}, []corev1.Toleration{{Key: "tier", Operator: corev1.TolerationOpExists}}
		}
		m.c.Apps = append(m.c.Apps, a)
	}
}

func (m *maker) change(what string, do func(*World)) {
	m.c.Changes = append(m.c.Changes, Change{At: m.time(0, m.c.Active), What: what, Do: do})
}

// changes are what users do.
func (m *maker) changes() {
	for range 2 + m.IntN(8) {
		a := &m.c.Apps[m.IntN(len(m.c.Apps))]
		n := m.IntN(2*a.Replicas + 1)
		m.change("user: changes "+a.Name, func(w *World) { w.scale(a.Name, n) })
	}
	if m.chance(0.4) {
		m.change("user: pool0 has another label", func(w *World) {
			p := w.api.pools["pool0"].DeepCopy()
			p.Spec.Template.ObjectMeta.Labels = map[string]string{"version": "2"}
			w.putPool(p)
		})
	}
	if m.chance(0.2) {
		m.change("user: deletes a claim", func(w *World) {
			if names := sorted(w.api.claims); len(names) > 0 {
				w.api.delete(w.api.claims[names[w.rnd.IntN(len(names))]], w.now)
			}
		})
	}
	if m.chance(0.3) {
		m.change("user: protects a node for a while", func(w *World) { w.protectNode(15 * time.Minute) })
	}
}

// protection is the annotation with which users of a run forbid disruption: the current one or a deprecated one.
func (w *World) protection() string {
	keys := []string{karpv1.AnnotationDoNotDisrupt, karpv1.AnnotationDoNotEvict, karpv1.AnnotationDoNotConsolidate}
	return keys[w.config.Seed%uint64(len(keys))]
}

// protectNode forbids disruption of some node, and allows it later.
func (w *World) protectNode(d time.Duration) {
	names := sorted(w.api.nodes)
	if len(names) == 0 {
		return
	}
	name := names[w.rnd.IntN(len(names))]
	set := func(value string) {
		if n := w.api.nodes[name]; n != nil {
			next := n.DeepCopy()
			if next.Annotations == nil {
				next.Annotations = map[string]string{}
			}
			if next.Annotations[w.protection()] = value; value == "" {
				delete(next.Annotations, w.protection())
			}
			w.api.put(next)
		}
	}
	set("true")
	w.after(d, func() { set("") })
}

// protectPool forbids disruption of all nodes of a pool, and allows it later.
func (w *World) protectPool(name string, d time.Duration) {
	set := func(value string) {
		next := w.api.pools[name].DeepCopy()
		if metav1.SetMetaDataAnnotation(&next.ObjectMeta, w.protection(), value); value == "" {
			delete(next.Annotations, w.protection())
		}
		w.putPool(next)
	}
	set("true")
	w.after(d, func() { set("") })
}
