package bench

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	namespace = metav1.NamespaceDefault
	podCPU    = "10m"
	podMemory = "16Mi"
)

// createDeployment requests pods that only the machines launched here may run.
func createDeployment(ctx context.Context, client kubernetes.Interface, n, replicas int) error {
	name := fmt.Sprintf("bench-%02d", n)
	labels := map[string]string{benchLabel: "true", "app": name}
	_, err := client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64(1)), // waited for in full: what is measured is the rest
					NodeSelector:                  map[string]string{benchLabel: "true"},
					Containers: []corev1.Container{{
						Name: "pause", Image: "registry.k8s.io/pause:3.10",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse(podCPU), corev1.ResourceMemory: resource.MustParse(podMemory),
						}},
					}},
				},
			},
		},
	}, metav1.CreateOptions{})
	return err
}

// deleteDeployments deletes all of them; the garbage collector takes their pods.
func deleteDeployments(ctx context.Context, client kubernetes.Interface) error {
	return client.AppsV1().Deployments(namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}, metav1.ListOptions{LabelSelector: benchLabel})
}
