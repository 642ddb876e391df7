package metric

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Doc is what there is to know about a metric.
type Doc struct {
	Name   string
	Type   string // counter, gauge, histogram or summary
	Labels []string
	Help   string
	Stable bool // labels are only ever added (V15-73)
	Idle   bool // what it measures is not built yet: it has no series, or stays 0
}

// Labels are what a cloud adds to metrics.
type Labels struct {
	Nodes   []string // labels of its nodes
	Classes []string // kinds of its node classes, as metrics spell them
}

// New makes the metrics and registers them, with the labels of all clouds.
func New(reg prometheus.Registerer, clouds ...Labels) *Set {
	s, b := &Set{}, &builder{reg: reg, nodeKeys: coreKeys()}
	for _, c := range clouds {
		b.nodeKeys, b.classes = append(b.nodeKeys, c.Nodes...), append(b.classes, c.Classes...)
	}
	s.nodeKeys = b.nodeKeys
	b.defineGeneral(s)
	b.nodes(s)
	b.pods(s)
	b.costs(s)
	b.disruption(s)
	b.definePlanning(s)
	b.defineCloud(s)
	b.defineClient(s)
	b.defineConditions(s)
	s.docs = b.docs
	return s
}

// Docs lists the metrics in the order of the documentation.
func (s *Set) Docs() []Doc { return slices.Clone(s.docs) }

// NodeKeys are the labels of nodes that appear on every metric about one node, as LabelName calls them.
func (s *Set) NodeKeys() []string { return slices.Clone(s.nodeKeys) }

// coreKeys are those of them that nodes have in every cloud.
func coreKeys() []string {
	return []string{
		karpv1.LabelNodePool, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable,
		corev1.LabelArchStable, corev1.LabelOSStable, karpv1.LabelCapacityType, corev1.LabelWindowsBuild,
	}
}

// nodeLabels are those of every metric about one node: NodeKeys, then what is not a label of the node.
func (b *builder) nodeLabels(more ...string) []string {
	var names []string
	for _, key := range b.nodeKeys {
		names = append(names, LabelName(key))
	}
	return append(append(names, "node_name", "phase", "managed"), more...)
}

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

// isStable says which metrics are guaranteed to stay as they are.
func isStable(name string) bool {
	switch name {
	case "karpenter_build_info", "karpenter_nodeclaims_created_total", "karpenter_nodeclaims_terminated_total",
		"karpenter_nodes_created_total", "karpenter_nodes_terminated_total", "karpenter_nodepools_limit", "karpenter_nodepools_usage",
		"karpenter_nodepools_allowed_disruptions", "karpenter_pods_startup_duration_seconds",
		"karpenter_scheduler_scheduling_duration_seconds", "karpenter_voluntary_disruption_decisions_total":
		return true
	}
	return strings.HasPrefix(name, "operator_") || strings.HasPrefix(name, "karpenter_cluster_state_")
}

// isIdle says which metrics wait for what they measure. A test holds that all others are set somewhere.
func isIdle(name string) bool {
	return strings.HasPrefix(name, "operator_capacitybuffer_")
}

type builder struct {
	reg      prometheus.Registerer
	docs     []Doc
	nodeKeys []string
	classes  []string // kinds of node classes
}

func (b *builder) recordDefinition(kind, name, help string, labels []string) {
	b.docs = append(b.docs, Doc{Name: name, Type: kind, Labels: labels, Help: help, Stable: isStable(name), Idle: isIdle(name)})
}

func (b *builder) counter(name, help string, labels ...string) *prometheus.CounterVec {
	b.recordDefinition("counter", name, help, labels)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	b.reg.MustRegister(v)
	return v
}

// initSeries has counters say 0 from the start. Prometheus sees an increase only of a series that it knows, so that an alert about the
// first event needs the series before it.
func initSeries(v *prometheus.CounterVec, values ...string) {
	for _, value := range values {
		v.WithLabelValues(value)
	}
}

func (b *builder) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	b.recordDefinition("gauge", name, help, labels)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	b.reg.MustRegister(v)
	return v
}

func (b *builder) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	b.recordDefinition("histogram", name, help, labels)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	b.reg.MustRegister(v)
	return v
}

func (b *builder) summary(name, help string, labels ...string) *prometheus.SummaryVec {
	b.recordDefinition("summary", name, help, labels)
	v := prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: name, Help: help, Objectives: quantiles()}, labels)
	b.reg.MustRegister(v)
	return v
}
