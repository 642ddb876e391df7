package arch_test

import (
	"strings"
	"testing"
)

// Trust A02: flows, demo and benchmarks show what users get, so that none of them tunes consolidation.
func TestTrust_A02_SandboxRunsWithDefaults(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, file := range repository(t).sources {
		if !file.within("sandbox") {
			continue
		}
		seen++
		if strings.Contains(string(file.text), "--consolidation-") {
			t.Errorf("%s sets how consolidation decides; the defaults have to do", file.path)
		}
	}
	if seen < 100 {
		t.Fatalf("%d files of the sandbox: the test looks at the wrong ones", seen)
	}
}
