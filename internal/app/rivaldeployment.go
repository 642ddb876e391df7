package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// checkDeployments returns an error if the chart, or Karpenter's, is installed in another namespace and a replica
// there is ready (LC-60). Every installation may list Deployments. One that refuses to start beside another is never
// ready, so the one that was installed first continues. If both started because neither was ready yet, the older one
// continues: if both exited, no process would lead.
func (r *otherControllers) checkDeployments(ctx context.Context) error {
	if r.home == "" {
		return nil
	}
	list := &appsv1.DeploymentList{}
	if err := r.reader.List(ctx, list, client.MatchingLabels{"app.kubernetes.io/name": component}); err != nil {
		log.FromContext(ctx).V(1).Info("cannot check for the Deployment of another controller", "error", err.Error())
		return nil
	}
	own := slices.IndexFunc(list.Items, func(d appsv1.Deployment) bool { return d.Namespace == r.home && isController(&d.Spec.Template.Spec) })
	for i := range list.Items {
		d := &list.Items[i]
		if r.leading && own >= 0 && exitsBesideOlder(&d.Spec.Template.Spec) && isOlder(&list.Items[own], d) {
			continue // it ends when it looks
		}
		if d.Namespace != r.home && d.Namespace != r.namespace && d.Status.ReadyReplicas > 0 && isController(&d.Spec.Template.Spec) {
			return otherControllerError(fmt.Sprintf("Deployment %s in namespace %s has %d ready replicas", d.Name, d.Namespace, d.Status.ReadyReplicas))
		}
	}
	return nil
}

// isController knows a controller by a variable that both charts set. Others may carry the label, such as dashboards.
func isController(pod *corev1.PodSpec) bool { return setsVariable(pod, "KARPENTER_SERVICE") }

// exitsBesideOlder reports whether a controller is one like this, which exits beside an older one. Karpenter does not. A
// variable that only our chart sets identifies it.
func exitsBesideOlder(pod *corev1.PodSpec) bool { return setsVariable(pod, "NOMINATE_PODS") }

func setsVariable(pod *corev1.PodSpec, variable string) bool {
	return slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == variable })
	})
}

// isOlder compares the ages of two Deployments, and their namespaces if they are of one second.
func isOlder(a, b *appsv1.Deployment) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace)) < 0
}

func otherControllerError(what string) error {
	return fmt.Errorf("another controller leads: %s; two controllers would launch and remove the same nodes, so this one does nothing; uninstall one of them, or scale it to 0", what)
}
