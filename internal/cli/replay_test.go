package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/replay"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// writeRecord writes a cluster with what was decided for it.
func writeRecord(t *testing.T, path string, nodes int, change func(*inspect.Changes)) {
	t.Helper()
	f := snapshottest.New(snapshottest.Options{Nodes: nodes, Pending: 3, Huge: 1})
	if err := f.Record(awsv1.Vocabulary(), "dovetail 0.1.0", nil); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&f.Decided.Changes)
	}
	if err := writeSnapshot(path, f); err != nil {
		t.Fatal(err)
	}
}

func TestRP_04_ReplayReadsDirectoriesAndGatesUpgrades(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeRecord(t, filepath.Join(dir, "1-monday.json.gz"), 6, nil)
	writeRecord(t, filepath.Join(dir, "2-tuesday.json"), 4, nil)
	code, stdout, stderr := runHere("", "replay", dir)
	if code != 0 || !strings.HasPrefix(stdout, "2 of 2 records are decided as before.\n") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	writeRecord(t, filepath.Join(dir, "3-wednesday.json"), 6, func(c *inspect.Changes) {
		c.After.Hourly, c.Remove, c.Kept = 0.4, c.Remove[1:], c.Kept[:1]
	})
	if err := os.WriteFile(filepath.Join(dir, "4-thursday.json"), []byte(`{"kind":"List"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("no record"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = runHere("", "replay", dir)
	text := strings.ReplaceAll(stdout+stderr, dir, "records")
	page, err := os.ReadFile("../../docs/how-to/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if want := strings.Join(strings.Fields(line), " "); !strings.Contains(strings.Join(strings.Fields(string(page)), " "), want) {
			t.Errorf("docs/how-to/replay.md lacks %q", want)
		}
	}
	golden(t, "replay.txt", regexp.MustCompile(`(\S) {2,}`).ReplaceAllString(text, "$1  ")) // columns are as wide as the name of the directory
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	code, stdout, _ = runHere("", "replay", dir, "-o", "json")
	var report replay.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 1 {
		t.Fatalf("exit code %d: %v", code, err)
	}
	if report.Equal != 2 || report.Different != 1 || report.Failed != 1 || len(report.Results[2].Differs) == 0 {
		t.Errorf("the report is %+v", report)
	}
}

func TestRP_01_SnapshotWithPlanIsARecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cluster, record := filepath.Join(dir, "cluster.json"), filepath.Join(dir, "record.json.gz")
	if err := writeSnapshot(cluster, snapshottest.Varied()); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{nil, {"--anonymize"}} {
		args := append([]string{"snapshot", "--scenario", cluster, "--with-plan", "-o", record}, more...)
		if code, _, stderr := runHere("", args...); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		if code, stdout, stderr := runHere("", "replay", record); code != 0 || !strings.HasPrefix(stdout, "1 of 1 record is decided as before") {
			t.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
	}
	if code, stdout, _ := runHere("", "replay", cluster); code != 1 || !strings.Contains(stdout, "dovetail snapshot --with-plan") {
		t.Errorf("exit code %d for a snapshot without a decision: %s", code, stdout)
	}
}

func TestRP_04_ReplayReadsStandardInput(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.json")
	writeRecord(t, path, 3, nil)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := string(bytes.Repeat(data, 2))
	if code, stdout, stderr := runHere(lines, "replay", "-"); code != 0 || !strings.Contains(stdout, "-:2") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestReplayRefusesWrongCalls(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no file":              {nil, "name files"},
		"a file that is gone":  {[]string{"none.json"}, "none.json"},
		"a directory of other": {[]string{t.TempDir()}, "has no files that end in .json"},
		"an unknown format":    {[]string{"-", "-o", "xml"}, "want table"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, _, stderr := runHere("", append([]string{"replay"}, tc.args...)...); code != 2 || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		})
	}
}

// runHere runs dovetail and returns its exit code and output.
func runHere(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(args, Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs})
	return code, out.String(), errs.String()
}
