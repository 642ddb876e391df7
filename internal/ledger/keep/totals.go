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
	silent  bool // metrics stay as they are
}

// skip has metrics go on from what they show, if they show anything: what is added to the totals was spent before, and a rate
// would say that it is spent now.
func (t *totals) skip(d inspect.DaySavings) {
	if len(t.shown) > 0 {
		t.silent = true
		t.show(d)
		t.silent = false
	}
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
	if !t.silent {
		counter.WithLabelValues(labels...).Add(max(0, total-t.shown[key]))
	}
	t.shown[key] = max(total, t.shown[key])
}
