package flow_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
)

// plainMetric reads a series of the controller that is of no pool; one that is not there is 0.
func (f *flow) plainMetric(series string) float64 {
	f.Helper()
	_, text := f.read("/metrics", "")
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), series+" "); found {
			value, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				f.Fatalf("%s: %v", line, err)
			}
			return value
		}
	}
	return 0
}

// A03: pods are nominated for the node that was bought for them, and land there. Without the right to patch
// pods/status they run all the same, and one line of the log names the right.
func TestTrust_A03_PodsLandWhereTheyWerePlanned(t *testing.T) {
	t.Parallel()
	const done, planned = `dovetail_pods_nominated_total{result="done"}`, `dovetail_pods_landed_total{place="planned"}`
	f := newFlow(t, alone) // others have pods too
	f.pool("")
	f.deploy("first", 1) // metrics are served by the time it runs
	f.running("first", 1)
	doneBefore, plannedBefore := f.plainMetric(done), f.plainMetric(planned)
	f.deploy("inflate", 3, apart("inflate")) // one may find room beside the first
	f.running("inflate", 3)
	if n := f.plainMetric(done) - doneBefore; n < 2 {
		t.Errorf("%v pods were nominated, want 2 or 3", n)
	}
	f.await(soon, "the pods are counted where they were planned", func() (bool, string) {
		n := f.plainMetric(planned) - plannedBefore
		return n >= 2, strconv.FormatFloat(n, 'f', -1, 64)
	})
	for _, p := range f.pods("inflate") {
		if p.Status.NominatedNodeName != "" && p.Status.NominatedNodeName != p.Spec.NodeName {
			t.Errorf("pod %s is on %s and nominated for %s", p.Name, p.Spec.NodeName, p.Status.NominatedNodeName)
		}
	}

	f.proxyFault(apiproxy.Fault{Verb: "patch", Resource: "pods/status", Status: http.StatusForbidden})
	f.deploy("denied", 2, apart("denied"), requests("1500m", "1Gi"))
	f.running("denied", 2)
	f.await(soon, "the log names the right that is missing", func() (bool, string) {
		for _, line := range f.log() {
			if strings.Contains(line, "allow the service account to patch pods/status") {
				return true, ""
			}
		}
		return false, ""
	})
}
