package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// FM C11: a controller that leads in another namespace is found, and no other one acts beside it.
func TestFM_C11_AnotherControllerLeads(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const name = "karpenter-leader-election"
	for what, tc := range map[string]struct {
		lease, namespace, holder string
		age                      time.Duration
		want                     string
	}{
		"Karpenter in another namespace": {name, "karpenter", "karpenter-7d9f", 5 * time.Second, "lease karpenter-leader-election in namespace karpenter is held by karpenter-7d9f"},
		"ourselves":                      {name, "kube-system", "dovetail-abc", 5 * time.Second, ""},
		"one that is gone":               {name, "karpenter", "karpenter-7d9f", time.Minute, ""},
		"one that stopped cleanly":       {name, "karpenter", "", time.Second, ""},
		"another lease":                  {"kube-scheduler", "karpenter", "x", time.Second, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			lease := &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: tc.lease, Namespace: tc.namespace},
				Spec: coordinationv1.LeaseSpec{
					HolderIdentity: &tc.holder, LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(now.Add(-tc.age))),
				},
			}
			byName := func(o client.Object) []string { return []string{o.GetName()} }
			reader := fake.NewClientBuilder().WithObjects(lease).WithIndex(&coordinationv1.Lease{}, "metadata.name", byName).Build()
			r := &otherControllers{reader: reader, lease: name, namespace: "kube-system", now: func() time.Time { return now }}
			err := r.check(t.Context())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("check() = %v, want %q", err, tc.want)
			}
		})
	}
}

// Decision 14: who may not list leases of other namespaces goes on, and says once which right is missing.
func TestFM_C11_WithoutTheRightToListLeases(t *testing.T) {
	t.Parallel()
	denied := apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "", errors.New("no rule"))
	reader := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return denied }}).Build()
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	r := &otherControllers{reader: reader, lease: "karpenter-leader-election", namespace: "kube-system", now: time.Now}
	for range 3 {
		if err := r.check(ctx); err != nil {
			t.Errorf("check() = %v, want to go on", err)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "allow the service account to list leases.coordination.k8s.io in all namespaces") {
		t.Errorf("log: %q, want one line that names the right", lines)
	}
}
