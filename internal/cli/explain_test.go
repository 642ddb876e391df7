package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// EX-11: calls that make no sense say what to write instead, and objects that are not there what was perhaps meant.
func TestEX_11_WrongCalls(t *testing.T) {
	t.Parallel()
	path := snapshotFile(t, snapshottest.Varied())
	for name, tc := range map[string]struct {
		args     []string
		wantCode int
		want     string
	}{
		"no object":                       {args: nil, wantCode: 2, want: "name one object, such as pod NAME or node/NAME"},
		"a kind alone":                    {args: []string{"pod"}, wantCode: 2, want: "name one object"},
		"too many words":                  {args: []string{"pod", "a", "b"}, wantCode: 2, want: "name one object"},
		"a node with a namespace":         {args: []string{"node/default/node-0000"}, wantCode: 2, want: "name one object"},
		"a kind that was mistyped":        {args: []string{"nodpool", "default"}, wantCode: 2, want: `did you mean "nodepool"; want pod, node, nodeclaim or nodepool`},
		"a kind of others":                {args: []string{"deployment/web"}, wantCode: 2, want: `"deployment" is not a kind that can be asked about; want pod`},
		"a format that was mistyped":      {args: []string{"pod/fits", "-o", "yml"}, wantCode: 2, want: `did you mean "yaml"?`},
		"a name that was mistyped":        {args: []string{"pod/fit"}, wantCode: 1, want: "dovetail: pod/default/fit was not found; did you mean pod/default/fits?"},
		"a pod of another namespace":      {args: []string{"pod/fits", "-n", "other"}, wantCode: 1, want: "did you mean pod/default/fits?"},
		"a NodeClaim called a node":       {args: []string{"node/claim-coming"}, wantCode: 1, want: "did you mean nodeclaim/claim-coming?"},
		"a pod that is nothing like any":  {args: []string{"pod/zzzzzzzzzzzz"}, wantCode: 1, want: "among the pods on nodes and those that kube-scheduler has found no node for"},
		"the form of suggestions is read": {args: []string{"pod/default/fits", "-n", "other"}},
		"kind and name apart":             {args: []string{"po", "fits"}},
		"short names":                     {args: []string{"no/node-0000"}},
		"the plural":                      {args: []string{"nodepools", "default"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := run("", append([]string{"explain", "--scenario", path}, tc.args...)...)
			if code != tc.wantCode || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, want %d; stderr lacks %q:\n%s", code, tc.wantCode, tc.want, stderr)
			}
		})
	}
}

// EX-12: kinds and names are completed, and what cannot be read says nothing.
func TestEX_12_Completion(t *testing.T) {
	t.Parallel()
	path := snapshotFile(t, snapshottest.Varied())
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"kinds":               {[]string{""}, "pod\nnode\nnodeclaim\nnodepool\n:4\n"},
		"names":               {[]string{"--scenario", path, "nodepool", ""}, "batch\nclosed\ndefault\nsmall\n:4\n"},
		"names after a slash": {[]string{"--scenario", path, "nodepool/"}, "nodepool/batch\nnodepool/closed\nnodepool/default\nnodepool/small\n:4\n"},
		"one name only":       {[]string{"--scenario", path, "nodepool", "default", ""}, ":4\n"},
		"other namespaces":    {[]string{"--scenario", path, "-n", "other", "pod", ""}, ":4\n"},
		"no such file":        {[]string{"--scenario", path + "x", "nodepool", ""}, ":4\n"},
		"formats":             {[]string{"pod/a", "-o", ""}, "table\nwide\njson\nyaml\n:4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, _ := run("", append([]string{"__complete", "explain"}, tc.args...)...)
			if code != 0 || stdout != tc.want {
				t.Errorf("exit code %d, got\n%s\nwant\n%s", code, stdout, tc.want)
			}
		})
	}
}

// EX-13: called as a plugin of kubectl, commands are called as its users call them.
func TestEX_13_Plugin(t *testing.T) {
	t.Parallel()
	called := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := Run(args, Streams{Name: "/usr/local/bin/kubectl-dovetail", Out: &out, Err: &errs, LookupEnv: func(string) (string, bool) { return "", false }})
		return code, out.String(), errs.String()
	}
	code, _, stderr := called("explain")
	if want := "kubectl dovetail: name one object, such as pod NAME or node/NAME\nRun 'kubectl dovetail explain --help' for usage.\n"; code != 2 || stderr != want {
		t.Errorf("exit code %d, stderr\n%s\nwant\n%s", code, stderr, want)
	}
	_, help, _ := called("explain", "--help")
	if !strings.Contains(help, "  kubectl dovetail explain KIND NAME [flags]\n") || !strings.Contains(help, "\n  kubectl dovetail explain nodepool default") || strings.Contains(help, "  dovetail ") {
		t.Errorf("the help names dovetail instead of kubectl dovetail:\n%s", help)
	}
	if code, script, _ := called("completion", "kubectl"); code != 0 || !strings.Contains(script, `exec kubectl-dovetail __complete "$@"`) {
		t.Errorf("exit code %d, script\n%s", code, script)
	}
}

// EX-01: the answer for people and for programs.
func TestEX_01_Formats(t *testing.T) {
	t.Parallel()
	path := snapshotFile(t, snapshottest.Varied())
	for _, format := range []string{"table", "json", "yaml"} {
		code, stdout, stderr := run("", "explain", "pod/huge", "--scenario", path, "-o", format)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		golden(t, "explain-huge-"+format+".txt", stdout)
	}
}

// howToPage reads docs/how-to/explain.md.
func howToPage(t *testing.T) (path, text string) {
	t.Helper()
	path = filepath.Join("..", "..", "docs", "how-to", "explain.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(data)
}

// EX-01: the page shows what the commands print; go test ./internal/cli -run HowToPage -rewrite
func TestEX_01_TheHowToPage(t *testing.T) {
	t.Parallel()
	page, text := howToPage(t)
	snapshotPath := snapshotFile(t, snapshottest.Varied())
	block := regexp.MustCompile("(?s)```console\n\\$ dovetail ([^\n]*)\n(.*?)```")
	blocks := 0
	got := block.ReplaceAllStringFunc(text, func(shown string) string {
		blocks++
		typed := block.FindStringSubmatch(shown)[1]
		code, stdout, stderr := run("", strings.Fields(strings.ReplaceAll(typed, "cluster.json", snapshotPath))...)
		if code != 0 {
			t.Errorf("dovetail %s: exit code %d: %s", typed, code, stderr)
		}
		return "```console\n$ dovetail " + typed + "\n" + stdout + "```"
	})
	if blocks < 3 {
		t.Errorf("the page has %d commands, want 3 or more", blocks)
	}
	if *rewrite {
		if err := os.WriteFile(page, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(text, got); d != "" {
		t.Errorf("%s (-page +commands):\n%s", page, d)
	}
}

// EX-13: the commands of the page make a plugin that kubectl finds, and a script that completes.
func TestEX_13_TheHowToPage(t *testing.T) {
	t.Parallel()
	_, text := howToPage(t)
	_, rest, _ := strings.Cut(text, "```sh\nln -s")
	commands, _, found := strings.Cut("ln -s"+rest, "kubectl dovetail explain")
	if !found {
		t.Fatal("the page does not say how the plugin is installed")
	}
	dir := t.TempDir()
	// The binary of the test stands for dovetail: TestMain has it run the command line.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "dovetail")); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "home", "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	path := snapshotFile(t, snapshottest.Varied())
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", commands+"\nkubectl-dovetail explain --help | head -3\nkubectl_complete-dovetail explain --scenario '"+path+"' nodepool ''")
	cmd.Env = []string{"PATH=" + bin + ":" + dir + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), runsCommandLine + "=1"}
	out, err := cmd.CombinedOutput()
	if want := "batch\nclosed\ndefault\nsmall\n:4\n"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v:\n%s\nwant\n%s", err, out, want)
	}
}

// runsCommandLine has the binary of the test be dovetail.
const runsCommandLine = "DOVETAIL_TEST_COMMAND_LINE"

func TestMain(m *testing.M) {
	if os.Getenv(runsCommandLine) != "" {
		os.Exit(Run(os.Args[1:], Streams{Name: os.Args[0], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, LookupEnv: os.LookupEnv}))
	}
	os.Exit(m.Run())
}

// EX-01: an answer about a cluster of another controller says whose decisions it tells.
func TestEX_01_OtherControllers(t *testing.T) {
	t.Parallel()
	f := snapshottest.Varied()
	f.Controller = snapshot.ByKarpenter
	if _, stdout, _ := run("", "explain", "node/node-0000", "--scenario", snapshotFile(t, f)); !strings.HasSuffix(stdout, "\nnote: Karpenter manages the nodes: this is what Dovetail would decide\n") {
		t.Errorf("the answer does not say who decides:\n%s", stdout)
	}
}
