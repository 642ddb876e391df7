package keep

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/metric"
)

// totals shows what the cluster has cost in all as metrics. Their labels are the rows of the ledger, which are bounded. A
// replica that does not lead observes nothing, and shows nothing.
type totals struct {
	metrics *metric.Set
	shown   map[string]float64
}

func (t *totals) show(d inspect.DaySavings) {
	m := t.metrics
	for i := range d.NodePools {
		r := &d.NodePools[i]
		t.raise(m.CostSpent, r.Spent, "spent", r.Name)
		t.raise(m.CostUnconsolidated, r.Unconsolidated, "unconsolidated", r.Name)
		t.raise(m.CostEvictions, float64(r.Evictions), "evictions", r.Name)
	}
	for i := range d.Namespaces {
		r := &d.Namespaces[i]
		t.raise(m.CostNamespaceSpent, r.Spent, "namespace spent", r.Name)
		t.raise(m.CostNamespaceEvictions, float64(r.Evictions), "namespace evictions", r.Name)
	}
	t.raise(m.CostBound, d.Total.Bound, "bound")
	t.raise(m.CostBoundSpent, d.Total.BoundSpent, "bound spent")
}

// raise has a counter show a total. It never decreases.
func (t *totals) raise(counter *prometheus.CounterVec, total float64, what string, labels ...string) {
	key := what + "\x00" + strings.Join(labels, "\x00")
	counter.WithLabelValues(labels...).Add(max(0, total-t.shown[key]))
	t.shown[key] = max(total, t.shown[key])
}
