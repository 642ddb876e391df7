package observe

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/metric"
)

// A sum of fractions depends on the order of adding. A gauge that nothing changed does not move.
func TestUtilizationDoesNotMove(t *testing.T) {
	t.Parallel()
	nodes := map[string]*nodeState{}
	for i := range int64(40) {
		name, milli := fmt.Sprint(i), 101*i*i+7
		nodes[name] = &nodeState{node: &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}}}}
		nodes[name].sums[0] = map[corev1.ResourceName]*podAmount{corev1.ResourceCPU: {request: milli / 3}}
	}
	first := ""
	for range 100 {
		s := &scrape{set: metric.New(prometheus.NewRegistry()), pairs: metric.NewPairs()}
		s.utilization(nodes)
		text := fmt.Sprint(len(s.out), testutil.ToFloat64(collected(s.out)))
		if first == "" {
			first = text
		}
		if text != first {
			t.Fatalf("utilization %s, and once %s", text, first)
		}
	}
}

// collected is a collector of finished metrics.
type collected []prometheus.Metric

func (collected) Describe(chan<- *prometheus.Desc) {}

func (c collected) Collect(to chan<- prometheus.Metric) {
	for _, m := range c {
		to <- m
	}
}
