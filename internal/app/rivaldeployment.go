package app

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// checkDeployments returns an error if the chart, or Karpenter's, is installed in another namespace and a replica there is
// ready (LC-60). Every installation may list Deployments. One that refuses to start beside another is never ready, so that
// the one which was there first goes on.
func (r *rivals) checkDeployments(ctx context.Context) error {
	if r.home == "" {
		return nil
	}
	list := &appsv1.DeploymentList{}
	if err := r.reader.List(ctx, list, client.MatchingLabels{"app.kubernetes.io/name": component}); err != nil {
		log.FromContext(ctx).V(1).Info("cannot look for the Deployment of another controller", "error", err.Error())
		return nil
	}
	for i := range list.Items {
		if d := &list.Items[i]; d.Namespace != r.home && d.Namespace != r.namespace && d.Status.ReadyReplicas > 0 && isController(&d.Spec.Template.Spec) {
			return rivalError(fmt.Sprintf("Deployment %s in namespace %s has %d ready replicas", d.Name, d.Namespace, d.Status.ReadyReplicas))
		}
	}
	return nil
}

// isController knows a controller by a variable that both charts set. Others may carry the label, such as dashboards.
func isController(pod *corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "KARPENTER_SERVICE" })
	})
}

func rivalError(what string) error {
	return fmt.Errorf("another controller leads: %s; two controllers would buy and remove the same nodes, so this one does nothing; uninstall one of them, or scale it to 0", what)
}
