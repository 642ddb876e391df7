package app

import (
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
	"github.com/dovetail-sh/dovetail/internal/controller/observe"
	"github.com/dovetail-sh/dovetail/internal/metric"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/version"
)

// newMetrics makes the metrics and shows them at /metrics until release is called: a process may run
// one controller after another.
func newMetrics(clouds ...metric.Labels) (set *metric.Set, release func()) {
	reg := prometheus.NewRegistry()
	set = metric.New(reg, clouds...)
	build := version.Get()
	set.BuildInfo.WithLabelValues(build.Version, runtime.Version(), runtime.GOARCH, build.Commit).Set(1)
	ctrlmetrics.Registry.MustRegister(reg)
	return set, func() { ctrlmetrics.Registry.Unregister(reg) }
}

// addObservers adds what follows the state of the cluster for metrics. optional are kinds that the cluster may not serve. It
// returns nil where that state is not to be observed.
func addObservers(mgr ctrl.Manager, classes []driver.Class, optional []observe.ConditionKind, set *metric.Set, events *report.Recorder, now func() time.Time) (*observe.StateMetrics, error) {
	state := &observe.StateMetrics{Informers: mgr.GetCache(), Metrics: set, Now: now}
	conditions := &observe.ConditionMetrics{
		Informers: mgr.GetCache(), All: set.AllConditions, Now: now,
		Kinds: []observe.ConditionKind{
			observe.ClaimConditions(set), observe.PoolConditions(set), observe.NodeConditions(set, events),
		},
	}
	for _, k := range classes {
		conditions.Kinds = append(conditions.Kinds, observe.ConditionKind{
			GroupKind: k.GroupKind(), New: k.New, Conditions: k.Conditions, Metrics: set.Conditions[strings.ToLower(k.Kind)],
		})
	}
	conditions.Kinds = append(conditions.Kinds, optional...)
	for _, m := range []interface {
		prometheus.Collector
		manager.Runnable
	}{state, conditions} {
		if err := ctrlmetrics.Registry.Register(m); err != nil {
			return nil, err
		}
		if err := mgr.Add(m); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// countRequests counts the requests that pass through a transport.
func countRequests(set *metric.Set) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return &meter{next: next, set: set} }
}

type meter struct {
	next http.RoundTripper
	set  *metric.Set
}

// RoundTrip sends a request. One without a response has the code <error>.
func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := m.next.RoundTrip(req)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	m.set.ClientRequests.WithLabelValues(code, req.Method).Inc()
	m.set.ClientDuration.WithLabelValues(req.Method).Observe(time.Since(start).Seconds())
	return resp, err
}
