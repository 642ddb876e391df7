package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/harness"
)

func TestCalls(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args     []string
		wantCode int
		wantOut  string
		wantErr  string
	}{
		"no arguments show the help": {nil, exitOK, "sandbox demo", ""},
		"help has examples":          {[]string{"up", "--help"}, exitOK, "sandbox up --dir", ""},
		"version":                    {[]string{"version"}, exitOK, "commit", ""},
		"unknown command":            {[]string{"fly"}, exitUsage, "", "Run 'sandbox --help'"},
		"unknown flag":               {[]string{"up", "--height"}, exitUsage, "", "Run 'sandbox up --help'"},
		"flag of Kubernetes":         {[]string{"up", "--version"}, exitUsage, "", "unknown flag"},
		"port that is no number":     {[]string{"up", "--port", "x"}, exitUsage, "", "invalid argument"},
		"argument too many":          {[]string{"demo", "now"}, exitUsage, "", "Run 'sandbox demo --help'"},
		"folder that is a file":      {[]string{"up", "--dir", file}, exitFailed, "", "choose one that you may write to"},
		"folder with a long path":    {[]string{"up", "--dir", "/tmp/" + strings.Repeat("x", 100)}, exitFailed, "", "choose a shorter one"},
		"folder that cannot be made": {[]string{"up", "--dir", "/proc/nothing/here"}, exitFailed, "", "choose one that you may write to"},
		"namespace that cannot be":   {[]string{"up", "--controller-namespace", "Not One"}, exitUsage, "", "--controller-namespace"},
		"no controller":              {[]string{"demo", "--controller", missing}, exitFailed, "", "make build makes it"},
		"no replicas":                {[]string{"demo", "--replicas", "0"}, exitUsage, "", "--replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := run(t.Context(), tc.args, &out, &errOut)
			if code != tc.wantCode || !strings.Contains(out.String(), tc.wantOut) || !strings.Contains(errOut.String(), tc.wantErr) {
				t.Errorf("exit code %d, want %d with %q and %q; standard output:\n%s\nstandard error:\n%s", code, tc.wantCode, tc.wantOut, tc.wantErr, &out, &errOut)
			}
		})
	}
}

// The demo holds, and leaves nothing in the folder for temporary files.
func TestDemo(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd := startSandbox(t, []string{"TMPDIR=" + temp}, "demo", "--controller", buildController(t))
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v; standard output:\n%s\nstandard error:\n%s", err, &out, &errOut)
	}
	for _, want := range []string{"All steps held", "No process and no file is left", "12 pods on", "above the lower bound", "reaction after", "no node, no instance", "dovetail explain node", "any more. At ", "the web page is served at"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// buildController builds the binary that the demo runs.
func buildController(t *testing.T) string {
	t.Helper()
	binary, err := harness.Dovetail.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// A controller that does nothing fails the demo, and the message says which step, what was waited for, and
// where the logs are.
func TestDemoFails(t *testing.T) {
	t.Parallel()
	idle := filepath.Join(t.TempDir(), "idle")
	if err := os.WriteFile(idle, []byte("#!/bin/sh\necho '{\"level\":\"ERROR\",\"message\":\"too tired\",\"error\":\"nothing to drink\"}'\nsleep 3\nexit 7\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := startSandbox(t, []string{"TMPDIR=" + t.TempDir()}, "demo", "--controller", idle)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitFailed {
		t.Errorf("%v, want exit code %d:\n%s", err, exitFailed, &out)
	}
	for _, want := range []string{"step 2 does not hold", "the controller ended", "exit status 7", "The logs are in"} {
		if !strings.Contains(errOut.String(), want) {
			t.Errorf("the error lacks %q:\n%s", want, &errOut)
		}
	}
}

// Up says what to type, works until it is interrupted, and stops at once.
func TestUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir := t.TempDir()
	out := &trigger{text: "Ctrl-C stops everything", then: cancel}
	var errOut bytes.Buffer
	if code := run(ctx, []string{"up", "--dir", dir}, out, &errOut); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, &errOut)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	for _, want := range []string{"kube-scheduler", "ready in", ". " + filepath.Join(dir, "aws.env"), "AWS at", "stopped in"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if _, err := os.Stat(kubeconfig); err != nil {
		t.Error(err)
	}
}

// With a controller, the web page is served at the address that is printed, the commands that are printed work, and Ctrl-C ends the
// controller first, and at once.
func TestUpWithController(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir, binary := t.TempDir(), buildController(t)
	works := func() bool {
		logs, err := filepath.Glob(filepath.Join(dir, "pods", "kube-system_karpenter-*", "controller", "0.log"))
		return err == nil && slices.ContainsFunc(logs, func(name string) bool {
			text, err := os.ReadFile(name)
			return err == nil && strings.Contains(string(text), "Starting workers")
		})
	}
	out := &trigger{text: "Ctrl-C stops everything"}
	out.then = func() {
		defer cancel()
		for deadline := time.Now().Add(3 * time.Minute); !works(); time.Sleep(50 * time.Millisecond) { // a file has no watch
			if time.Now().After(deadline) {
				t.Error("the controller does not come up")
				return
			}
		}
		useUp(t, out.String(), dir, binary)
	}
	var errOut bytes.Buffer
	if code := run(ctx, []string{"up", "--dir", dir, "--controller", "dovetail", "--binary", binary}, out, &errOut); code != exitOK {
		t.Fatalf("exit code %d:\n%s\n%s", code, out, &errOut)
	}
}

// useUp uses the address of the page and the command that are in the output of up.
func useUp(t *testing.T, said, dir, binary string) {
	t.Helper()
	address := regexp.MustCompile(`(http://127\.0\.0\.1:\d+)(/debug/console/)#token=(\S+)`).FindStringSubmatch(said)
	top := regexp.MustCompile(`bin/dovetail (top .*)`).FindStringSubmatch(said)
	if address == nil || top == nil {
		t.Errorf("the output has no address of the page, or no command:\n%s", said)
		return
	}
	for path, want := range map[string]string{address[2]: "<script", "/debug/inspect/fleet": "bootstrap-1"} {
		var status int
		var text []byte
		for deadline := time.Now().Add(time.Minute); status != http.StatusOK && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) { // the leader fills its caches
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address[1]+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+address[3])
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			status = response.StatusCode
			text, _ = io.ReadAll(response.Body) // a part of it shows enough
			_ = response.Body.Close()
		}
		if status != http.StatusOK || !strings.Contains(string(text), want) {
			t.Errorf("%s: status %d: %s", path, status, text)
		}
	}
	cmd := exec.CommandContext(t.Context(), binary, strings.Fields(top[1])...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "kubeconfig"))
	if text, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(text), "; leader kube-system/karpenter-") || !strings.Contains(string(text), "bootstrap-1") {
		t.Errorf("dovetail %s: %v\n%s", top[1], err, text)
	}
}

// Wrong calls and ports that are taken are said before anything stays behind.
func TestUpRefuses(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for name, tc := range map[string]struct {
		args     []string
		wantCode int
		wantErr  string
	}{
		"a controller that is not known": {[]string{"--controller", "karpenter"}, exitUsage, "want dovetail or none"},
		"a clock that stands still":      {[]string{"--speed", "0"}, exitUsage, "--speed"},
		"fewer nodes than none":          {[]string{"--nodes", "-1"}, exitUsage, "--nodes"},
		"a port that is taken":           {[]string{"--port", port, "--dir", t.TempDir()}, exitFailed, "choose another port"},
		"a port of AWS that is taken":    {[]string{"--aws-port", port, "--dir", t.TempDir()}, exitFailed, "choose another port"},
		"a controller that is not there": {[]string{"--controller", "dovetail", "--binary", "/nope", "--dir", t.TempDir()}, exitFailed, "make build"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := run(t.Context(), append([]string{"up"}, tc.args...), &out, &errOut); code != tc.wantCode || !strings.Contains(errOut.String(), tc.wantErr) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, tc.wantCode, tc.wantErr, &errOut)
			}
		})
	}
}

func TestFaultSpeaksToARunningSandbox(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir := t.TempDir()
	up := &trigger{text: "Ctrl-C stops everything", then: func() {
		defer cancel()
		for _, tc := range []struct { // in order: one shows what another did
			name     string
			args     []string
			wantCode int
			want     string
		}{
			{"a fault", []string{"ice", "capacityType=spot", "instanceType=m5.large", "zone=eu-west-1a", "ttl=5m"}, exitOK, "m5.large"},
			{"what is in force", []string{"ice", "--show"}, exitOK, "eu-west-1a"},
			{"a fault of nodes", []string{"nodes", "name=x", "selector.type=m5.large", "joinLate=90s", "without=nvidia.com/gpu,x.io/y"}, exitOK, "ok"},
			{"a setting", []string{"lag", "instances=2s"}, exitOK, "ok"},
			{"a right less", []string{"permissions", "action=ec2:CreateFleet,ec2:RunInstances", "role=KarpenterControllerRole-sandbox"}, exitOK, "ok"},
			{"which one", []string{"permissions", "--show"}, exitOK, "ec2:RunInstances"},
			{"all rights again", []string{"permissions", "--end"}, exitOK, "ok"},
			{"as it was written before", []string{"permissions", "action=ec2:CreateFleet", "deny=true"}, exitOK, "ok"},
			{"a right that policies give", []string{"permissions", "action=ec2:CreateFleet", "deny=false"}, exitFailed, "aws iam put-role-policy"},
			{"budgets", []string{"throttle", "profile=realistic"}, exitOK, "ok"},
			{"no budgets", []string{"throttle", "--end"}, exitOK, "ok"},
			{"an instance type", []string{"catalogue", "name=x9.large", "like=m5.large", "zones=eu-west-1a,eu-west-1b"}, exitOK, "ok"},
			{"how it is sold", []string{"catalogue/x9.large", "--show"}, exitOK, "eu-west-1b"},
			{"a type that is retired", []string{"catalogue/x9.large", "--end"}, exitOK, "ok"},
			{"a fault with a typo", []string{"faults", "acton=ec2:*"}, exitFailed, "acton"},
			{"no key and value", []string{"faults", "ec2"}, exitFailed, "is not key=value"},
			{"a fault not known", []string{"earthquake"}, exitFailed, "interrupt"},
			{"a sandbox not there", []string{"ice", "--dir", "/nope"}, exitFailed, "is this the folder"},
			{"nothing to make fail", []string{}, exitUsage, "--help"},
			{"the clock, which moves", []string{"time", "advance=1m"}, exitOK, "speed"},
		} {
			var out, errOut bytes.Buffer
			args := append([]string{"fault", "--dir", dir}, tc.args...)
			if code := run(t.Context(), args, &out, &errOut); code != tc.wantCode || !strings.Contains(out.String()+errOut.String(), tc.want) {
				t.Errorf("%s: exit code %d, want %d with %q:\n%s%s", tc.name, code, tc.wantCode, tc.want, &out, &errOut)
			}
		}
	}}
	var errOut bytes.Buffer
	if code := run(ctx, []string{"up", "--dir", dir}, up, &errOut); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, &errOut)
	}
}

// trigger is a buffer that does something once a text was written to it.
type trigger struct {
	bytes.Buffer
	text string
	then func()
	done bool
}

func (w *trigger) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if !w.done && strings.Contains(w.String(), w.text) {
		w.done = true
		w.then()
	}
	return n, err
}
