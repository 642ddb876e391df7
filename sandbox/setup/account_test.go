package setup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/hack"
	"github.com/dovetail-sh/dovetail/sandbox/awscli"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

const (
	account = "111122223333"
	region  = "eu-west-1"
	cluster = "sandbox"
)

// shell is what all tests share: a folder that looks like an unpacked release, and how aws is called.
var shell struct {
	release string
	env     []string
	aws     awscli.CLI
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "dovetail-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	shell.release = filepath.Join(dir, "release")
	if err := release(shell.release); err != nil {
		return 1, err
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return 1, err
	}
	if shell.aws, err = awscli.Install(context.Background(), bin); err != nil {
		return 1, err
	}
	defer shell.aws.Stop()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "AWS_") && name != "CLUSTER_NAME" {
			shell.env = append(shell.env, v)
		}
	}
	shell.env = append(shell.env, "HOME="+dir, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "RETRY_SECONDS=0")
	return m.Run(), nil
}

// release writes the script and the documents that it reads.
func release(dir string) error {
	if err := os.CopyFS(filepath.Join(dir, "iam"), os.DirFS(filepath.Join("..", "..", "iam"))); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "hack"), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "hack", "setup-karpenter-iam.sh"), []byte(hack.SetupIAM), 0o700)
}

func credentialVariables() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=AKIASETUP", "AWS_SECRET_ACCESS_KEY=setup", "AWS_EC2_METADATA_DISABLED=true",
		"AWS_MAX_ATTEMPTS=1", // a call whose process was killed is not made again
	}
}

// emulated is an account, with a shell to run the script in.
type emulated struct {
	*awsemu.Emulator

	env []string
}

// needAWS skips a test where there is no aws; modern is one that knows access entries and pod identity.
func needAWS(t *testing.T, modern bool) {
	t.Helper()
	if reason := shell.aws.Missing; reason != "" {
		t.Skip(reason)
	}
	if reason := shell.aws.Old; modern && reason != "" {
		t.Skip(reason)
	}
}

// newAccount is an account that is not prepared.
func newAccount(t *testing.T) *emulated {
	t.Helper()
	return startAccount(t, awsemu.Fixture{Bare: true})
}

func startAccount(t *testing.T, f awsemu.Fixture) *emulated {
	t.Helper()
	needAWS(t, false)
	f.Account, f.Region, f.Cluster, f.KubernetesVersion, f.Families = account, region, cluster, "1.34", []string{"m5"}
	f.ClusterEndpoint, f.ClusterCA = "https://127.0.0.1:6443", "Y2E="
	f.Zones = []awsemu.Zone{{Name: region + "a", ID: "euw1-az1"}, {Name: region + "b", ID: "euw1-az2"}}
	a := &emulated{Emulator: awsemu.New(awsemu.Options{Clock: awsemu.NewClock(time.Now, 0), Seed: 1, Fixture: f})}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.env = slices.Concat(shell.env, credentialVariables(), []string{"AWS_ENDPOINT_URL=" + server.URL, "AWS_DEFAULT_REGION=" + region, "CLUSTER_NAME=" + cluster})
	return a
}

// copyOf is another account in the same state.
func (a *emulated) copyOf(t *testing.T) *emulated {
	t.Helper()
	text, err := a.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	other := newAccount(t)
	if err := other.Restore(text); err != nil {
		t.Fatal(err)
	}
	return other
}

// withVariables is the account with other variables in the shell.
func (a *emulated) withVariables(variables ...string) *emulated {
	return &emulated{Emulator: a.Emulator, env: append(slices.Clip(a.env), variables...)}
}

// accountModel is the state of the account.
func (a *emulated) accountModel(t *testing.T) awsemu.Model {
	t.Helper()
	text, err := a.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Model awsemu.Model }
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s.Model
}

// set changes the state of the account.
func (a *emulated) set(t *testing.T, change func(*awsemu.Model)) {
	t.Helper()
	text, err := a.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var s map[string]json.RawMessage
	var m awsemu.Model
	if err := errors.Join(json.Unmarshal(text, &s), json.Unmarshal(s["model"], &m)); err != nil {
		t.Fatal(err)
	}
	change(&m)
	if s["model"], err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(s); err != nil {
		t.Fatal(err)
	}
	if err := a.Restore(text); err != nil {
		t.Fatal(err)
	}
}

// patience is how long one run of the script may take.
const patience = 5 * time.Minute

// start starts the script in a process group of its own.
func (a *emulated) start(t *testing.T, args ...string) (cmd *exec.Cmd, output *lines) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, "bash", append([]string{filepath.Join(shell.release, "hack", "setup-karpenter-iam.sh")}, args...)...)
	cmd.Env, cmd.WaitDelay = a.env, time.Second
	output = &lines{}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, output
}

// lines collects the output of a process.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// result is one run of the script.
type result struct {
	output string
	failed bool
	writes []string // the calls that changed something, or tried to
}

func (a *emulated) run(t *testing.T, args ...string) result {
	t.Helper()
	before := len(a.Calls("", ""))
	cmd, output := a.start(t, args...)
	err := cmd.Wait()
	r := result{output: output.String(), failed: err != nil, writes: writingCalls(a.Calls("", "")[before:])}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return r
}

// runSuccessfully runs the script, which must end well.
func (a *emulated) runSuccessfully(t *testing.T, args ...string) result {
	t.Helper()
	r := a.run(t, args...)
	if r.failed {
		t.Fatalf("%s fails:\n%s", strings.Join(args, " "), r.output)
	}
	return r
}

// runExpectingError runs the script, which must end with an error that says all of this.
func (a *emulated) runExpectingError(t *testing.T, args []string, want ...string) result {
	t.Helper()
	r := a.run(t, args...)
	if !r.failed {
		t.Errorf("%s does not fail:\n%s", strings.Join(args, " "), r.output)
	}
	r.checkOutput(t, want...)
	return r
}

// checkOutput checks the output.
func (r result) checkOutput(t *testing.T, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(r.output, text) {
			t.Errorf("the output does not say %q:\n%s", text, r.output)
		}
	}
}

// checkReportWords checks that every line begins with one of these words.
func (r result) checkReportWords(t *testing.T, words ...string) {
	t.Helper()
	for line := range strings.Lines(r.output) {
		if word, _, _ := strings.Cut(line, " "); !slices.Contains(words, word) {
			t.Errorf("a line that is none of %v: %s", words, line)
		}
	}
}

// writingCalls are the calls that do not only read, with what they are about.
func writingCalls(calls []awsemu.Call) []string {
	var list []string
	for _, c := range calls {
		if isRead(c) {
			continue
		}
		p := c.Parameters
		list = append(list, strings.TrimSpace(c.Action+" "+cmp.Or(p["RoleName"], p["InstanceProfileName"], p["PolicyName"], p["PolicyArn"], p["Name"], p["QueueName"])))
	}
	return list
}

func isRead(c awsemu.Call) bool {
	return strings.HasPrefix(c.Action, "Get") || strings.HasPrefix(c.Action, "List") || strings.HasPrefix(c.Action, "Describe")
}

// runAWS runs the CLI as an operator does.
func (a *emulated) runAWS(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-c", `aws "$@"`, "aws", "--region", region, "--output", "json"}, args...)...)
	cmd.Env = a.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("aws %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
