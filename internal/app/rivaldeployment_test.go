package app

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// LC-60, FM C11: who may not list leases elsewhere finds another controller by its Deployment, with the rights that every
// installation has.
func TestLC_60_AnotherDeploymentIsReady(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		label, namespace, variable string
		ready                      int32
		want                       string
	}{
		"Karpenter in another namespace": {"karpenter", "karpenter", "KARPENTER_SERVICE", 2, "Deployment karpenter in namespace karpenter has 2 ready replicas"},
		"it is scaled to nothing":        {"karpenter", "karpenter", "KARPENTER_SERVICE", 0, ""},
		"our own":                        {"karpenter", "kube-system", "KARPENTER_SERVICE", 2, ""},
		"it only has the label":          {"karpenter", "monitoring", "GRAFANA", 1, ""},
		"something else":                 {"web", "default", "KARPENTER_SERVICE", 1, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "karpenter", Namespace: tc.namespace, Labels: map[string]string{"app.kubernetes.io/name": tc.label}}}
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Env: []corev1.EnvVar{{Name: tc.variable, Value: "x"}}}}
			d.Status.ReadyReplicas = tc.ready
			reader := fake.NewClientBuilder().WithObjects(d).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if _, leases := list.(*coordinationv1.LeaseList); leases {
						return apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "", nil)
					}
					return c.List(ctx, list, opts...)
				},
			}).Build()
			r := &otherControllers{reader: reader, lease: "karpenter-leader-election", namespace: "kube-system", home: "kube-system", now: time.Now}
			err := r.check(t.Context())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("check() = %v, want %q", err, tc.want)
			}
		})
	}
}

// LC-60, FM C11: of two that were let in since neither was ready, one goes on: the older. Karpenter never yields.
func TestLC_60_TheOlderOneGoesOn(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for what, tc := range map[string]struct {
		age     time.Duration // of the other beyond ours
		leading bool
		env     string
		ends    bool
	}{
		"a younger one":               {age: -time.Minute, leading: true, env: "NOMINATE_PODS"},
		"an older one":                {age: time.Minute, leading: true, env: "NOMINATE_PODS", ends: true},
		"of one second, by namespace": {leading: true, env: "NOMINATE_PODS", ends: true},
		"a younger Karpenter":         {age: -time.Minute, leading: true, env: "BATCH_IDLE_DURATION", ends: true},
		"a younger one, at the start": {age: -time.Minute, env: "NOMINATE_PODS", ends: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			deployment := func(namespace string, made time.Time) *appsv1.Deployment {
				d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
					Name: "karpenter", Namespace: namespace, CreationTimestamp: metav1.NewTime(made), Labels: map[string]string{"app.kubernetes.io/name": "karpenter"},
				}}
				d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Env: []corev1.EnvVar{{Name: "KARPENTER_SERVICE"}, {Name: tc.env}}}}
				d.Status.ReadyReplicas = 1
				return d
			}
			reader := fake.NewClientBuilder().WithObjects(deployment("kube-system", made), deployment("karpenter", made.Add(-tc.age))).Build()
			r := &otherControllers{reader: reader, namespace: "kube-system", home: "kube-system", now: time.Now, leading: tc.leading}
			if err := r.checkDeployments(t.Context()); (err != nil) != tc.ends {
				t.Errorf("checkDeployments() = %v, want it to end: %t", err, tc.ends)
			}
		})
	}
}
