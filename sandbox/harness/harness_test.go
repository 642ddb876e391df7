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
