package random

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Source is where chance comes from: *rand.Rand of math/rand/v2, or a generator that shrinks.
type Source interface {
	IntN(n int) int // at least zero and below n, which is above zero
}

// Options bound the size of a problem; a field that is zero has the default named.
type Options struct {
	Nodes     int  // 8
	Pods      int  // 30
	Pools     int  // 4
	Types     int  // 12
	Workloads int  // 6: pods that are alike belong to one
	Plain     bool // no topology constraints
}

const (
	zoneKey     = corev1.LabelTopologyZone
	capacityKey = "karpenter.sh/capacity-type"
	poolKey     = "karpenter.sh/nodepool"
	familyKey   = "cloud.example/family" // well-known: types have it
	// A label that offerings of a reservation may have.
	reservationKey = "cloud.example/reservation"
	rackKey        = "example.com/rack" // custom: pools may have it
	teamKey        = "example.com/team" // custom: pools may have it
	gpu            = "example.com/gpu"
	driver         = "disk.example"
)

// maker holds what has been made so far.
type maker struct {
	Source
	Options
	table     resources.Table
	zones     []string
	types     []catalog.InstanceType
	workloads []workload
	shapes    map[string]*cluster.Shape
	view      *cluster.Snapshot
	pods      int // names given
}

// Problem makes a cluster and pods to place.
func Problem(from Source, o Options) solve.Problem {
	m := newMaker(from, o)
	m.makeNodes(m.IntN(m.Nodes + 1))
	for range m.IntN(m.Pods + 1) {
		p := m.pod(m.workload())
		m.view.Pending = append(m.view.Pending, p)
	}
	m.freeze()
	p := solve.Problem{View: m.view, Pods: slices.Clone(m.view.Pending), Policy: m.policy()}
	for i := range m.view.Nodes { // scheduling 3.2
		for _, bound := range m.view.Nodes[i].Pods {
			if m.view.Nodes[i].Deleting && !bound.Stays {
				p.Pods = append(p.Pods, bound)
			}
		}
	}
	return p
}

// Question makes a cluster that may be too dear for what runs on it.
func Question(from Source, o Options) solve.Question {
	m := newMaker(from, o)
	m.makeNodes(1 + m.IntN(m.Nodes))
	m.freeze()
	q := solve.Question{View: m.view, Policy: m.policy()}
	q.Policy.ReservedFallback = true
	for i := range m.view.Nodes {
		if n := &m.view.Nodes[i]; n.Pool != "" && n.Initialized && !n.Deleting && n.Price > 0 && !m.oneIn(6) {
			q.Candidates = append(q.Candidates, n.Name)
		}
	}
	return q
}

func newMaker(from Source, o Options) *maker {
	o.Nodes, o.Pods, o.Pools = cmp.Or(o.Nodes, 8), cmp.Or(o.Pods, 30), cmp.Or(o.Pools, 4)
	o.Types, o.Workloads = cmp.Or(o.Types, 12), cmp.Or(o.Workloads, 6)
	m := &maker{Source: from, Options: o, table: resources.NewTable(gpu), shapes: map[string]*cluster.Shape{}}
	m.view = &cluster.Snapshot{
		Version:   uint64(1 + m.IntN(1000)),
		Now:       time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Words:     reqs.CoreVocabulary().With(reqs.Vocabulary{WellKnownKeys: map[string]bool{familyKey: true, reservationKey: true}}),
		Resources: m.table,
	}
	m.zones = []string{"zone-a", "zone-b", "zone-c"}[:1+m.IntN(3)]
	m.makeTypes()
	m.makePools()
	m.makeWorkloads()
	m.makeDaemons()
	return m
}

// freeze puts the view in the order that a Snapshot guarantees.
func (m *maker) freeze() {
	v := m.view
	slices.SortFunc(v.Pools, func(a, b cluster.Pool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(b.Name, a.Name))
	})
	byKey := func(a, b cluster.PodKey) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	}
	slices.SortFunc(v.Nodes, func(a, b cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(v.Pending, func(a, b cluster.Pod) int { return byKey(a.Key, b.Key) })
	slices.SortFunc(v.Daemons, func(a, b cluster.Daemon) int { return byKey(a.Key, b.Key) })
}

func (m *maker) policy() solve.Policy {
	return solve.Policy{
		IgnorePreferences:  m.oneIn(5),
		BestEffortMinimums: m.oneIn(4),
		ReservedFallback:   m.oneIn(4),
		NoReserved:         m.oneIn(8),
		NodeFee:            pick(m, 0, 0, 0.03),
		SpotShare:          pick(m, 0, 0.25, 0.5),
		SpotCost:           0.03,
	}
}

func (m *maker) oneIn(n int) bool { return m.IntN(n) == n-1 }

func pick[T any](m *maker, list ...T) T { return list[m.IntN(len(list))] }

// some keeps each entry with a probability of two thirds, at least one.
func some[T any](m *maker, list []T) []T {
	var kept []T
	for _, v := range list {
		if !m.oneIn(3) {
			kept = append(kept, v)
		}
	}
	if len(kept) == 0 {
		kept = append(kept, list[m.IntN(len(list))])
	}
	return kept
}

func in(values ...string) reqs.Req {
	return reqs.Req{Values: slices.Compact(slices.Sorted(slices.Values(values)))}
}

func notIn(values ...string) reqs.Req {
	r := in(values...)
	r.Not = true
	return r
}

// intern gives equal shapes one pointer and a key, as a Reader does.
func (m *maker) intern(s cluster.Shape) *cluster.Shape {
	s.Key = ""
	text, err := json.Marshal(s)
	if err != nil {
		text = []byte(fmt.Sprint(s)) // a shape of ours always has a JSON form
	}
	key := string(text)
	if m.shapes[key] == nil {
		s.Key = key
		m.shapes[key] = &s
	}
	return m.shapes[key]
}
