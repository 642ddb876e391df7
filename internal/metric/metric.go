package metric

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Doc is what there is to know about a metric.
type Doc struct {
	Name   string
	Type   string // counter, gauge, histogram or summary
	Labels []string
	Help   string
}

// New makes the metrics and registers them.
func New(reg prometheus.Registerer) *Set {
	s, b := &Set{}, &builder{reg: reg}
	b.general(s)
	b.nodes(s)
	b.pods(s)
	b.disruption(s)
	b.planning(s)
	b.cloud(s)
	s.docs = b.docs
	return s
}

// Docs lists the metrics in the order of the documentation.
func (s *Set) Docs() []Doc { return slices.Clone(s.docs) }

// NodeLabels are those that every metric about one node has. Well-known labels of the cloud are there
// under their name without domain, in snake case.
func NodeLabels() []string {
	return []string{
		"node_name", "nodepool", "zone", "region", "instance_type", "arch", "os", "capacity_type", "windows_build",
		"instance_category", "instance_family", "instance_generation", "instance_size", "instance_cpu", "instance_memory", "phase", "managed",
	}
}

func nodeLabels(more ...string) []string { return append(NodeLabels(), more...) }

// durations are the buckets, in seconds, of everything that takes time.
func durations() []float64 {
	return []float64{
		0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5,
		6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60, 120, 150, 300, 450, 600,
	}
}

// lifetimes are buckets from a quarter of an hour to thirty days.
func lifetimes() []float64 {
	const hour, day = 3600.0, 24 * 3600.0
	return []float64{hour / 4, hour / 2, hour, 2 * hour, 4 * hour, 6 * hour, 12 * hour, day, 2 * day, 3 * day, 5 * day, 7 * day, 10 * day, 15 * day, 20 * day, 25 * day, 30 * day}
}

func sizes() []float64 { return []float64{1, 2, 4, 5, 10, 15, 20, 25, 30, 40, 50, 100, 200, 500, 1000} }

func doubling(first float64, n int) []float64 { return prometheus.ExponentialBuckets(first, 2, n) }

// quantiles of every summary, with how exact they are.
func quantiles() map[float64]float64 {
	return map[float64]float64{0: 0, 0.5: 0.05, 0.9: 0.01, 0.99: 0.001, 1: 0}
}

type builder struct {
	reg  prometheus.Registerer
	docs []Doc
}

func (b *builder) note(kind, name, help string, labels []string) {
	b.docs = append(b.docs, Doc{Name: name, Type: kind, Labels: labels, Help: help})
}

func (b *builder) counter(name, help string, labels ...string) *prometheus.CounterVec {
	b.note("counter", name, help, labels)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	b.reg.MustRegister(v)
	return v
}

func (b *builder) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	b.note("gauge", name, help, labels)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	b.reg.MustRegister(v)
	return v
}

func (b *builder) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	b.note("histogram", name, help, labels)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	b.reg.MustRegister(v)
	return v
}

func (b *builder) summary(name, help string, labels ...string) *prometheus.SummaryVec {
	b.note("summary", name, help, labels)
	v := prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: name, Help: help, Objectives: quantiles()}, labels)
	b.reg.MustRegister(v)
	return v
}
