package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/sandbox/harness"
)

// How a test has the command run in a process of its own, to kill it or to take something from it.
const (
	asCommand = "SANDBOX_TEST_AS_COMMAND"
	fileLimit = "SANDBOX_TEST_FILE_LIMIT" // bytes that a file may have
)

const isUp = "Ctrl-C stops everything"

func TestMain(m *testing.M) {
	if limit, err := strconv.ParseUint(os.Getenv(fileLimit), 10, 64); err == nil {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			panic(err)
		}
	}
	if os.Getenv(asCommand) != "" {
		main()
	}
	harness.Tune(8, 0) // the demo waits for most of its two minutes
	os.Exit(m.Run())
}

func startSandbox(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(append(os.Environ(), asCommand+"=1"), env...)
	return cmd
}

// startUntil runs the command until it has printed a text.
func startUntil(t *testing.T, text string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := startSandbox(t, nil, args...)
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // most tests have done so
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.Contains(lines.Text(), text) {
			return cmd
		}
	}
	t.Fatalf("it ended before it said %q", text)
	return nil
}

// killProcess is kill -9.
func killProcess(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed, and says so
}

// restartUp starts on a folder, does something, and stops in order.
func restartUp(t *testing.T, dir string, then func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &trigger{text: isUp, then: func() { then(); cancel() }}
	var errOut bytes.Buffer
	if code := run(ctx, []string{"up", "--dir", dir}, out, &errOut); code != exitOK {
		t.Fatalf("exit code %d:\n%s\n%s", code, out, &errOut)
	}
}

// After kill -9, at whatever moment of the start, the next up on the folder goes on.
func TestKilledUpRecovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, moment := range []string{"starting", "certificates", "etcd", "kube-apiserver", "CRDs", "nodes", isUp} {
		killProcess(t, startUntil(t, moment, "up", "--dir", dir))
	}
	for _, delay := range []time.Duration{50 * time.Millisecond, 700 * time.Millisecond, 1900 * time.Millisecond} { // between two steps
		cmd := startUntil(t, "starting", "up", "--dir", dir)
		time.Sleep(delay)
		killProcess(t, cmd)
	}
	restartUp(t, dir, func() {})
}

// After kill -9 no process of the controller is left, and the next up finds it installed as it was.
func TestKilledUpTakesItsController(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := startUntil(t, isUp, "up", "--dir", dir, "--controller", "dovetail", "--binary", buildController(t))
	var containers []int
	waitUntil(t, "no pod of the controller runs", func() bool {
		containers = childrenOf(t, cmd.Process.Pid)
		return len(containers) > 0
	})
	killProcess(t, cmd)
	for _, pid := range containers {
		waitUntil(t, fmt.Sprintf("process %d still runs", pid), func() bool { return hasEnded(pid) })
	}
	restartUp(t, dir, func() {
		if _, err := clientOf(t, dir).AppsV1().Deployments("kube-system").Get(t.Context(), "karpenter", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// waitUntil polls, since there is no watch on processes of others.
func waitUntil(t *testing.T, otherwise string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(otherwise)
		}
	}
}

// childrenOf lists the processes that a process has started.
func childrenOf(t *testing.T, parent int) (list []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, pid)
		}
	}
	return list
}

// hasEnded counts a process that only waits to be asked how it ended.
func hasEnded(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	_, state, found := strings.Cut(string(text), ") ")
	return found && strings.HasPrefix(state, "Z")
}

func clientOf(t *testing.T, dir string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A folder has one sandbox at a time, and what it left behind does not respond.
func TestFolderInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	call := func(want string, args ...string) {
		t.Helper()
		var out, errOut bytes.Buffer
		if code := run(t.Context(), args, &out, &errOut); code != exitFailed || !strings.Contains(errOut.String(), want) {
			t.Errorf("%v: exit code %d, want %d with %q:\n%s", args, code, exitFailed, want, &errOut)
		}
	}
	cmd := startUntil(t, isUp, "up", "--dir", dir)
	call("still runs", "up", "--dir", dir)
	killProcess(t, cmd)
	call("no sandbox responds", "fault", "--dir", dir, "ice", "--show")
}

// A disk without room, as a limit on the size of files makes it for anybody, is said before anything
// starts, and leaves nothing behind that takes room.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{"a folder that is given": t.TempDir(), "a temporary folder": ""} {
		t.Run(name, func(t *testing.T) {
			temp, args := t.TempDir(), []string{"up"}
			if dir != "" {
				args = append(args, "--dir", dir)
			}
			text, err := startSandbox(t, []string{fileLimit + "=1000000", "TMPDIR=" + temp}, args...).CombinedOutput()
			exit, isExit := errors.AsType[*exec.ExitError](err)
			if !isExit || exit.ExitCode() != exitFailed || !strings.Contains(string(text), "has no room") || !strings.Contains(string(text), "200 MB") {
				t.Errorf("%v, want exit code %d:\n%s", err, exitFailed, text)
			}
			if strings.Contains(string(text), "etcd") || strings.Contains(string(text), "goroutine") {
				t.Errorf("something began before:\n%s", text)
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
			if left, err := filepath.Glob(filepath.Join(dir, "room-*")); dir != "" && (err != nil || len(left) > 0) {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}
