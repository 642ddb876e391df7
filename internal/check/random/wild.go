package random

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Wild makes a problem and then breaks it in several ways that no reader of Kubernetes objects would:
// missing maps, absurd quantities, empty catalogues, contradictions, names that lead nowhere or twice
// to the same place.
func Wild(from Source, o Options) solve.Problem {
	p := Problem(from, o)
	m := &maker{Source: from, Options: o, view: p.View, zones: []string{"zone-a"}}
	for range 1 + m.IntN(4) {
		switch m.IntN(4) {
		case 0:
			m.wreckPools()
		case 1:
			m.wreckNodes()
		case 2:
			m.wreckPods(&p)
		default:
			m.wreckView(&p)
		}
	}
	return p
}

// number is an unexpected quantity.
func (m *maker) number() int64 {
	return pick(m, int64(0), -1, -1000, 1, math.MaxInt64, math.MinInt64, math.MaxInt64/2)
}

func (m *maker) quantity() resources.Vec {
	return resources.Of(m.number(), m.number(), m.number(), m.number(), m.number(), m.number())
}

func (m *maker) price() float64 {
	return pick(m, 0.0, -1, 1e300, math.Inf(1), math.NaN())
}

func (m *maker) wreckPools() {
	if len(m.view.Pools) == 0 {
		return
	}
	p := &m.view.Pools[m.IntN(len(m.view.Pools))]
	switch m.IntN(9) {
	case 0:
		p.Requirements = nil
	case 1:
		p.Types = nil
	case 2:
		p.Requirements = reqs.Set{poolKey: {}, zoneKey: in()}
	case 3:
		p.Requirements = reqs.Set{capacityKey: {Values: []string{"spot"}, MinValues: 1000}}
	case 4:
		n := m.number()
		p.NodeLimit = &n
		p.Limits = []cluster.Limit{{Resource: "absent.example/resource", Remaining: m.number()}, {Resource: corev1.ResourceCPU, Remaining: m.number()}}
	case 5:
		p.Types = append(slices.Clone(p.Types), p.Types...)
	case 6:
		p.Types = []catalog.InstanceType{{}, {Name: "bare", Offerings: []catalog.Offering{{Available: true}}}}
	default:
		m.wreckTypes(p)
	}
}

func (m *maker) wreckTypes(p *cluster.Pool) {
	p.Types = slices.Clone(p.Types)
	for i := range p.Types {
		t := &p.Types[i]
		t.Offerings = slices.Clone(t.Offerings)
		switch m.IntN(7) {
		case 0:
			t.Labels = nil
		case 1:
			t.Capacity = m.quantity()
		case 2:
			t.Overhead = m.quantity()
		case 3:
			t.Offerings = nil
		case 4:
			for j := range t.Offerings {
				t.Offerings[j].Price = m.price()
			}
		case 5:
			for j := range t.Offerings {
				t.Offerings[j].Size = &catalog.Size{Capacity: m.quantity()}
				t.Offerings[j].Labels = map[string]string{zoneKey: "elsewhere", "": ""}
			}
		case 6:
			for j := range t.Offerings {
				t.Offerings[j].CapacityType, t.Offerings[j].Reservation, t.Offerings[j].Remaining = "reserved", "same", m.IntN(3)-1
			}
		}
	}
}

func (m *maker) wreckNodes() {
	if len(m.view.Nodes) == 0 {
		return
	}
	n := &m.view.Nodes[m.IntN(len(m.view.Nodes))]
	switch m.IntN(7) {
	case 0:
		n.Labels = nil
	case 1:
		n.Allocatable = m.quantity()
	case 2:
		n.Pool = "absent"
	case 3:
		m.view.Nodes = append(m.view.Nodes, *n)
	case 4:
		n.VolumeLimits = map[string]int{driver: -1, "": 0}
	case 5:
		n.Needs = reqs.Set{zoneKey: {}, "": {Not: true}}
		n.Labels = map[string]string{"": ""}
	case 6:
		n.Pods = append(n.Pods, n.Pods...)
		n.Price = m.price()
	}
}

func (m *maker) wreckPods(p *solve.Problem) {
	if len(p.Pods) == 0 {
		return
	}
	pod := &p.Pods[m.IntN(len(p.Pods))]
	if pod.Shape == nil {
		return
	}
	s := *pod.Shape
	s.Key += "!" // another shape than those it was made from
	pod.Shape = &s
	switch m.IntN(9) {
	case 0:
		s.Required = nil
	case 1:
		s.Requests = m.quantity()
	case 2:
		s.Required = []reqs.Set{nil, {zoneKey: {}, capacityKey: in(), "": in("")}}
	case 3:
		s.Spread = []cluster.Spread{{}, {Key: zoneKey, MaxSkew: -1, MinDomains: -5}, {Key: "", MaxSkew: math.MaxInt32, MinDomains: math.MaxInt32, Selector: m.selector(&s)}}
	case 4:
		s.Affinity = []cluster.PodTerm{{}, {Key: "", Weight: -1, Selector: m.selector(&s)}}
		s.AntiAffinity = s.Affinity
	case 5:
		s.Zones = []reqs.Set{nil}
		s.Volumes = []cluster.Volume{{}, {}}
	case 6:
		s.HostPorts = []cluster.HostPort{{}, {Port: -1}}
		s.Tolerations = []corev1.Toleration{{}}
	case 7:
		p.Pods = append(p.Pods, *pod)
	case 8:
		pod.Key = cluster.PodKey{}
	}
}

func (m *maker) wreckView(p *solve.Problem) {
	v := m.view
	switch m.IntN(8) {
	case 0:
		v.Pools = nil
	case 1:
		v.Pools = append(v.Pools, v.Pools...)
	case 2:
		v.Words = reqs.Vocabulary{}
	case 3:
		v.Daemons = append(v.Daemons, cluster.Daemon{Shape: &cluster.Shape{Key: "wild daemon", Requests: m.quantity()}})
	case 4:
		v.Nodes = nil
	case 5:
		v.Resources = resources.Table{}
	case 6:
		p.Pods = nil
	case 7:
		p.Policy.NodeFee, p.Policy.Workers = m.price(), -3
		p.Moved, p.Pods = p.Pods, nil
	}
}
