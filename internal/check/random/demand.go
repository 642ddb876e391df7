package random

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// workload is a kind of pod of which there are several.
type workload struct {
	name    string
	shape   *cluster.Shape
	volumes bool // each pod has a claim of its own besides those of the shape
}

func quantities(milli, bytes, pods, gpus int64) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(pods, resource.DecimalSI),
	}
	if gpus > 0 {
		list[gpu] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return list
}

func (m *maker) makeWorkloads() {
	for i := range 1 + m.IntN(m.Workloads) {
		m.workloads = append(m.workloads, m.newWorkload("app-"+strconv.Itoa(i)))
	}
}

func (m *maker) workload() *workload { return &m.workloads[m.IntN(len(m.workloads))] }

func (m *maker) newWorkload(name string) workload {
	w := workload{name: name, volumes: m.oneIn(10)}
	s := cluster.Shape{
		Namespace: pick(m, "default", "default", "other"),
		Labels:    map[string]string{"app": name, "tier": pick(m, "front", "back")},
		Required:  []reqs.Set{{}},
	}
	gpus := int64(0)
	if m.oneIn(12) {
		gpus = 1
	}
	bytes := pick(m, int64(0), 128<<20, 512<<20, gib, 2*gib, 6*gib)
	s.Requests = m.table.Requests(quantities(pick(m, int64(0), 100, 250, 500, 900, 1500, 3000), bytes, 1, gpus))
	m.demandLabels(&s)
	if !m.Plain {
		m.demandTopology(&s)
	}
	if m.oneIn(4) {
		s.Tolerations = []corev1.Toleration{pick(m,
			corev1.Toleration{Operator: corev1.TolerationOpExists},
			corev1.Toleration{Key: "dedicated", Value: "red"},
			corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
			corev1.Toleration{Key: "avoid", Operator: corev1.TolerationOpExists})}
	}
	if m.oneIn(10) {
		s.HostPorts = []cluster.HostPort{{IP: pick(m, "0.0.0.0", "0.0.0.0", "10.0.0.1", "10.0.0.2"), Port: pick(m, int32(80), 9100), Protocol: "TCP"}}
	}
	if m.oneIn(8) {
		s.Volumes = []cluster.Volume{{Driver: driver, Claim: s.Namespace + "/" + pick(m, "shared", name)}}
		s.Zones = []reqs.Set{{zoneKey: in(pick(m, m.zones...))}}
		if m.oneIn(3) {
			s.Zones = append(s.Zones, reqs.Set{zoneKey: in(pick(m, m.zones...))})
		}
	}
	if m.oneIn(25) {
		s.Invalid = []reason.Reason{{Code: reason.LabelRestricted, Subject: name}}
	}
	s.Refuses = m.oneIn(40)
	w.shape = m.intern(s)
	return w
}

// term is one required or preferred set of labels, now and then one that nothing has.
func (m *maker) term() reqs.Set {
	s := reqs.Set{}
	for range 1 + m.IntN(2) {
		switch m.IntN(9) {
		case 0:
			s[zoneKey] = in(some(m, m.zones)...)
		case 1:
			s[zoneKey] = notIn(pick(m, m.zones...))
		case 2:
			s[capacityKey] = in(pick(m, "on-demand", "spot", "reserved"))
		case 3:
			s[corev1.LabelArchStable] = in(pick(m, "amd64", "arm64"))
		case 4:
			s[rackKey] = pick(m, in("r1"), in("r1", "r2"), in("r9"), reqs.Req{Not: true}, notIn("r1"), reqs.Req{})
		case 5:
			s[teamKey] = in(pick(m, "red", "blue"))
		case 6:
			s[poolKey] = in("pool-" + strconv.Itoa(m.IntN(4)))
		case 7:
			s[familyKey] = pick(m, in("c"), in("m", "r"), notIn("c"))
		case 8:
			s["example.com/unheard"] = pick(m, in("x"), notIn("x"))
		}
	}
	return s
}

func (m *maker) demandLabels(s *cluster.Shape) {
	if m.oneIn(4) {
		s.Required = []reqs.Set{m.term()}
		for m.oneIn(3) && len(s.Required) < 3 {
			s.Required = append(s.Required, m.term())
		}
	}
	for m.oneIn(5) && len(s.Preferred) < 3 {
		s.Preferred = append(s.Preferred, cluster.Preference{Weight: int32(1 + m.IntN(100)), Needs: m.term()})
	}
	slices.SortStableFunc(s.Preferred, func(a, b cluster.Preference) int { return cmp.Compare(b.Weight, a.Weight) })
}

func (m *maker) topologyKey() string {
	return pick(m, corev1.LabelHostname, corev1.LabelHostname, zoneKey, zoneKey, capacityKey, rackKey)
}

// selector chooses the workload itself, a tier of several, or everything.
func (m *maker) selector(s *cluster.Shape) cluster.Selector {
	switch m.IntN(6) {
	case 0:
		return cluster.SelectorFrom(labels.SelectorFromSet(labels.Set{"tier": pick(m, "front", "back")}))
	case 1:
		return cluster.SelectorFrom(labels.SelectorFromSet(labels.Set{"app": "app-" + strconv.Itoa(m.IntN(4))}))
	case 2:
		if m.oneIn(3) {
			return cluster.SelectorFrom(labels.Everything())
		}
		if m.oneIn(3) {
			return cluster.Selector{}
		}
		got, err := cluster.NewSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"app-0"}}}})
		if err == nil {
			return got
		}
	}
	return cluster.SelectorFrom(labels.SelectorFromSet(labels.Set{"app": s.Labels["app"]}))
}

func (m *maker) demandTopology(s *cluster.Shape) {
	for m.oneIn(4) && len(s.Spread) < 2 {
		s.Spread = append(s.Spread, cluster.Spread{
			Key: m.topologyKey(), MaxSkew: int32(1 + m.IntN(3)), MinDomains: pick(m, int32(0), 0, 0, 2, 3),
			Soft: m.oneIn(4), Selector: m.selector(s), AnyNode: m.oneIn(6), HonorTaint: m.oneIn(6),
		})
	}
	if m.oneIn(8) {
		s.Affinity = m.terms(s)
	}
	if m.oneIn(6) {
		s.AntiAffinity = m.terms(s)
	}
}

// terms are pod affinity terms, required first, then preferred, heaviest first.
func (m *maker) terms(s *cluster.Shape) []cluster.PodTerm {
	var terms []cluster.PodTerm
	for range 1 + m.IntN(2) {
		t := cluster.PodTerm{Key: m.topologyKey(), Selector: m.selector(s), Namespaces: []string{s.Namespace}}
		switch m.IntN(8) {
		case 0:
			t.Namespaces, t.Everywhere = nil, true
		case 1:
			t.Namespaces = []string{"default", "other"}
		}
		if m.oneIn(4) {
			t.Weight = int32(1 + m.IntN(100))
		}
		terms = append(terms, t)
	}
	slices.SortStableFunc(terms, func(a, b cluster.PodTerm) int {
		required := func(t cluster.PodTerm) int32 {
			if t.Weight == 0 {
				return 1000
			}
			return t.Weight
		}
		return cmp.Compare(required(b), required(a))
	})
	return terms
}

// pod makes one more pod of a workload.
func (m *maker) pod(w *workload) cluster.Pod {
	m.pods++
	name := w.name + "-" + strconv.Itoa(m.pods)
	shape := w.shape
	if w.volumes {
		own := *w.shape
		own.Volumes = append(slices.Clone(own.Volumes), cluster.Volume{Driver: driver, Claim: own.Namespace + "/" + name})
		shape = m.intern(own)
	}
	return cluster.Pod{
		Key: cluster.PodKey{Namespace: shape.Namespace, Name: name}, UID: "uid-" + strconv.Itoa(m.pods), Shape: shape,
		Created: m.view.Now.Add(-time.Duration(m.IntN(100)) * time.Minute),
	}
}

func compareKeys(a, b cluster.PodKey) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
