package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cli"
)

// call runs dovetail and returns its exit code and output.
func call(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(args, cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs})
	return code, out.String(), errs.String()
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := filepath.Join(dir, "good.yaml")
	if err := os.WriteFile(good, []byte("{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}, spec: {template: {spec: {requirements: [], nodeClassRef: {name: c}}}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec:\n  weight: heavy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args       []string
		wantCode   int
		wantStderr []string
		wantStdout string
	}{
		"no arguments show the help":       {args: nil, wantStdout: "Available Commands"},
		"help of a command has examples":   {args: []string{"convert", "--help"}, wantStdout: "Examples:"},
		"version names the commit":         {args: []string{"version"}, wantStdout: "commit "},
		"completion":                       {args: []string{"completion", "bash"}, wantStdout: "bash completion"},
		"crds":                             {args: []string{"crds"}, wantStdout: "name: nodepools.karpenter.sh"},
		"convert a file":                   {args: []string{"convert", "-f", good}, wantStdout: "kind: NodePool"},
		"a command that does not exist":    {args: []string{"convrt"}, wantCode: 2, wantStderr: []string{`unknown command "convrt"`, "did you mean convert?"}},
		"a flag that does not exist":       {args: []string{"convert", "--fast"}, wantCode: 2, wantStderr: []string{"--fast", "dovetail convert --help"}},
		"a flag with a typo":               {args: []string{"controller", "--cluser-name=x"}, wantCode: 2, wantStderr: []string{"--cluser-name", "did you mean --cluster-name?"}},
		"a value that does not exist":      {args: []string{"convert", "-f", good, "-o", "xml"}, wantCode: 2, wantStderr: []string{"xml", "yaml or json"}},
		"version in an unknown format":     {args: []string{"version", "-o", "xml"}, wantCode: 2, wantStderr: []string{"want json"}},
		"an argument where none is wanted": {args: []string{"convert", good}, wantCode: 2, wantStderr: []string{"takes no arguments"}},
		"nothing to convert":               {args: []string{"convert"}, wantCode: 2, wantStderr: []string{"-f"}},
		"a file that is not there":         {args: []string{"convert", "-f", filepath.Join(dir, "none.yaml")}, wantCode: 1, wantStderr: []string{"none.yaml"}},
		"a folder without manifests":       {args: []string{"convert", "-f", t.TempDir()}, wantCode: 1, wantStderr: []string{"-R"}},
		"a bad manifest names line, field and fix": {
			args: []string{"convert", "-f", bad}, wantCode: 1, wantStderr: []string{"bad.yaml:5:", "NodePool p", "spec.weight", "want a whole number", "nothing was written"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call("", tc.args...)
			if code != tc.wantCode {
				t.Errorf("exit code %d, want %d; %s", code, tc.wantCode, stderr)
			}
			if !strings.Contains(stdout, tc.wantStdout) {
				t.Errorf("stdout lacks %q:\n%s", tc.wantStdout, stdout)
			}
			for _, want := range tc.wantStderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, stderr)
				}
			}
			if tc.wantCode != 0 && stdout != "" {
				t.Errorf("a call that failed wrote to stdout:\n%s", stdout)
			}
		})
	}
}

func TestConvertReadsFoldersAndStdin(t *testing.T) {
	t.Parallel()
	pool := func(name string) string {
		return "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: " + name + "}, spec: {template: {spec: {requirements: [], nodeClassRef: {name: class}}}}}"
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": pool("a"), "b.yml": pool("b"), "notes.txt": "not: [a manifest", "sub/c.yaml": pool("c"), ".git/d.yaml": pool("d")} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a folder":                         {[]string{"-f", dir}, "a b"},
		"with its sub-folders":             {[]string{"-f", dir, "-R"}, "a b c"},
		"standard input, once":             {[]string{"-f", "-", "-f", "-"}, "stdin"},
		"both, in the order of the call":   {[]string{"-f", "-", "-f", filepath.Join(dir, "a.yaml")}, "stdin a"},
		"json is a stream, one per object": {[]string{"-f", dir, "-o", "json"}, "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(pool("stdin"), append([]string{"convert"}, tc.args...)...)
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			var names []string
			for line := range strings.Lines(stdout) {
				line = strings.TrimSpace(strings.ReplaceAll(line, `"`, ""))
				if name, found := strings.CutPrefix(line, "name: "); found && name != "class" {
					names = append(names, name)
				}
			}
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("converted %q, want %q", got, tc.want)
			}
		})
	}
}

func TestVersionAsJSON(t *testing.T) {
	t.Parallel()
	_, stdout, _ := call("", "version", "-o", "json")
	var info map[string]string
	if err := json.Unmarshal([]byte(stdout), &info); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"version", "commit", "goVersion", "platform"} {
		if info[key] == "" {
			t.Errorf("version lacks %s: %s", key, stdout)
		}
	}
}
