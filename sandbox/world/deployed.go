package world

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
)

// The ports of the pod that stands for the controller, as the chart has them.
const (
	metricsPort = 8080
	healthPort  = 8081
)

// forward is where a port of the pod that stands for the controller leads.
func (w *World) forward(p *corev1.Pod, port int32) string {
	c := w.deployed.Load()
	if c == nil || p.Labels[standsForLabel] != controllerProcess {
		return ""
	}
	switch port {
	case metricsPort:
		return fmt.Sprintf("localhost:%d", c.metrics)
	case healthPort:
		return fmt.Sprintf("localhost:%d", c.health)
	}
	return ""
}

// wanted is what the Deployment says about the process.
type wanted struct {
	up      bool
	env     []string
	restart string // when kubectl rollout restart was called last
}

func wantedOf(d *appsv1.Deployment) wanted {
	out := wanted{up: d.Spec.Replicas == nil || *d.Spec.Replicas > 0, restart: d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"]}
	for _, container := range d.Spec.Template.Spec.Containers {
		for _, e := range container.Env {
			if e.ValueFrom == nil { // there is no pod whose field it could be
				out.env = append(out.env, e.Name+"="+e.Value)
			}
		}
	}
	return out
}

// containerEnv is the environment as a container has it.
func containerEnv(env []string) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		out = append(out, corev1.EnvVar{Name: name, Value: value})
	}
	return out
}

// follow has the process live as the Deployment says, until the controller is stopped.
func (c *Controller) follow(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.world.ControlPlane.Config)
	if err != nil {
		return err
	}
	deployments := client.AppsV1().Deployments(c.options.Namespace)
	first, err := deployments.Get(ctx, standInName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ctx, c.unfollow = context.WithCancel(context.WithoutCancel(ctx))
	c.following.Go(func() {
		for now := wantedOf(first); ctx.Err() == nil; {
			now = c.followOnce(ctx, deployments, now)
		}
	})
	return nil
}

// followOnce is one watch; the API server ends it after some minutes.
func (c *Controller) followOnce(ctx context.Context, deployments appsclient.DeploymentInterface, now wanted) wanted {
	changes, err := deployments.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", standInName).String()})
	if err != nil {
		select { // the API server may be busy
		case <-ctx.Done():
		case <-time.After(restartDelay):
		}
		return now
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		d, ok := change.Object.(*appsv1.Deployment)
		if !ok {
			return now
		}
		next := wantedOf(d)
		if change.Type == watch.Deleted {
			next.up = false
		}
		c.obey(ctx, now, next)
		now = next
	}
	return now
}

// obey starts and ends the process after a change of the Deployment.
func (c *Controller) obey(ctx context.Context, before, now wanted) {
	if before.up == now.up && slices.Equal(before.env, now.env) && before.restart == now.restart {
		return
	}
	c.mu.Lock()
	c.held, c.deployed = true, now.env
	c.mu.Unlock()
	c.terminate()
	if !now.up {
		return
	}
	if err := c.Start(ctx); err != nil && c.options.Ended != nil {
		c.options.Ended(err)
	}
}

// standInService is the one that the chart makes for the metrics.
func standInService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: standInName, Labels: map[string]string{standsForLabel: controllerProcess}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"},
			Ports:    []corev1.ServicePort{{Name: "http-metrics", Port: metricsPort}},
		},
	}
}
