package world_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// checkDeployed runs a program as the Deployment says that stands for it, and changes the Deployment.
func checkDeployed(t *testing.T, w *world.World, kube kubernetes.Interface) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "controller")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho \"started $* with $EXTRA\"\ntrap 'exit 0' TERM\nwhile :; do sleep 0.1; done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 10)
	c, err := w.RunController(t.Context(), world.ControllerOptions{Binary: binary, Deployed: true, Env: []string{"EXTRA=first"}, Ended: func(err error) { ended <- err }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() }) // for a test that failed: the watch on the Deployment keeps the API server
	lines := func() []string {
		text, err := os.ReadFile(c.Log)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return !strings.HasPrefix(line, "started") })
	}
	change := func(how func(*appsv1.Deployment)) {
		t.Helper()
		deployments := kube.AppsV1().Deployments("kube-system")
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the controllers of the cluster write it too
			d, err := deployments.Get(t.Context(), "karpenter", metav1.GetOptions{})
			if err != nil {
				return err
			}
			how(d)
			_, err = deployments.Update(t.Context(), d, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	awaitCall(t, w, func() bool { return len(lines()) == 1 })
	if line := lines()[0]; !strings.Contains(line, "--leader-election-namespace=kube-system") || strings.Contains(line, "-port=0") || !strings.Contains(line, "with first") {
		t.Errorf("%s, want the lease, ports that are known, and the environment", line)
	}
	change(func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Env = append(d.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "EXTRA", Value: "second"})
	})
	awaitCall(t, w, func() bool { return len(lines()) == 2 && strings.Contains(lines()[1], "with second") })
	change(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) })
	awaitCall(t, w, func() bool { return c.PID() == 0 })
	change(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(1)) })
	awaitCall(t, w, func() bool { return len(lines()) == 3 })
	c.Kill()
	awaitCall(t, w, func() bool { return len(lines()) == 4 })
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Errorf("told of an end that was wanted: %v", err)
	default:
	}
}
