package disruption_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// G13, FM N03: nodes that cannot go are counted by what keeps them, as long as it does.
func TestG13_BlockedNodesGauge(t *testing.T) {
	t.Parallel()
	d, memory, _ := emptying(t, interceptor.Funcs{}, "a", "b")
	memory.view.Nodes[0].ProtectedBy, memory.view.Nodes[1].Nominated = karpv1.AnnotationDoNotDisrupt, true
	if err := d.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, why := range []string{"do_not_disrupt", "node_nominated"} {
		if n := testutil.ToFloat64(d.Metrics.DisruptionBlockedNodes.WithLabelValues("general", why)); n != 1 {
			t.Errorf("%s: %v nodes, want 1", why, n)
		}
	}
	memory.view.Pools, memory.view.Nodes = nil, nil
	if err := d.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testutil.CollectAndCount(d.Metrics.DisruptionBlockedNodes); n != 0 {
		t.Errorf("%d series are left behind", n)
	}
}
