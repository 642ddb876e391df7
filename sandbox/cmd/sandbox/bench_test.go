package main

import (
	"bytes"
	"strings"
	"testing"
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
		"unknown scenario":   {[]string{"controller", "tiny"}, "there are small, reaction, ice, burst, backlog"},
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
