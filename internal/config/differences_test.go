package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/config"
)

// Trust A02: the page of differences names settings that exist, with the defaults they have, and every setting
// that changes decisions and that Karpenter does not know.
func TestTrust_A02_DifferencesNameTheirSettings(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, s := range config.Settings() {
		known["--"+s.Flag] = true
	}
	for _, flag := range regexp.MustCompile("--[a-z][a-z-]+").FindAllString(string(page), -1) {
		if !known[flag] {
			t.Errorf("%s is on the page, and no setting", flag)
		}
	}
	for _, flag := range []string{
		"--consolidation-min-saving=0", "--consolidation-pod-cost=0", "--consolidation-min-node-age`, which is `0s`", "--node-fee=0", "--strict-compatibility", "--serve-decisions=false",
	} {
		if !strings.Contains(string(page), flag) {
			t.Errorf("%s is not on the page", flag)
		}
	}
}

// Trust A02: what a drop-in does unless told otherwise.
func TestTrust_A02_DefaultsOfADropIn(t *testing.T) {
	t.Parallel()
	want := map[string]string{"consolidation-min-node-age": "0s", "consolidation-min-saving": "0.1", "consolidation-pod-cost": "0.01"}
	for _, s := range config.Settings() {
		if d, ok := want[s.Flag]; ok && s.Default != d {
			t.Errorf("--%s is %s unless set, want %s", s.Flag, s.Default, d)
		}
	}
}
