package cli

import (
	"strings"
	"testing"
)

// LC-63: a wrong choice is reported before anything is touched, with those there are.
func TestLC_63_UninstallRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`--nodes "delete" is not known; want Keep, Delete or Release`: {"uninstall", "--cluster-name=x", "--nodes=delete"},
		"--cluster-name, CLUSTER_NAME: not given":                     {"uninstall"},
		"takes no arguments":    {"uninstall", "karpenter"},
		"did you mean --nodes?": {"uninstall", "--node=Keep"},
	} {
		var stderr strings.Builder
		code := Run(args, Streams{Out: &strings.Builder{}, Err: &stderr, LookupEnv: func(string) (string, bool) { return "", false }})
		if code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q ends with %d, want %q in %q", args, code, want, stderr.String())
		}
	}
}
