package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const script = "setup-karpenter-iam.sh"

func TestShellcheck(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("no shellcheck in PATH; Debian's package shellcheck has one")
	}
	if out, err := exec.CommandContext(t.Context(), "shellcheck", script).CombinedOutput(); err != nil {
		t.Errorf("shellcheck: %v\n%s", err, out)
	}
}

// start runs the script with a PATH without aws: what it refuses here, it refuses before it makes a call.
func start(t *testing.T, path string, env []string, args ...string) (output string, failed bool) {
	t.Helper()
	bin := t.TempDir()
	for _, tool := range []string{"bash", "cat", "dirname"} {
		found, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(found, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{path}, args...)...)
	cmd.Env = append([]string{"PATH=" + bin}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err != nil
}

func TestBadInputIsNamed(t *testing.T) {
	t.Parallel()
	set := []string{"CLUSTER_NAME=c", "AWS_DEFAULT_REGION=eu-west-1"}
	for name, tc := range map[string]struct {
		env  []string
		args []string
		want []string
	}{
		"no command":             {set, nil, []string{"error: no command", "create, delete and status"}},
		"an unknown command":     {set, []string{"crate"}, []string{`unknown command "crate"`, "create, delete and status"}},
		"two commands":           {set, []string{"create", "delete"}, []string{"two commands: create and delete"}},
		"a mistyped flag":        {set, []string{"create", "--node_role", "x"}, []string{"unknown flag --node_role", "--node-role"}},
		"a flag that goes on":    {set, []string{"create", "--queue-names=x"}, []string{"unknown flag --queue-names", "--queue --queue-name"}},
		"a flag like no other":   {set, []string{"create", "--verbose"}, []string{"unknown flag --verbose", "--dry-run"}},
		"a flag without value":   {set, []string{"create", "--namespace"}, []string{"--namespace needs a value"}},
		"a flag before a flag":   {set, []string{"create", "--namespace", "--queue"}, []string{"--namespace needs a value"}},
		"an empty value":         {set, []string{"create", "--namespace", ""}, []string{"--namespace needs a value", "variable"}},
		"a value too many":       {set, []string{"create", "--queue=yes"}, []string{"--queue takes no value"}},
		"no cluster":             {set[1:], []string{"create"}, []string{"CLUSTER_NAME is not set", "export CLUSTER_NAME=my-cluster"}},
		"no region":              {set[:1], []string{"create"}, []string{"AWS_DEFAULT_REGION is not set", "export AWS_DEFAULT_REGION=us-east-1"}},
		"two regions":            {append(set, "AWS_REGION=us-east-1"), []string{"create"}, []string{"AWS_DEFAULT_REGION=eu-west-1 and AWS_REGION=us-east-1 differ", "unset AWS_REGION"}},
		"a wildcard as cluster":  {append(set, "CLUSTER_NAME=*"), []string{"delete"}, []string{`CLUSTER_NAME: "*" is not a valid name`}},
		"a cluster far too long": {append(set, "CLUSTER_NAME="+strings.Repeat("c", 90)), []string{"create"}, []string{"CLUSTER_NAME", "has 90 characters; AWS allows 85"}},
		"a pause of no length":   {append(set, "RETRY_SECONDS=soon"), []string{"create"}, []string{"RETRY_SECONDS=soon is not a number of seconds"}},
		"no aws":                 {set, []string{"status"}, []string{"there is no aws in PATH", "Install the AWS CLI"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, failed := start(t, script, tc.env, tc.args...)
			if !failed {
				t.Errorf("it does not fail")
			}
			for _, text := range tc.want {
				if !strings.Contains(out, text) {
					t.Errorf("it does not say %q:\n%s", text, out)
				}
			}
		})
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	t.Parallel()
	out, failed := start(t, script, nil, "--help")
	if failed {
		t.Fatal(out)
	}
	_, list, _ := strings.Cut(SetupIAM, "readonly flags='")
	list, _, _ = strings.Cut(list, "'")
	if len(strings.Fields(list)) < 10 {
		t.Fatalf("flags: %q", list)
	}
	for flag := range strings.FieldsSeq(list) {
		if !strings.Contains(out, flag) {
			t.Errorf("--help does not list %s", flag)
		}
	}
}

// A script without the folder of its documents says which folder.
func TestItNeedsTheDocuments(t *testing.T) {
	t.Parallel()
	alone := filepath.Join(t.TempDir(), script)
	if err := os.WriteFile(alone, []byte(SetupIAM), 0o600); err != nil {
		t.Fatal(err)
	}
	out, failed := start(t, alone, []string{"CLUSTER_NAME=c", "AWS_DEFAULT_REGION=eu-west-1"}, "create")
	if want := "there is no folder iam beside the folder of this script"; !failed || !strings.Contains(out, want) {
		t.Errorf("it does not say %q:\n%s", want, out)
	}
}
