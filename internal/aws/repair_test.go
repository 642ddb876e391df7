package aws

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/metered"
)

// V15-67, LC-41: what EC2 nodes may be unhealthy of, and for how long.
func TestRepairs(t *testing.T) {
	t.Parallel()
	var got []string
	for _, r := range newWorld(t).provider.Repairs() {
		got = append(got, fmt.Sprintf("%s=%s %q after %s %s bound %s priority %d", r.Condition, r.Status, r.ReasonRegex, r.Toleration, r.Action, *r.Bound, r.Priority))
	}
	want := []string{
		`Ready=False "" after 30m0s ReplaceNode bound 0s priority 0`,
		`Ready=Unknown ".*" after 30m0s ReplaceNode bound 0s priority 0`,
		`AcceleratedHardwareReady=False ".*" after 10m0s ReplaceNode bound 0s priority 0`,
		`StorageReady=False ".*" after 30m0s ReplaceNode bound 0s priority 0`,
		`NetworkingReady=False ".*" after 30m0s ReplaceNode bound 0s priority 0`,
		`KernelReady=False ".*" after 30m0s ReplaceNode bound 0s priority 0`,
		`ContainerRuntimeReady=False ".*" after 30m0s ReplaceNode bound 0s priority 0`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// V15-66, V15-70: a reboot is requested by instance, and measured.
func TestRebootIsMeasured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endError["i-2"] = &cloud.Error{Kind: cloud.Denied}
	m := &metered.Provider{Inner: w.provider, Cloud: "aws", Controller: "nodeclaim.reboot", Metrics: w.metrics, Now: w.clock}
	if err := m.Reboot(t.Context(), newClaim("a", start, withInstance("i-1")), "op"); err != nil {
		t.Error(err)
	}
	if err := m.Reboot(t.Context(), newClaim("b", start, withInstance("i-2")), "op"); !cloud.Is(err, cloud.Denied) {
		t.Error(err)
	}
	if err := m.Reboot(t.Context(), newClaim("c", start), "op"); !cloud.Is(err, cloud.Invalid) {
		t.Errorf("a claim without an instance: %v", err)
	}
	if diff := cmp.Diff([]string{"i-1", "i-2"}, w.rebooted); diff != "" {
		t.Error(diff)
	}
	counted := 0.0
	for labels, n := range w.series(t, "karpenter_cloudprovider_errors_total") {
		t.Log(labels)
		counted += n
	}
	if counted != 2 {
		t.Errorf("%v errors counted, want 2", counted)
	}
}
