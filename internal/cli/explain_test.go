package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// snapshotFile writes a snapshot, and returns its path.
func snapshotFile(t *testing.T, f *snapshot.File) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.json")
	var b bytes.Buffer
	if err := f.Encode(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// EX-01 to EX-09: what each kind of object is answered.
func TestEX_01_Explain(t *testing.T) {
	t.Parallel()
	path := snapshotFile(t, snapshottest.Varied())
	for _, about := range []string{
		"pod/fits", "pod/huge", "pod/ignored", "pod/db-0", "pod/web-0000-0", "pod/web-leaving", "pod/outside", "pod/agent-node-held",
		"node/node-0000", "node/node-held", "node/node-drifted", "node/node-leaving", "node/node-foreign", "nodeclaim/claim-coming",
		"nodepool/default", "nodepool/batch", "nodepool/small", "nodepool/closed",
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := run("", "explain", about, "--scenario", path, "-o", "wide")
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			golden(t, "explain-"+strings.ReplaceAll(about, "/", "-")+".txt", stdout)
		})
	}
}

// run executes one call.
func run(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(args, Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs, LookupEnv: func(string) (string, bool) { return "", false }})
	return code, out.String(), errs.String()
}
