package provisioning_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
)

// operations 8.5: the plan that is being made shows, and is gone from the metrics once it is there.
func TestPlanInTheMakingShows(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("a", "500m"), controllertest.PendingPod("b", "500m"))
	most := 0.0
	l.Now = func() time.Time { // is read while the plan is made
		most = max(most, sum(l.metrics.SchedulerQueueDepth))
		return time.Now()
	}
	l.Pass(t.Context())
	if most != 2 {
		t.Errorf("the gauge showed %v pods, want 2", most)
	}
	for name, gauge := range map[string]*prometheus.GaugeVec{"depth": l.metrics.SchedulerQueueDepth, "time": l.metrics.SchedulerUnfinishedWork} {
		if n := testutil.CollectAndCount(gauge); n != 0 {
			t.Errorf("%s: %d series after the plan, want none", name, n)
		}
	}
}

// sum adds up all series of a gauge.
func sum(gauge *prometheus.GaugeVec) float64 {
	reg := prometheus.NewRegistry()
	reg.MustRegister(gauge)
	families, _ := reg.Gather()
	total := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			total += m.GetGauge().GetValue()
		}
	}
	return total
}

// operations 10.1: a pod that cannot be planned for is in the log, once.
func TestIgnoredPodsAreLogged(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	pod := controllertest.PendingPod("gpu", "1")
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	l.add(controllertest.ReadyPool("general"), pod)
	var lines []string
	ctx := log.IntoContext(context.Background(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	l.Pass(ctx)
	l.Pass(ctx)
	if len(lines) != 1 || !strings.Contains(lines[0], `"ignoring pod"`) || !strings.Contains(lines[0], `"gpu"`) {
		t.Errorf("the log says %q, want one line that the pod is ignored", lines)
	}
}
