package controlplane_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
)

// A control plane in a process of its own is started, used, stopped in order and started again on its folder.
func TestProcess(t *testing.T) {
	t.Parallel()
	var steps []string
	o := controlplane.Options{Dir: t.TempDir(), NoScheduler: true, Progress: func(step string, _ time.Duration) { steps = append(steps, step) }}
	cp := startProcess(t, o)
	if !strings.HasPrefix(cp.Version, "v1.") {
		t.Errorf("version %q", cp.Version)
	}
	if got, want := strings.Join(steps, ", "), "certificates, etcd, kube-apiserver, kube-controller-manager, service accounts, kubeconfig"; got != want {
		t.Errorf("steps %s, want %s", got, want)
	}
	maps := clientOf(t, cp).CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "note"}, Data: map[string]string{"left": "here"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cp.Rewrite(t.Context(), "/registry/configmaps/default/note", func(stored []byte) ([]byte, error) {
		return []byte(strings.Replace(string(stored), "here", "over", 1)), nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.StartControlPlane(t.Context(), o); err == nil || !strings.Contains(err.Error(), "belongs to a sandbox that still runs") {
		t.Errorf("two control planes on one folder: %v", err)
	}
	for range 2 {
		if err := cp.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-cp.Err():
		t.Errorf("a control plane that was stopped reports %v", err)
	default:
	}

	cp = startProcess(t, o)
	note, err := clientOf(t, cp).CoreV1().ConfigMaps("default").Get(t.Context(), "note", metav1.GetOptions{})
	if err != nil || note.Data["left"] != "over" {
		t.Errorf("after the second start: %v, %v", note, err)
	}
}

// What goes wrong is said in the words of the process, and nothing is left running.
func TestProcessThatDoesNotStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		start controlplane.Starter
		dir   string
		want  string
	}{
		"no folder":                   {harness.StartControlPlane, "", "no folder given"},
		"a file":                      {harness.StartControlPlane, file, "cannot be used"},
		"no program":                  {controlplane.Process("/nowhere/controlplane"), t.TempDir(), "/nowhere/controlplane"},
		"a program that ends":         {controlplane.Process("/bin/false"), t.TempDir(), "ended"},
		"a program of something else": {controlplane.Process("/bin/cat"), t.TempDir(), "Dir"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cp, err := tc.start(t.Context(), controlplane.Options{Dir: tc.dir})
			if err == nil {
				t.Fatal("started", cp.Stop())
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q, want %q in it", err, tc.want)
			}
		})
	}
}

// A start that is interrupted leaves the folder to the next one.
func TestInterruptedProcess(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o := controlplane.Options{Dir: t.TempDir(), NoControllers: true, NoScheduler: true}
	o.Progress = func(step string, _ time.Duration) {
		if step == "etcd" {
			cancel()
		}
	}
	if _, err := harness.StartControlPlane(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	startProcess(t, o)
}

// A process that ends by itself is reported.
func TestProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	cp := startProcess(t, controlplane.Options{Dir: t.TempDir(), NoControllers: true, NoScheduler: true})
	killHolder(t, filepath.Join(filepath.Dir(cp.Kubeconfig), "components.log"))
	if err := <-cp.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("reported %v", err)
	}
}

// killHolder kills the child of this process that has a file open.
func killHolder(t *testing.T, file string) {
	t.Helper()
	open, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range open {
		if target, err := os.Readlink(link); err != nil || target != file {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err != nil || pid == os.Getpid() {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Skip("no process is found that has the file open: no Linux")
}

func startProcess(t *testing.T, o controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	cp, err := harness.StartControlPlane(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Stop() }) // most tests have, and say what came of it
	return cp
}

func clientOf(t *testing.T, cp *controlplane.ControlPlane) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cp.Config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
