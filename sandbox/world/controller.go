package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

// standsForLabel marks the Deployment that stands for the controller process, and its pod.
const standsForLabel = "sandbox.dovetail.sh/stands-for"

const controllerProcess = "controller-process"

// ControllerOptions say which controller runs in a world.
type ControllerOptions struct {
	// Binary is the dovetail to run.
	Binary string
	// Namespace of the Deployment that stands for it; empty means kube-system.
	Namespace string
}

// Controller is a process that lives in a world. In the cluster a Deployment named karpenter stands for
// it, so that the commands find it that users know: its pod runs nothing, and the log of that pod is
// the log of the process.
type Controller struct {
	// Log is the file that the process writes to.
	Log string

	ended chan error
	stop  func() error
}

// Err tells when the process ended although nobody stopped it.
func (c *Controller) Err() <-chan error { return c.ended }

// Stop ends the process, waits for it, and takes the Deployment away.
func (c *Controller) Stop() error { return c.stop() }

// RunController runs the binary that users run, with the environment that users source.
func (w *World) RunController(ctx context.Context, o ControllerOptions) (*Controller, error) {
	if o.Namespace == "" {
		o.Namespace = metav1.NamespaceSystem
	}
	log, err := os.Create(w.controllerLog())
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), o.Binary, "controller", "--disable-leader-election=true", "--metrics-port=0", "--health-probe-port=0")
	cmd.Env = append(os.Environ(), w.Environment()...)
	cmd.Stdout, cmd.Stderr = log, log
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; make build makes it", err), log.Close())
	}
	c := &Controller{Log: log.Name(), ended: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := cmd.Wait(); err != nil {
			c.ended <- fmt.Errorf("the controller ended: %w; see %s", err, log.Name())
		} else {
			c.ended <- fmt.Errorf("the controller ended; see %s", log.Name())
		}
	}()
	c.stop = sync.OnceValue(func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
		<-done
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second) // the API server may be what failed
		defer cancel()
		return errors.Join(log.Close(), w.removeStandIns(limited))
	})
	if err := w.createStandIn(ctx, o.Namespace, cmd.Process.Pid); err != nil {
		return nil, errors.Join(fmt.Errorf("the Deployment that stands for the controller: %w", err), c.Stop())
	}
	return c, nil
}

func (w *World) controllerLog() string { return filepath.Join(w.dir, "controller.log") }

// logFile is the log of the controller for the pod that stands for it.
func (w *World) logFile(p *corev1.Pod) string {
	if p.Labels[standsForLabel] == controllerProcess {
		return w.controllerLog()
	}
	return ""
}

func (w *World) createStandIn(ctx context.Context, namespace string, pid int) error {
	client, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = client.AppsV1().Deployments(namespace).Create(ctx, standIn(pid), metav1.CreateOptions{})
	return err
}

// removeStandIns takes away what stands for a controller that does not run: of this run, or of an
// earlier one that was killed.
func (w *World) removeStandIns(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		return err
	}
	list, err := client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: standsForLabel})
	if err != nil {
		return err
	}
	for _, d := range list.Items {
		err := client.AppsV1().Deployments(d.Namespace).Delete(ctx, d.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// standIn has the names, labels and place that the chart gives to a controller (install 1 to 5), with
// one replica.
func standIn(pid int) *appsv1.Deployment {
	selector := map[string]string{"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}
	labels := map[string]string{standsForLabel: controllerProcess}
	maps.Copy(labels, selector)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "karpenter", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
					fakenode.StopAfterAnnotation:  "0s", // the process has ended before
					"sandbox.dovetail.sh/process": fmt.Sprintf("This pod runs nothing. It stands for process %d outside of the cluster.", pid),
				}},
				Spec: corev1.PodSpec{
					PriorityClassName: "system-cluster-critical",
					Tolerations:       []corev1.Toleration{{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}},
					Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
						NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
							{Key: "karpenter.sh/nodepool", Operator: corev1.NodeSelectorOpDoesNotExist},
						}}},
					}}},
					Containers: []corev1.Container{{
						Name: "controller", Image: "dovetail",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
						}},
					}},
				},
			},
		},
	}
}
