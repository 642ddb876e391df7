package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-sh/dovetail/sandbox/bench"
	"github.com/dovetail-sh/dovetail/sandbox/bench/bars"
	"github.com/dovetail-sh/dovetail/sandbox/controlplane/embedded"
)

// A benchmark that cannot be is refused before anything starts.
func TestBenchCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		args    []string
		wantErr string
	}{
		"no nodes":           {[]string{"--nodes", "0"}, "nodes: want 1 to 5000"},
		"more pods than fit": {[]string{"--nodes", "1", "--pods", "51"}, "pods: want 1 to 50"},
		"argument too many":  {[]string{"now"}, "unknown command"},
		"unknown scenario":   {[]string{"controller", "tiny"}, "there are small, reaction, ice, burst, backlog, shrink"},
		"unknown format":     {[]string{"controller", "--format", "xml"}, "want table or json"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := run(t.Context(), append([]string{"bench"}, tc.args...), &out, &errOut); code != exitUsage || !strings.Contains(errOut.String(), tc.wantErr) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, exitUsage, tc.wantErr, &errOut)
			}
		})
	}
}

// The controller is measured in small versions of the scenarios; what they say must be there, and how
// good it is depends on the machine.
func TestBenchController(t *testing.T) {
	t.Parallel()
	var out, progress bytes.Buffer
	code := run(t.Context(), []string{
		"bench", "controller", "reaction", "ice", "burst", "--binary", buildController(t), "--format", "json", "--samples", "1", "--scale", "0.003",
		"--patience", "2m", "--controller-flag=--batch-idle-duration=1s",
	}, &out, &progress)
	if code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, &progress)
	}
	var report bars.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	names := []string{}
	for _, r := range report.Results {
		names = append(names, r.Name)
		if all, _ := (bars.Report{Results: []bars.Result{r}}).Bars(); all == 0 {
			t.Errorf("%s has no figure with a bar: %v", r.Name, r.Figures)
		}
	}
	if diff := cmp.Diff([]string{"reaction", "ice", "burst"}, names); diff != "" {
		t.Error(diff)
	}
	last := report.Results[len(report.Results)-1]
	if last.API["create nodeclaims"] < 2 || last.AWS["ec2:CreateFleet"] == 0 { // each of two pools has pods of its own
		t.Errorf("not counted: %v %v", last.API, last.AWS)
	}
}

// A small cluster comes and goes, and all of it is accounted for.
func TestBenchAccountsForEverything(t *testing.T) {
	var progress bytes.Buffer
	report, err := bench.Run(t.Context(), bench.Options{ControlPlane: embedded.Start, Nodes: 5, Pods: 20, Out: &progress})
	if err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	var names []string
	for _, p := range report.Phases {
		names = append(names, p.Name)
	}
	if got, want := strings.Join(names, ", "), "start, nodes ready, pods running, idle, pods deleted, nodes deleted, stop"; got != want {
		t.Fatalf("phases %s, want %s", got, want)
	}
	for _, p := range report.Phases[1:3] {
		if p.Wall <= 0 || p.CPU <= 0 || p.PeakRSS <= 0 || p.Heap <= 0 || p.Requests <= 0 || len(p.Parts) == 0 {
			t.Errorf("something was not measured: %+v", p)
		}
	}
	if report.Heap["kube-apiserver"] == 0 {
		t.Errorf("the API server has no heap: %v", report.Heap)
	}
	var parts []string
	for part := range report.Phases[0].Parts {
		parts = append(parts, part)
	}
	if !strings.Contains(strings.Join(parts, " "), "kube-apiserver") {
		t.Errorf("the start has no API server in it: %v", parts)
	}
	var table bytes.Buffer
	if err := report.Print(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5 nodes, 20 pods", "pods running", "kube-apiserver"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &table)
		}
	}
	t.Logf("%s%s", &progress, &table)
}
