package drivers_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/config"
	"github.com/dovetail-sh/dovetail/internal/drivers"
)

// Trust A02: the page of differences names settings that exist, and every one that Karpenter does not have.
func TestTrust_A02_DifferencesNameTheirSettings(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, s := range config.Settings(drivers.Driver().Settings) {
		known["--"+s.Flag] = true
	}
	for _, flag := range regexp.MustCompile("--[a-z][a-z-]+").FindAllString(string(page), -1) {
		if !known[flag] {
			t.Errorf("%s is on the page, and no setting", flag)
		}
	}
	for flag := range known {
		if !slices.Contains(karpenters(), strings.TrimPrefix(flag, "--")) && !strings.Contains(string(page), flag) {
			t.Errorf("%s is a setting that Karpenter does not have, and not on the page", flag)
		}
	}
	for _, text := range []string{
		"--consolidation-min-saving=0", "--consolidation-pod-cost=0", "--consolidation-min-node-age` (default `0s`)", "--node-fee=0", "--spot-pool-share=0", "--nominate-pods=false", "--serve-decisions=false",
	} {
		if !strings.Contains(string(page), text) {
			t.Errorf("%s is not on the page", text)
		}
	}
}

// karpenters are the settings that users of Karpenter know.
func karpenters() []string {
	return strings.Fields(`karpenter-service metrics-port health-probe-port kube-client-qps kube-client-burst enable-profiling
		disable-cluster-state-observability disable-controller-warmup disable-leader-election leader-election-name leader-election-namespace
		system-namespace memory-limit cpu-requests log-level log-output-paths log-error-output-paths batch-max-duration batch-idle-duration
		preference-policy min-values-policy ignore-dra-requests scheduler-config feature-gates legacy-node-repair cluster-name cluster-endpoint
		cluster-ca-bundle eks-control-plane isolated-vpc vm-memory-overhead-percent interruption-queue reserved-enis disable-dry-run
		enable-zonal-shift ami-refresh-interval subnet-refresh-interval aws-feature-gates`)
}

// Trust A02: what a drop-in does unless told otherwise.
func TestTrust_A02_DefaultsOfADropIn(t *testing.T) {
	t.Parallel()
	want := map[string]string{"consolidation-min-node-age": "0s", "consolidation-min-saving": "0.1", "consolidation-pod-cost": "0.01"}
	for _, s := range config.Settings(drivers.Driver().Settings) {
		if d, ok := want[s.Flag]; ok && s.Default != d {
			t.Errorf("--%s is %s unless set, want %s", s.Flag, s.Default, d)
		}
	}
}
