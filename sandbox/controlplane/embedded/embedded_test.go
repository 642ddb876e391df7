package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/sandbox/controlplane"
	"github.com/dovetail-sh/dovetail/sandbox/controlplane/embedded"
)

// A second start in the same process, on the same folder, finds what the first one stored.
func TestStartStopAndGoOn(t *testing.T) {
	options := controlplane.Options{
		Dir:      t.TempDir(),
		Progress: func(step string, took time.Duration) { t.Logf("%s: %s", step, took.Round(time.Millisecond)) },
	}
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "note"}, Data: map[string]string{"left": "here"}}

	cp := start(t, options)
	if _, err := clientOf(t, cp).ConfigMaps("default").Create(t.Context(), note, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantVersion(t, cp)
	if _, err := embedded.Start(t.Context(), options); err == nil || !strings.Contains(err.Error(), "belongs to a sandbox that still runs") {
		t.Errorf("two control planes on one folder: %v", err)
	}
	wantSeparate(t, cp)
	authority := cp.Config.CAData
	stop(t, cp)

	cp = start(t, options)
	if !bytes.Equal(authority, cp.Config.CAData) {
		t.Error("Trust D02: the second start has another authority")
	}
	found, err := clientOf(t, cp).ConfigMaps("default").Get(t.Context(), "note", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if found.Data["left"] != "here" {
		t.Errorf("read %v after the second start", found.Data)
	}
	wantVersion(t, cp)
	wantRewritten(t, cp)
	stop(t, cp)
	if err := cp.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

// wantSeparate starts a second control plane beside the first. Each has its own objects, and the first goes on when
// the second ends.
func wantSeparate(t *testing.T, first *controlplane.ControlPlane) {
	t.Helper()
	second := start(t, controlplane.Options{Dir: t.TempDir()})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "pause"}}}}
	for _, cp := range []*controlplane.ControlPlane{first, second} {
		if _, err := clientOf(t, cp).Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// There is no node, and kube-scheduler says so.
		wantUnschedulable(t, clientOf(t, cp))
	}
	if _, err := clientOf(t, second).ConfigMaps("default").Get(t.Context(), "note", metav1.GetOptions{}); err == nil {
		t.Error("the second control plane has an object of the first")
	}
	stop(t, second)
	if err := clientOf(t, first).Pods("default").Delete(t.Context(), "pod", metav1.DeleteOptions{}); err != nil {
		t.Errorf("after the second ended: %v", err)
	}
}

func wantUnschedulable(t *testing.T, client corev1client.CoreV1Interface) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w, err := client.Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if ok && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == corev1.PodReasonUnschedulable }) {
			return
		}
	}
	t.Fatal("kube-scheduler did not look at the pod")
}

// wantRewritten changes the note where it is stored, and reads it through the API.
func wantRewritten(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	const key = "/registry/configmaps/default/note"
	err := cp.Rewrite(t.Context(), key, func(stored []byte) ([]byte, error) {
		return bytes.Replace(stored, []byte("here"), []byte("over"), 1), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found, err := clientOf(t, cp).ConfigMaps("default").Get(t.Context(), "note", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if found.Data["left"] != "over" {
		t.Errorf("read %v after the note was rewritten", found.Data)
	}
	if err := cp.Rewrite(t.Context(), key+"book", nil); err == nil || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("Rewrite() of nothing: %v", err)
	}
}

// wantVersion reads /version as kubectl version does, which refuses what is no release. This binary is
// linked without flags.
func wantVersion(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(cp.Config)
	if err != nil {
		t.Fatal(err)
	}
	info, err := client.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	release, err := version.ParseSemantic(info.GitVersion)
	if err != nil || info.GitVersion != embedded.Version() {
		t.Fatalf("the server says it is %q (%v), want %s", info.GitVersion, err, embedded.Version())
	}
	if major, minor := strconv.Itoa(int(release.Major())), strconv.Itoa(int(release.Minor())); info.Major != major || info.Minor != minor || info.EmulationMinor != minor {
		t.Errorf("%s is %s.%s and emulates %s.%s", info.GitVersion, info.Major, info.Minor, info.EmulationMajor, info.EmulationMinor)
	}
}

// Whatever goes wrong, nothing is left running and the next start works.
func TestFailedStartLeavesNothing(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Close() })
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		options controlplane.Options
		want    string
	}{
		"no folder":       {controlplane.Options{}, "no folder given"},
		"a file":          {controlplane.Options{Dir: file}, "cannot be used"},
		"a long path":     {controlplane.Options{Dir: "/tmp/" + strings.Repeat("x", 100)}, "too long"},
		"an odd path":     {controlplane.Options{Dir: "/tmp/a?b"}, "characters"},
		"a port in use":   {controlplane.Options{Dir: t.TempDir(), Port: busy.Addr().(*net.TCPAddr).Port}, "is in use"},
		"a port too high": {controlplane.Options{Dir: t.TempDir(), Port: 70000}, "listen"},
	} {
		t.Run(name, func(t *testing.T) {
			cp, err := embedded.Start(t.Context(), tc.options)
			if err == nil {
				t.Fatal("started", cp.Stop())
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q, want %q in it", err, tc.want)
			}
		})
	}
	for name, delay := range map[string]time.Duration{"interrupted": 0, "interrupted while the API server starts": time.Second} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			dir := t.TempDir()
			_, err := embedded.Start(ctx, controlplane.Options{Dir: dir, Progress: func(step string, _ time.Duration) {
				if step == "etcd" {
					time.AfterFunc(delay, cancel)
				}
			}})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want %v", err, context.Canceled)
			}
			if _, err := os.Stat(filepath.Join(dir, "kubeconfig")); err == nil {
				t.Error("a kubeconfig of a server that does not run")
			}
		})
	}
}

func start(t *testing.T, o controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	cp, err := embedded.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Stop() })
	return cp
}

func stop(t *testing.T, cp *controlplane.ControlPlane) {
	t.Helper()
	began := time.Now()
	if err := cp.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped in %s", time.Since(began).Round(time.Millisecond))
	select {
	case err := <-cp.Err():
		t.Errorf("a component failed: %v", err)
	default:
	}
}

// clientOf goes through the kubeconfig file, as a user does.
func clientOf(t *testing.T, cp *controlplane.ControlPlane) corev1client.CoreV1Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A datastore that cannot be read is an error with a way out, not a crash.
func TestDamagedState(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "etcd", "data", "member", "snap")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "db"), []byte(strings.Repeat("not a database ", 10000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := embedded.Start(t.Context(), controlplane.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "remove "+filepath.Join(dir, "etcd", "data")) {
		t.Errorf("error %v, want one that says what to remove", err)
	}
}
