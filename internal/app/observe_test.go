package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// described lists the metrics that /metrics can show.
func described(t *testing.T) []string {
	t.Helper()
	all, ok := ctrlmetrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatal("the registry does not describe itself")
	}
	out := make(chan *prometheus.Desc)
	go func() {
		all.Describe(out)
		close(out)
	}()
	var names []string
	for desc := range out {
		if found := regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(desc.String()); found != nil {
			names = append(names, found[1])
		}
	}
	return names
}

// operations 8.7, S-201: what is generic has the names that users know, whichever library brings it; and
// a process can run one controller after another. The library makes leader_election_slowpath_total and
// does not show it, and takes no other one.
func TestGenericMetrics(t *testing.T) {
	for range 2 {
		set, release := newMetrics()
		send := countRequests(set)(response{})
		for _, path := range []string{"/ok", "/broken"} {
			resp, err := send.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			if err == nil {
				resp.Body.Close()
			}
		}
		names := described(t)
		for _, want := range []string{
			"controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total", "controller_runtime_reconcile_time_seconds",
			"controller_runtime_reconcile_panics_total", "controller_runtime_reconcile_timeouts_total", "controller_runtime_active_workers",
			"controller_runtime_max_concurrent_reconciles", "workqueue_depth", "workqueue_adds_total", "workqueue_retries_total",
			"workqueue_queue_duration_seconds", "workqueue_work_duration_seconds", "workqueue_unfinished_work_seconds",
			"workqueue_longest_running_processor_seconds", "leader_election_master_status",
			"client_go_request_total", "client_go_request_duration_seconds", "karpenter_build_info",
		} {
			if !slices.Contains(names, want) {
				t.Errorf("%s is missing", want)
			}
		}
		families, err := ctrlmetrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counted := map[string]float64{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() == "client_go_request_total" {
					counted[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
		if counted["200 GET"] != 1 || counted["<error> GET"] != 1 || len(counted) != 2 {
			t.Errorf("requests counted: %v", counted)
		}
		release()
	}
	if slices.Contains(described(t), "karpenter_build_info") {
		t.Error("metrics stay after their controller")
	}
}

// response is an API server that breaks the connection for one path.
type response struct{}

func (response) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path == "/broken" {
		return nil, errors.New("connection lost")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}
