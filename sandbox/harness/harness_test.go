package harness_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dovetail-sh/dovetail/sandbox/harness"
)

var server *harness.Server

func TestMain(m *testing.M) { harness.Main(m, harness.Options{Controllers: true}, &server) }

// Each test has a namespace of its own, and waits see what was there before and what comes later.
func TestNamespacesAndWaits(t *testing.T) {
	t.Parallel()
	c := server.Typed(t)
	first, second := server.Namespace(t), server.Namespace(t)
	if first == second {
		t.Fatalf("two tests share namespace %s", first)
	}
	harness.Create(t, c, &corev1.ConfigMap{}, "metadata: {name: there, namespace: "+first+"}")
	named := func(name string) func(*corev1.ConfigMap) bool {
		return func(m *corev1.ConfigMap) bool { return m.Name == name }
	}
	harness.Eventually(t, c, &corev1.ConfigMapList{}, "what is there", named("there"), client.InNamespace(first))
	// The controller manager makes this one in its own time: the wait is on a watch.
	harness.Eventually(t, c, &corev1.ConfigMapList{}, "the CA of the namespace", named("kube-root-ca.crt"), client.InNamespace(second))
}

// While the sources stay as they are, a program is built once.
func TestProgramIsBuiltOnce(t *testing.T) {
	t.Setenv("DOVETAIL_SOURCES", t.TempDir())
	if _, err := harness.Predecessor.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "") // there is no go command any more
	path, err := harness.Predecessor.Build(t.Context())
	if err != nil {
		t.Errorf("built a second time: %v", err)
	}
	t.Setenv("DOVETAIL_SOURCES", "")
	if _, err := harness.Predecessor.Build(t.Context()); err == nil {
		t.Errorf("%s is taken for fresh although sources may change", path)
	}
}
