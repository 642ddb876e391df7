package arch_test

import (
	"path"
	"strings"
	"testing"
)

// We run Karpenter to measure ourselves against it, as a published module behind its exported API, in
// a module of its own. Nothing else may depend on it.
func TestKarpenterIsOnlyMeasured(t *testing.T) {
	t.Parallel()
	const karpenter, home = "sigs.k8s.io/karpenter", "bench/peer"
	for _, file := range repository(t).sources {
		for _, spec := range file.syntax.Imports {
			if strings.HasPrefix(strings.Trim(spec.Path.Value, `"`), karpenter) && file.dir() != home {
				t.Errorf("%s imports %s: only %s may", file.path, spec.Path.Value, home)
			}
		}
	}
	for _, name := range repository(t).files {
		if path.Base(name) != "go.mod" {
			continue
		}
		text := readRoot(t, name)
		if strings.Contains(text, karpenter) != (path.Dir(name) == home) {
			t.Errorf("%s: %s belongs to %s/go.mod alone", name, karpenter, home)
		}
		if path.Dir(name) == home && strings.Contains(text, "replace ") {
			t.Errorf("%s replaces a module: what is measured is what is published", name)
		}
	}
}
