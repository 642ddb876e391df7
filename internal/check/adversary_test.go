package check_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// adversary writes pods that the API server accepts but no user would write by hand.
type adversary struct {
	*rand.Rand

	n    int  // entries of each list
	long bool // values of 63 characters
}

// tricks are the lists that can be made long, by name.
func tricks() map[string]func(adversary, *corev1.Pod) {
	return map[string]func(adversary, *corev1.Pod){
		"preferred nodes":          adversary.preferNodes,
		"preferred pods":           adversary.preferPods,
		"preferred others":         adversary.preferOthers,
		"required alternatives":    adversary.requireAlternatives,
		"required others":          adversary.requireOthers,
		"required pods":            adversary.requirePods,
		"spread":                   adversary.spread,
		"soft spread":              adversary.softSpread,
		"one list of values":       adversary.values,
		"a topology of own values": adversary.ownTopology,
		"tolerations":              adversary.tolerate,
		"ports":                    adversary.ports,
		"labels":                   adversary.label,
		"node selector":            adversary.selectNodes,
	}
}

func (a adversary) text(prefix string, i int) string {
	s := fmt.Sprintf("%s-%d", prefix, i)
	if a.long && len(s) < 63 {
		s += strings.Repeat("x", 63-len(s))
	}
	return s
}

// selector has no equality that an index could use.
func (a adversary) selector(i int) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{a.text("v", i)}},
		{Key: a.text("k", i), Operator: metav1.LabelSelectorOpDoesNotExist},
	}}
}

func (a adversary) key(i int) string {
	return []string{corev1.LabelTopologyZone, corev1.LabelHostname, corev1.LabelTopologyZone, rack}[i%4]
}

func affinity(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}, PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
	}
	return p.Spec.Affinity
}

func (a adversary) nodeTerm(i int) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: a.text("k", i), Operator: corev1.NodeSelectorOpDoesNotExist},
		{Key: size, Operator: corev1.NodeSelectorOpNotIn, Values: []string{a.text("v", i)}},
	}}
}

func (a adversary) podTerm(i int) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: a.key(i), LabelSelector: a.selector(i)}
}

func (a adversary) preferNodes(p *corev1.Pod) {
	node := affinity(p).NodeAffinity
	for i := range a.n {
		node.PreferredDuringSchedulingIgnoredDuringExecution = append(node.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: int32(1 + a.IntN(100)), Preference: a.nodeTerm(i)})
	}
}

func (a adversary) preferPods(p *corev1.Pod) {
	pods := affinity(p).PodAffinity
	for i := range a.n {
		pods.PreferredDuringSchedulingIgnoredDuringExecution = append(pods.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.WeightedPodAffinityTerm{Weight: int32(1 + a.IntN(100)), PodAffinityTerm: a.podTerm(i)})
	}
}

func (a adversary) preferOthers(p *corev1.Pod) {
	pods := affinity(p).PodAntiAffinity
	for i := range a.n {
		pods.PreferredDuringSchedulingIgnoredDuringExecution = append(pods.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.WeightedPodAffinityTerm{Weight: int32(1 + a.IntN(100)), PodAffinityTerm: a.podTerm(i)})
	}
}

func (a adversary) requireAlternatives(p *corev1.Pod) {
	node := affinity(p).NodeAffinity
	node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	for i := range a.n {
		terms := &node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		*terms = append(*terms, a.nodeTerm(i))
	}
}

func (a adversary) requireOthers(p *corev1.Pod) {
	pods := affinity(p).PodAntiAffinity
	for i := range a.n {
		pods.RequiredDuringSchedulingIgnoredDuringExecution = append(pods.RequiredDuringSchedulingIgnoredDuringExecution, a.podTerm(i))
	}
}

func (a adversary) requirePods(p *corev1.Pod) {
	pods := affinity(p).PodAffinity
	for i := range a.n {
		pods.RequiredDuringSchedulingIgnoredDuringExecution = append(pods.RequiredDuringSchedulingIgnoredDuringExecution, a.podTerm(i))
	}
}

func (a adversary) spreads(p *corev1.Pod, when corev1.UnsatisfiableConstraintAction) {
	for i := range a.n {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: a.key(i), WhenUnsatisfiable: when, LabelSelector: a.selector(i),
		})
	}
}

func (a adversary) spread(p *corev1.Pod) { a.spreads(p, corev1.DoNotSchedule) }

func (a adversary) softSpread(p *corev1.Pod) { a.spreads(p, corev1.ScheduleAnyway) }

func (a adversary) list(prefix string) []string {
	var list []string
	for i := range a.n {
		list = append(list, a.text(prefix, i))
	}
	return list
}

func (a adversary) values(p *corev1.Pod) {
	affinity(p).NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: size, Operator: corev1.NodeSelectorOpNotIn, Values: a.list("v")}},
	}}}
}

func (a adversary) ownTopology(p *corev1.Pod) {
	p.Spec.NodeSelector = map[string]string{"team": "v-0"}
	affinity(p).NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity(p).NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
		corev1.PreferredSchedulingTerm{Weight: 1, Preference: corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "team", Operator: corev1.NodeSelectorOpIn, Values: a.list("v")}},
		}})
	pods := affinity(p).PodAntiAffinity
	for i := range a.n {
		pods.PreferredDuringSchedulingIgnoredDuringExecution = append(pods.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "team", LabelSelector: a.selector(i)}})
	}
}

func (a adversary) tolerate(p *corev1.Pod) {
	for i := range a.n {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: a.text("k", i), Operator: corev1.TolerationOpExists})
	}
}

func (a adversary) ports(p *corev1.Pod) {
	for i := range min(a.n, 60_000) {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: int32(1 + i), ContainerPort: int32(1 + i)})
	}
}

func (a adversary) label(p *corev1.Pod) {
	for i := range a.n {
		p.Labels[a.text("k", i)] = a.text("v", i)
	}
}

func (a adversary) selectNodes(p *corev1.Pod) {
	p.Spec.NodeSelector = map[string]string{}
	for i := range a.n {
		p.Spec.NodeSelector[a.text("k", i)] = a.text("v", i)
	}
}

func (a adversary) pod(name string, use ...func(adversary, *corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}}}
	p.Spec.Containers = []corev1.Container{{Name: "c"}}
	for _, u := range use {
		u(a, p)
	}
	return p
}

// adversarial reads pods beside an honest one and plans for all of them.
func adversarial(tb testing.TB, pods ...*corev1.Pod) {
	tb.Helper()
	w := newWorld()
	r := cluster.NewReader(reqs.CoreVocabulary(), cluster.ReaderOptions{Resources: w.View.Resources})
	w.Pods = []cluster.Pod{r.Pod(adversary{}.pod("honest"), nil)}
	for _, p := range pods {
		w.Pods = append(w.Pods, r.Pod(p, nil))
	}
	plan := solve.Solve(w.Problem, never)
	if faults := check.Plan(w.Problem, plan); len(faults) > 0 {
		tb.Errorf("the plan breaks a rule: %s", faults[0])
	}
	placed := false
	for _, n := range plan.Create {
		for _, key := range n.Pods {
			placed = placed || key.Name == "honest"
		}
	}
	if !placed {
		tb.Error("the pod beside it has no place")
	}
}

// work is how much memory is allocated in total. It stands for time too: both grow with what is examined.
func work(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzAdversary mixes the tricks.
func FuzzAdversary(f *testing.F) {
	names := slices.Sorted(maps.Keys(tricks()))
	f.Add(uint64(1), uint16(1<<len(names)-1), uint16(90), uint8(1), true)
	f.Add(uint64(2), uint16(1<<len(names)-1), uint16(1000), uint8(2), false)
	f.Add(uint64(3), uint16(0b1010), uint16(2000), uint8(3), false)
	f.Fuzz(func(t *testing.T, seed uint64, mask, n uint16, count uint8, long bool) {
		a := adversary{Rand: rand.New(rand.NewPCG(seed, 0)), n: int(n % 5000), long: long}
		var use []func(adversary, *corev1.Pod)
		for i, name := range names {
			if mask&(1<<i) != 0 {
				use = append(use, tricks()[name])
			}
		}
		var pods []*corev1.Pod
		for i := range count % 4 {
			a.n += int(i) // none is like another
			pods = append(pods, a.pod(fmt.Sprintf("villain-%d", i), use...))
		}
		const limit = memoryFactor * 1 << 30
		if used := work(func() { adversarial(t, pods...) }); used > limit {
			t.Errorf("%d MiB, want at most %d", used>>20, limit>>20)
		}
	})
}

// Memory is counted for the whole process, so nothing may run beside it: a test that sets the environment is alone.
func TestTrust_C02_LongListsOfOnePodCostLittle(t *testing.T) {
	t.Setenv("ALONE", "yes")
	const limit = memoryFactor * 64 << 20
	for name, trick := range tricks() {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{500, 4000} {
				a := adversary{Rand: rand.New(rand.NewPCG(1, 2)), n: n}
				p := a.pod("villain", trick)
				if used := work(func() { adversarial(t, p) }); used > limit {
					t.Errorf("%d entries took %d MiB, want at most %d", n, used>>20, limit>>20)
				}
			}
		})
	}
}

// The time limit of a plan also holds while the problem is read. Pods that were not read wait for the next plan.
func TestTrust_C02_ReadingAProblemEndsInTime(t *testing.T) {
	t.Parallel()
	a := adversary{Rand: rand.New(rand.NewPCG(1, 2)), n: 90}
	w := newWorld()
	r := cluster.NewReader(reqs.CoreVocabulary(), cluster.ReaderOptions{Resources: w.View.Resources})
	for i := range 20 {
		p := a.pod(fmt.Sprintf("villain-%d", i), adversary.preferOthers, adversary.preferPods)
		p.Spec.NodeSelector = map[string]string{size: fmt.Sprint(i)}
		w.Pods = append(w.Pods, r.Pod(p, nil))
	}
	polls := 0
	plan := solve.Solve(w.Problem, func() bool { polls++; return polls > 3 })
	if !plan.Partial || len(plan.Unplaced) != len(w.Pods) {
		t.Errorf("partial %t, %d of %d pods are told that they wait", plan.Partial, len(plan.Unplaced), len(w.Pods))
	}
	if polls != 4 {
		t.Errorf("polled %d times, want an end at the fourth", polls)
	}
	if faults := check.Plan(w.Problem, plan); len(faults) > 0 {
		t.Error(faults[0])
	}
	moved := solve.Consolidate(solve.Question{View: w.View}, func() bool { return true })
	if !moved.Partial && len(moved.Moves) > 0 {
		t.Errorf("moves although there was no time: %v", moved)
	}
}

// Requirements and preferences that are ignored are reported. A pod with too many of them to examine is refused with
// a reason.
func TestTrust_C02_WhatIsTooMuchHasAReason(t *testing.T) {
	t.Parallel()
	a := adversary{Rand: rand.New(rand.NewPCG(1, 2)), n: 4000}
	r := cluster.NewReader(reqs.CoreVocabulary(), cluster.ReaderOptions{})
	for name, tc := range map[string]struct {
		trick            func(adversary, *corev1.Pod)
		invalid, ignored string
	}{
		"preferred nodes":       {trick: adversary.preferNodes, ignored: "spec.affinity.nodeAffinity.preferred: has 4000 entries; planning considers 100 of them, the heaviest"},
		"preferred others":      {trick: adversary.preferOthers, ignored: "spec.affinity.podAntiAffinity.preferred: has 4000 entries; planning considers 100 of them, the heaviest"},
		"soft spread":           {trick: adversary.softSpread, ignored: "spec.topologySpreadConstraints with ScheduleAnyway: has 4000 entries; planning considers 100 of them, the heaviest"},
		"required alternatives": {trick: adversary.requireAlternatives, invalid: "spec.affinity.nodeAffinity.required: has 4000 entries; at most 1000 are allowed"},
		"required others":       {trick: adversary.requireOthers, invalid: "spec.affinity.podAntiAffinity.required: has 4000 entries; at most 100 are allowed"},
		"spread":                {trick: adversary.spread, invalid: "spec.topologySpreadConstraints: has 4000 entries; at most 100 are allowed"},
		"node selector":         {trick: adversary.selectNodes, invalid: "spec.nodeSelector: has 4000 entries; at most 1000 are allowed"},
	} {
		s := r.Pod(a.pod("villain", tc.trick), nil).Shape
		if got := reason.Join(s.Invalid, 0); got != tc.invalid {
			t.Errorf("%s: refused with %q, want %q", name, got, tc.invalid)
		}
		if got := reason.Join(s.Ignored, 0); got != tc.ignored {
			t.Errorf("%s: told %q, want %q", name, got, tc.ignored)
		}
	}
}
