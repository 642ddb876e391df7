package world

import (
	"context"
	"encoding/base64"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/dovetail-sh/dovetail/sandbox/metricsapi"
)

const metricsService = "metrics-server"

// startMetrics serves metrics.k8s.io, or removes what an earlier run on the folder left: an API that
// is not served would block the deletion of namespaces.
func (w *World) startMetrics(ctx context.Context, o Options) error {
	if !o.Metrics {
		for _, obj := range w.metricsObjects(1) {
			if err := w.Kube.Delete(ctx, obj); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	}
	client, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		return err
	}
	port, serve, err := w.prepareTLS(ctx, metricsService+"."+metav1.NamespaceSystem+".svc")
	if err != nil {
		return err
	}
	serve(metricsapi.New(client))
	for _, obj := range w.metricsObjects(port) {
		if _, err := w.Kube.Apply(ctx, obj); err != nil {
			return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

// metricsObjects are the service and the registration of the API. There is no network of the cluster,
// so the service is another name for this machine.
func (w *World) metricsObjects(port int32) []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
			"metadata": map[string]any{"name": metricsapi.Version + "." + metricsapi.Group},
			"spec": map[string]any{
				"group": metricsapi.Group, "version": metricsapi.Version, "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
				"caBundle": base64.StdEncoding.EncodeToString(w.ControlPlane.Config.CAData),
				"service":  map[string]any{"namespace": metav1.NamespaceSystem, "name": metricsService, "port": int64(port)},
			},
		}},
		{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service",
			"metadata": map[string]any{"name": metricsService, "namespace": metav1.NamespaceSystem},
			"spec":     map[string]any{"type": "ExternalName", "externalName": "localhost"},
		}},
	}
}
