package takeover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

const (
	speed    = 20               // of the emulated clock: an instance boots in a second or two
	patience = 10 * time.Minute // that anything may take; the machine may be busy

	namespace = "kube-system"
	before    = "public.ecr.aws/karpenter/controller" // image of the controller that was there before
)

// What all tests share.
var (
	sandbox *world.World
	kube    client.WithWatch
	shell   struct {
		home     string
		env      []string
		dovetail string // the program
	}
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	harness.Tune(0, 0)
	ctrllog.SetLogger(klog.Background()) // else clients complain that no logger is set
	ctx := context.Background()
	programs := map[harness.Program]string{}
	for _, p := range []harness.Program{harness.Dovetail, harness.Predecessor, harness.Kubectl, harness.Helm} {
		if programs[p], err = p.Build(ctx); err != nil {
			return 1, err
		}
	}
	dir, err := os.MkdirTemp("", "dovetail-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if sandbox, err = harness.StartWorld(ctx, world.Options{
		Dir: filepath.Join(dir, "world"), Speed: speed, Nodes: 2, Program: programs[harness.Dovetail], Programs: map[string]string{before: programs[harness.Predecessor]},
	}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, sandbox.Stop()) }()
	// As after the installation guide: pods with these service accounts have the role, and no more than its policies.
	for _, account := range [][2]string{{namespace, "karpenter"}, {"karpenter", "karpenter"}, {"karpenter", "second-karpenter"}} {
		sandbox.AWS.Associate(account[0], account[1], world.ControllerRole)
	}
	if kube, err = harness.NewTyped(sandbox.ControlPlane.Config); err != nil {
		return 1, err
	}
	shell.home, shell.dovetail = filepath.Join(dir, "home"), programs[harness.Dovetail]
	if err := prepareShell(filepath.Dir(programs[harness.Helm])); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// prepareShell makes a folder from which the charts are found as from a clone of the repository.
func prepareShell(bin string) error {
	if err := os.Mkdir(shell.home, 0o700); err != nil {
		return err
	}
	links := map[string]string{"charts": "../../charts", "reference": "testdata"}
	for name, target := range links {
		path, err := filepath.Abs(target)
		if err != nil {
			return err
		}
		if err := os.Symlink(path, filepath.Join(shell.home, name)); err != nil {
			return err
		}
	}
	shell.env = append(sandbox.Environment(), "HOME="+shell.home, "PATH="+bin+":"+os.Getenv("PATH"), "NAMESPACE="+namespace, "CHARTS=charts", "AWS_PAGER=")
	return nil
}

// runLine runs a line of bash as users type it, and returns what it prints.
func runLine(t *testing.T, line string) string {
	t.Helper()
	out, err := tryLine(t, line)
	if err != nil {
		t.Fatalf("$ %s\n%v\n%s", line, err, out)
	}
	return out
}

// runFailingLine runs a line that must fail, and returns what it says.
func runFailingLine(t *testing.T, line string) string {
	t.Helper()
	out, err := tryLine(t, line)
	if err == nil {
		t.Fatalf("$ %s\ndoes not fail:\n%s", line, out)
	}
	return out
}

func tryLine(t *testing.T, line string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	// Version 1 of aws does not look at AWS_ENDPOINT_URL.
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -euo pipefail\naws() { command aws --endpoint-url \"$AWS_ENDPOINT_URL\" \"$@\"; }\n"+line)
	cmd.Dir, cmd.Env, cmd.WaitDelay = shell.home, shell.env, time.Second
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// needAWS skips a test where the command line of AWS is missing.
func needAWS(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("aws"); err != nil {
		t.Skip("no aws in PATH; Debian's package awscli has one")
	}
}

// waitUntil polls until what it requests holds. The function says how it is now.
func waitUntil(t *testing.T, what string, holds func() (ok bool, now string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ok, now := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s; now: %s", patience, what, now)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// checkStays polls for a while, and fails if something stops to be so.
func checkStays(t *testing.T, d time.Duration, what string, is func() (ok bool, now string)) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		if ok, now := is(); !ok {
			t.Fatalf("did not stay for %s: %s; now: %s", d, what, now)
		}
	}
}

// list reads objects.
func list[L client.ObjectList](t *testing.T, into L, opts ...client.ListOption) L {
	t.Helper()
	if err := kube.List(context.WithoutCancel(t.Context()), into, opts...); err != nil {
		t.Fatal(err)
	}
	return into
}

// runSteps runs parts of a test in order, and stops at the first that fails: those that follow need it.
func runSteps(t *testing.T, list []step) {
	t.Helper()
	for _, s := range list {
		if !t.Run(s.name, s.run) {
			return
		}
	}
}

type step struct {
	name string
	run  func(t *testing.T)
}
