package app

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// FM C11: a controller that leads in another namespace is found, and nobody acts beside it.
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
			r := &rivals{reader: reader, lease: name, namespace: "kube-system", now: func() time.Time { return now }}
			err := r.check(t.Context())
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("check() = %v, want %q", err, tc.want)
			}
		})
	}
}
