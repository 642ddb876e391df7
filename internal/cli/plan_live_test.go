package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect/api"
	"github.com/dovetail-sh/dovetail/internal/snapshot"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// call runs the command without an environment.
func call(args ...string) (code int, out, errors string) {
	var stdout, stderr bytes.Buffer
	code = Run(args, Streams{Out: &stdout, Err: &stderr, LookupEnv: func(string) (string, bool) { return "", false }})
	return code, stdout.String(), stderr.String()
}

func TestPlanOfASnapshot(t *testing.T) {
	t.Parallel()
	path := snapshotFile(t, snapshottest.New(snapshottest.Options{Nodes: 4, Pending: 1, Huge: 1}))
	dir := filepath.Dir(path)
	manifest, prices, broken := filepath.Join(dir, "pods.yaml"), filepath.Join(dir, "prices.csv"), filepath.Join(dir, "broken.csv")
	for name, text := range map[string]string{
		manifest: "apiVersion: v1\nkind: Pod\nmetadata: {name: added}\nspec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}\n",
		prices:   "instanceType,price\nm7g.xlarge,9\n", broken: "instanceType,price\nm7g.xlarge,none\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string // in the output, or in the error
		not  string
	}{
		"WI-20: a table":                        {want: "Nodes to remove:"},
		"WI-20: JSON":                           {args: []string{"-o", "json"}, want: `"evictions":`},
		"WI-20: YAML":                           {args: []string{"-o", "yaml"}, want: "evictions: "},
		"WI-20: pods are added":                 {args: []string{"--add-pods", manifest, "-o", "json"}, want: "default/added"},
		"WI-20: another price":                  {args: []string{"--price-file", prices}, want: "m5", not: "m7g.xlarge"},
		"WI-20: without an instance type":       {args: []string{"--without", "instance-type=m7g.xlarge"}, want: "Nodes to", not: "m7g.xlarge"},
		"WI-20: a field":                        {args: []string{"--set", "nodepool/default.disruption.consolidateAfter=Never"}, not: "Underutilized"},
		"WI-07: a mistyped field is a bad call": {args: []string{"--set", "nodepool/default.limit.cpu=1"}, code: 2, want: `did you mean "limits"?`},
		"WI-15: a broken price file":            {args: []string{"--price-file", broken}, code: 2, want: `line 2: price "none" is not a number`},
		"no price file":                         {args: []string{"--price-file", dir + "/absent"}, code: 2, want: "--price-file: "},
		"no manifest":                           {args: []string{"--add-pods", dir + "/absent"}, code: 2, want: "--add-pods: "},
		"WI-21: a flag of scenarios":            {args: []string{"--mode", "consolidate"}, code: 2, want: "--mode has no meaning for a snapshot of a cluster; use -o"},
		"WI-21: a flag of live clusters":        {args: []string{"--context", "prod"}, code: 2, want: "--context has no meaning for a snapshot"},
		"an unknown form":                       {args: []string{"-o", "jsn"}, code: 2, want: `did you mean "json"?`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errors := call(append([]string{"plan", "--scenario", path}, tc.args...)...)
			if code != tc.code || !strings.Contains(out+errors, tc.want) || tc.not != "" && strings.Contains(out, tc.not) {
				t.Errorf("exit code %d, want %d and %q and not %q:\n%s%s", code, tc.code, tc.want, tc.not, out, errors)
			}
		})
	}
}

func TestWI_21_FlagsOfClustersAreRefusedForScenarios(t *testing.T) {
	t.Parallel()
	for _, flag := range [][]string{{"-o", "json"}, {"--set", "a"}, {"--without", "zone=a"}, {"--add-pods", "a"}, {"--price-file", "a"}} {
		code, _, errors := call(append([]string{"plan", "--scenario", "../scenario/testdata/tiny.json"}, flag...)...)
		if code != exitUsage || !strings.Contains(errors, "is for a cluster: give it with --live or a snapshot") {
			t.Errorf("%v: exit code %d, %s; want 2 and that the flag is for a cluster", flag, code, errors)
		}
	}
	if code, _, errors := call("plan", "--live", "--mode", "consolidate"); code != exitUsage || !strings.Contains(errors, "--mode has no meaning with --live") {
		t.Errorf("exit code %d, %s; want 2 and that --mode has no meaning", code, errors)
	}
}

func TestWI_22_TheClusterOfTheKubeconfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const text = `apiVersion: v1
kind: Config
clusters: [{name: 'arn:aws:eks:us-east-1:1:cluster/shop', cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: me, user: {token: secret}}]
contexts: [{name: here, context: {cluster: 'arn:aws:eks:us-east-1:1:cluster/shop', user: me}}]
current-context: here
`
	config, broken := filepath.Join(dir, "config"), filepath.Join(dir, "broken")
	for name, text := range map[string]string{config: text, broken: "{"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"the network":     {args: []string{"--kubeconfig", config}, want: "cluster shop: list nodes: the API server cannot be used; check the address of the cluster in the kubeconfig"},
		"no such context": {args: []string{"--kubeconfig", config, "--context", "there"}, want: "choose with --kubeconfig and --context"},
		"no such file":    {args: []string{"--kubeconfig", dir + "/absent"}, want: "name another file with --kubeconfig"},
		"no kubeconfig":   {args: []string{"--kubeconfig", broken}, want: "no cluster: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, command := range [][]string{{"plan", "--live"}, {"snapshot"}} {
				code, out, errors := call(append(command, tc.args...)...)
				if code != exitFailed || !strings.Contains(errors, tc.want) || strings.Contains(out+errors, "secret") {
					t.Errorf("%v: exit code %d, want 1 and %q:\n%s", command, code, tc.want, errors)
				}
			}
		})
	}
}

func TestSnapshotOfASnapshot(t *testing.T) {
	t.Parallel()
	path := snapshotFile(t, snapshottest.New(snapshottest.Options{Nodes: 4, Pending: 1, Huge: 1}))
	dir := filepath.Dir(path)
	packed := filepath.Join(dir, "anonymous.json.gz")
	if code, _, errors := call("snapshot", "--scenario", path, "--anonymize", "-o", packed); code != 0 || !strings.Contains(errors, "4 nodes, 10 pods and 1 NodePool of cluster anonymous") {
		t.Fatalf("WI-23: exit code %d: %s", code, errors)
	}
	file, err := os.Open(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("WI-23: mode %v, %v; others may not read the file", info.Mode(), err)
	}
	if _, err := gzip.NewReader(file); err != nil {
		t.Errorf("WI-23: it is not compressed: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("WI-23: a temporary file is left: %v, %v", entries, err)
	}
	_, one, _ := call("plan", "--scenario", path, "-o", "json")
	code, other, errors := call("plan", "--scenario", packed, "-o", "json")
	if code != 0 || strings.Contains(other, "node-0000") || strings.Count(one, `"to"`) != strings.Count(other, `"to"`) {
		t.Errorf("WI-16: exit code %d, the plan of the anonymous file: %s%s", code, other, errors)
	}
	code, out, _ := call("snapshot", "--scenario", path)
	again, err := snapshot.Decode(strings.NewReader(out))
	if code != 0 || err != nil || again.Name != "test" {
		t.Errorf("WI-23: exit code %d, %v", code, err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), out); diff != "" {
		t.Errorf("WI-18: a snapshot of a snapshot is another (-first +second):\n%s", diff)
	}
	if code, _, errors := call("snapshot", "--scenario", path, "--context", "a"); code != exitUsage || !strings.Contains(errors, "give one of them") {
		t.Errorf("exit code %d: %s", code, errors)
	}
	if code, _, errors := call("snapshot", "--scenario", path, "-o", dir+"/absent/file"); code != exitFailed || !strings.Contains(errors, "write the snapshot") {
		t.Errorf("exit code %d: %s", code, errors)
	}
}

// A controller that is named is asked, and nothing else. WI-20, WI-23.
func TestWI_20_NamedControllers(t *testing.T) {
	t.Parallel()
	path := snapshotFile(t, snapshottest.New(snapshottest.Options{Nodes: 3}))
	file, err := readSnapshot(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	served := httptest.NewServer(api.NewServer(api.Source{
		Ready: func(context.Context) error { return nil }, Snapshot: func(context.Context) (*snapshot.File, error) { return file, nil },
	}, awsv1.Vocabulary(), time.Now))
	_, want, _ := call("plan", "--scenario", path)
	absent := []string{"--kubeconfig", path + ".absent"}
	if code, got, stderr := call(append([]string{"plan", "--live", "--controller-address", served.URL}, absent...)...); code != 0 || got != want {
		t.Errorf("exit code %d, %s: %s\nwant %s", code, stderr, got, want)
	}
	written := filepath.Join(t.TempDir(), "cluster.json")
	if code, _, stderr := call(append([]string{"snapshot", "-o", written, "--controller-address", served.URL}, absent...)...); code != 0 || !strings.Contains(stderr, "3 nodes") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	served.Close()
	for name, tc := range map[string]struct {
		args []string
		code int
		says string
	}{
		"it does not respond":        {[]string{"plan", "--live", "--controller-address", served.URL}, 1, "does not respond"},
		"an account without /":       {[]string{"plan", "--live", "--as-service-account", "viewer"}, 2, "NAMESPACE/NAME"},
		"a controller of a snapshot": {[]string{"plan", "--scenario", path, "--controller-namespace", "x"}, 2, "--controller-namespace has no meaning"},
		"a snapshot of a snapshot":   {[]string{"snapshot", "--scenario", path, "--as-service-account", "a/b"}, 2, "--as-service-account"},
	} {
		if code, _, stderr := call(tc.args...); code != tc.code || !strings.Contains(stderr, tc.says) {
			t.Errorf("%s: exit code %d, %s; want %d with %q", name, code, stderr, tc.code, tc.says)
		}
	}
}
