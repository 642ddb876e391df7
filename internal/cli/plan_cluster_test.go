package cli

import (
	"path/filepath"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

func TestWI_40_PlanOfASnapshotForPeople(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cluster.json")
	if err := writeSnapshot(path, snapshottest.Varied()); err != nil {
		t.Fatal(err)
	}
	for name, format := range map[string]string{"plan-cluster.txt": "table", "plan-cluster-wide.txt": "wide", "plan-cluster.yaml": "yaml"} {
		code, stdout, stderr := runHere("", "plan", "--scenario", path, "-o", format)
		if code != 0 || stderr != "" {
			t.Errorf("exit code %d: %s", code, stderr)
		}
		golden(t, name, stdout)
	}
}
