package metric_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// Names, types and labels of metrics are API (operations 8, V15-32, V15-43, V15-56, V15-70..72).
func TestCompatibleMetrics(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../compat/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]metric.Doc{}
	for _, d := range metric.New(prometheus.NewRegistry(), aws()).Docs() {
		docs[d.Name] = d
	}
	nodes := slices.Sorted(slices.Values(docs["karpenter_nodes_current_lifetime_seconds"].Labels))
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		name, kind, labels := fields[0], fields[1], strings.Split(fields[2], ",")
		d, found := docs[name]
		delete(docs, name)
		if !found || d.Type != kind {
			t.Errorf("%s: have %q, want a %s", name, d.Type, kind)
			continue
		}
		switch {
		case labels[0] == "*":
			continue
		case labels[0] == "-":
			labels = nil
		case labels[0] == "N":
			labels = append(labels[1:], nodes...)
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(labels)), slices.Sorted(slices.Values(d.Labels))); diff != "" {
			t.Errorf("labels of %s (-want +got):\n%s", name, diff)
		}
	}
	for name := range docs {
		if !strings.HasPrefix(name, "dovetail_") {
			t.Errorf("%s is not in compat/metrics.txt; metrics of our own begin with dovetail_", name)
		}
	}
}

// operations 8.2: well-known labels of nodes, without domain, in snake case.
func TestNodeLabels(t *testing.T) {
	t.Parallel()
	labels := metric.New(prometheus.NewRegistry(), aws()).NodesCurrentLifetime.Labels()
	for _, want := range []string{"nodepool", "zone", "region", "instance_type", "arch", "os", "capacity_type", "windows_build", "instance_family", "node_name", "phase", "managed"} {
		if !slices.Contains(labels, want) {
			t.Errorf("label %s is missing", want)
		}
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(labels))); len(unique) != len(labels) {
		t.Errorf("two labels of nodes have one name: %v", labels)
	}
	if got := len(metric.New(prometheus.NewRegistry(), aws()).NodeKeys()) + 3; got != len(labels) {
		t.Errorf("%d labels, want %d", len(labels), got)
	}
}

// Every metric says what it means, and those that wait for objects do not show before there are any. Counters with a few known
// labels show 0 (operations 8.4): Prometheus sees no increase of a series that begins with its first event.
func TestDocs(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	for _, d := range metric.New(reg, aws()).Docs() {
		if d.Help == "" || strings.HasSuffix(d.Help, ".") {
			t.Errorf("help of %s is %q", d.Name, d.Help)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]int{}
	for _, f := range families {
		shown[f.GetName()] = len(f.GetMetric())
	}
	if diff := cmp.Diff(map[string]int{
		"dovetail_panics_total":                                       5,
		"karpenter_interruption_instance_status_unhealthy_total":      3,
		"karpenter_voluntary_disruption_consolidation_timeouts_total": 2,
		"karpenter_voluntary_disruption_failed_validations_total":     3,
	}, shown); diff != "" {
		t.Errorf("shown at the start (-want +got):\n%s", diff)
	}
}

// V15-73: which metrics only ever gain labels.
func TestStability(t *testing.T) {
	t.Parallel()
	for _, d := range metric.New(prometheus.NewRegistry(), aws()).Docs() {
		switch d.Name {
		case "karpenter_build_info", "karpenter_cluster_state_synced", "karpenter_nodeclaims_created_total", "karpenter_nodepools_limit", "operator_node_status_condition_count":
			if !d.Stable {
				t.Errorf("%s is not stable", d.Name)
			}
		case "karpenter_nodeclaims_disrupted_total", "karpenter_pods_disruption_initiated_total", "karpenter_consolidation_score":
			if d.Stable {
				t.Errorf("%s is stable", d.Name)
			}
		}
	}
}

// lives collects some samples of a Live gauge.
type lives []prometheus.Metric

func (lives) Describe(chan<- *prometheus.Desc) {}
func (l lives) Collect(out chan<- prometheus.Metric) {
	for _, m := range l {
		out <- m
	}
}

func TestLive(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	gauge, pairs := metric.New(reg, aws()).PoolsUsage, metric.NewPairs()
	common := pairs.Of(gauge.Labels(), "p", "")
	reg.MustRegister(lives{
		gauge.Sample(1, pairs.With(common, "resource_type", "cpu")),
		gauge.Sample(2, pairs.With(common, "resource_type", "memory")),
		gauge.Sample(3, pairs.Of(gauge.Labels(), "q", "cpu")),
		gauge.Sample(4, pairs.With(pairs.Of([]string{"z", "b"}, "1", "2"), "a", "3")),
	})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "karpenter_nodepools_usage" })
	if i < 0 {
		t.Fatal("the gauge does not show")
	}
	got := map[float64]string{}
	for _, m := range families[i].GetMetric() {
		for _, pair := range m.GetLabel() {
			got[m.Gauge.GetValue()] += pair.GetName() + "=" + pair.GetValue() + " "
		}
	}
	want := map[float64]string{1: "nodepool=p resource_type=cpu ", 2: "nodepool=p resource_type=memory ", 3: "nodepool=q resource_type=cpu ", 4: "a=3 b=2 z=1 "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// aws is what AWS adds, whose names users know from Karpenter.
func aws() metric.Labels {
	return metric.Labels{Nodes: awsv1.WellKnownLabels(), Classes: []string{"ec2nodeclass"}}
}
