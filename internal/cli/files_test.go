package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// WI-19, WI-24: a file that cannot be used has the same exit code and the same words in every command that reads it.
func TestWI_24_FilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, err := os.ReadFile(snapshotFile(t, snapshottest.New(snapshottest.Options{Nodes: 1})))
	if err != nil {
		t.Fatal(err)
	}
	for file, tc := range map[string]struct {
		text, want string
		byPlan     string // what dovetail plan says, which reads scenarios too; empty: the same
	}{
		"absent.json":    {want: "absent.json: no such file"},
		"cut-off.json":   {text: string(good[:len(good)/2]), want: "cut-off.json is a malformed snapshot: unexpected EOF; take it again with dovetail snapshot -o FILE"},
		"later.json":     {text: `{"format":"dovetail.sh/snapshot/v9"}`, want: `later.json is a malformed snapshot: the format is "dovetail.sh/snapshot/v9"`},
		"packed.json.gz": {text: "\x1f\x8bnot gzip", want: "packed.json.gz is a malformed snapshot: decompress"},
		"scenario.json":  {text: `{"name":"s2","pods":5}`, want: "scenario.json is a scenario, which only dovetail plan reads; dovetail snapshot -o FILE writes", byPlan: "scenario.json is a malformed scenario:\n$.pods: "},
		"manifest.json":  {text: `{"kind":"Pod"}`, want: "manifest.json is neither a snapshot nor a scenario; dovetail snapshot -o FILE writes a snapshot of a cluster"},
		"no.json":        {text: "kind: Pod\n", want: "no.json is neither a snapshot nor a scenario; dovetail snapshot -o FILE writes a snapshot of a cluster"},
		"empty.json":     {text: " ", want: "empty.json is neither a snapshot nor a scenario; dovetail snapshot -o FILE writes a snapshot of a cluster"},
	} {
		path := filepath.Join(dir, file)
		if tc.text != "" {
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, command := range [][]string{{"advise"}, {"console"}, {"explain", "pod/a"}, {"plan"}, {"snapshot"}, {"top"}, {"plan", "--live", "--instance-types"}} {
			want, args := tc.want, slices.Concat(command, []string{"--scenario", path})
			if command[0] == "plan" && tc.byPlan != "" {
				want = tc.byPlan
			}
			if len(command) == 3 { // another flag that names a snapshot
				want, args = tc.want, slices.Concat(command, []string{path})
			}
			code, stdout, stderr := run("", args...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
				t.Errorf("%s: exit code %d, want %d and %q: %s%s", strings.Join(args, " "), code, exitUsage, want, stdout, stderr)
			}
		}
	}
}
