package cli_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	tinyScenario  = "../scenario/testdata/tiny.json"
	provisionKeys = "tool scenario concurrency pods scheduled unschedulable onExistingNodes newNodes newNodesByCapacityType hourlyCost " +
		"lowerBound storeMs setupMs solveMs podsPerSec timedOut wallMs cpuMs allocs allocMiB baseRssMiB peakRssMiB"
	consolidateKeys = "tool scenario concurrency nodesBefore nodesAfter costBefore costAfter lowerBound done commands podsMoved replacements " +
		"invalidPlacements looks firstLook lastLook storeMs setupMs planningMs wallMs cpuMs allocs allocMiB baseRssMiB peakRssMiB"
)

// The names of the fields are what other tools read.
func TestPlanPrintsOneLineOfJSON(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"provision":   {[]string{"plan", "--scenario", tinyScenario}, provisionKeys},
		"explained":   {[]string{"plan", "--scenario", tinyScenario, "--explain", "--format", "json"}, provisionKeys + " explanation"},
		"consolidate": {[]string{"plan", "--scenario", tinyScenario, "--mode", "consolidate"}, consolidateKeys},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, stdout, stderr := call("", tc.args...)
			if strings.Count(stdout, "\n") != 1 {
				t.Fatalf("want one line:\n%s%s", stdout, stderr)
			}
			var fields map[string]any
			if err := json.Unmarshal([]byte(stdout), &fields); err != nil {
				t.Fatal(err)
			}
			want := slices.Sorted(slices.Values(strings.Fields(tc.want)))
			if d := cmp.Diff(want, slices.Sorted(maps.Keys(fields))); d != "" {
				t.Errorf("fields (-want +got):\n%s", d)
			}
		})
	}
}

// What the line says and what the file says are the same plan.
func TestPlanFileAddsUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plan.json")
	code, stdout, stderr := call("", "plan", "--scenario", tinyScenario, "--out", path)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var line struct {
		Pods, Scheduled, Unschedulable, NewNodes int
		HourlyCost                               float64
	}
	var file struct {
		Scenario string
		Nodes    []struct {
			Existing string
			Price    float64
			Pods     map[string]int
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(stdout), &line); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	placed, created, cost := 0, 0, 0.0
	for _, n := range file.Nodes {
		for _, count := range n.Pods {
			placed += count
		}
		if n.Existing == "" {
			created++
		}
		cost += n.Price
	}
	if file.Scenario != "tiny" || placed != line.Scheduled || created != line.NewNodes || cost != line.HourlyCost || line.Scheduled+line.Unschedulable != line.Pods {
		t.Errorf("the line says\n%sthe file says\n%s", stdout, text)
	}
}

func TestPlanReadsStandardInput(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(tinyScenario)
	if err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := call(string(text), "plan", "--scenario", "-"); code != 0 || !strings.Contains(stdout, `"scenario":"tiny"`) {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestFaultsOfStandardInputNameIt(t *testing.T) {
	t.Parallel()
	if code, _, stderr := call("{}", "plan", "--scenario", "-"); code != 2 || !strings.Contains(stderr, "standard input is neither a snapshot nor a scenario; dovetail snapshot -o FILE writes") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestPlanRefusesWrongCalls(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"name":"bad","pods":[{"count":-1,"templateRef":"x"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"no scenario":                       {nil, []string{"--scenario", "standard input", "dovetail plan --help"}},
		"a file that is not there":          {[]string{"--scenario", "none.json"}, []string{"none.json"}},
		"a file with faults names them all": {[]string{"--scenario", bad}, []string{"bad.json is a malformed scenario", "$.pods[0].count: -1 is below zero", `$.pods[0].templateRef: no template "x"`}},
		"an unknown mode":                   {[]string{"--scenario", bad, "--mode", "guess"}, []string{"guess", "provision or consolidate"}},
		"an unknown format":                 {[]string{"--scenario", bad, "--format", "xml"}, []string{"xml", "json, table or auto"}},
		"fewer workers than none":           {[]string{"--scenario", bad, "--workers", "-1"}, []string{"--workers"}},
		"a fee below zero":                  {[]string{"--scenario", bad, "--node-fee", "-1"}, []string{"--node-fee"}},
		"a fee that is not a number":        {[]string{"--scenario", bad, "--node-fee", "NaN"}, []string{"--node-fee NaN"}},
		"a fee without end":                 {[]string{"--scenario", bad, "--node-fee", "Inf"}, []string{"--node-fee +Inf"}},
		"time that runs backwards":          {[]string{"--scenario", bad, "--timeout", "-1s"}, []string{"--timeout"}},
		"a plan file of a consolidation":    {[]string{"--scenario", bad, "--mode", "consolidate", "--out", "x"}, []string{"--out", "provision"}},
		"a first look at waiting pods":      {[]string{"--scenario", bad, "--first-look"}, []string{"--first-look", "consolidate"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call("", append([]string{"plan"}, tc.args...)...)
			if code != 2 || stdout != "" {
				t.Errorf("exit code %d, want 2; stdout %q", code, stdout)
			}
			for _, want := range tc.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, stderr)
				}
			}
		})
	}
}
