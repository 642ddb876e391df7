package flow_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

var (
	scaleNodes = flag.Int("scale.nodes", 1000, "nodes of BenchmarkScale")
	scalePods  = flag.Int("scale.pods", 10000, "pods of BenchmarkScale, in Deployments of 500")
)

// BenchmarkScale says how long it takes until many nodes are Ready and many pods run, with the real
// scheduler and controllers. Run it alone, with GOGC=400, -run '^$' -benchtime 1x.
func BenchmarkScale(b *testing.B) {
	for b.Loop() {
		ns := newNamespace(b, "scale")
		began := time.Now()
		var instances []fakenode.Instance
		for range *scaleNodes {
			instances = append(instances, launch(b, aws.newRunningInstance("scale")))
		}
		for _, i := range instances {
			node(b, i, "usable", isUsable)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/nodes-ready")
		began = time.Now()
		var names []string
		for left := *scalePods; left > 0; left -= 500 {
			name := fmt.Sprintf("web-%d", len(names))
			label := podTemplate("scale", nil)
			label.Labels["app"] = name
			_, err := client.AppsV1().Deployments(ns).Create(b.Context(), &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: appsv1.DeploymentSpec{
					Replicas: new(int32(min(left, 500))), Template: label,
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
				},
			}, metav1.CreateOptions{})
			if err != nil {
				b.Fatal(err)
			}
			names = append(names, name)
		}
		for _, name := range names {
			waitForObject(b, client.AppsV1().RESTClient(), &appsv1.Deployment{}, "deployments", ns, name, "available",
				func(d *appsv1.Deployment) bool { return d.Status.AvailableReplicas == *d.Spec.Replicas })
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/pods-running")
	}
}
