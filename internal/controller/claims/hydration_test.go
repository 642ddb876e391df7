package claims_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/claims"
)

func twice(t *testing.T, r reconcile.Reconciler, name string) {
	t.Helper()
	for range 2 {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClaimHydration(t *testing.T) {
	t.Parallel()
	w := newClaimWorld(t, readyClaim())
	twice(t, &claims.ClaimHydration{Client: w.api, Classes: claimKinds()}, "c")
	if got := w.claim(t).Labels["karpenter.k8s.aws/ec2nodeclass"]; got != "class" || w.writes != 1 {
		t.Errorf("LC-44: label %q after %d writes", got, w.writes)
	}
}

func TestNodeHydration(t *testing.T) {
	t.Parallel()
	node := joinedNode()
	node.Labels = map[string]string{karpv1.LabelRegistered: "true"}
	node.Spec.Taints = []corev1.Taint{{Key: karpv1.TaintKeyDisruption, Value: "disrupting", Effect: "NoSchedule"}}
	w := newClaimWorld(t, readyClaim(), node)
	twice(t, &claims.NodeHydration{Client: w.api, Classes: claimKinds()}, "n")
	got := &corev1.Node{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: "n"}, got); err != nil {
		t.Fatal(err)
	}
	if l := got.Labels; l["karpenter.k8s.aws/ec2nodeclass"] != "class" || l[karpv1.LabelProvisionerName] != "p" || w.writes != 1 {
		t.Errorf("LC-44, L-14: labels %v after %d writes", l, w.writes)
	}
	if len(got.Spec.Taints) > 0 {
		t.Errorf("LC-62: taints %v", got.Spec.Taints)
	}
}

func TestConsistencyController(t *testing.T) {
	t.Parallel()
	c := readyClaim()
	c.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4")}
	node := joinedNode()
	node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2")}
	w := newClaimWorld(t, c, node)
	r := &claims.Consistency{Client: w.api, Events: w, Classes: claimKinds(), Now: func() time.Time { return claimBorn.Add(time.Hour) }}
	twice(t, r, "c")
	if have := w.state(t, karpv1.ConditionConsistentStateFound); have != "False/ConsistencyCheckFailed" || w.writes != 1 {
		t.Errorf("LC-40: ConsistentStateFound is %s after %d writes", have, w.writes)
	}
	if have := w.state(t, karpv1.ConditionReady); have != "True/Ready" {
		t.Errorf("LC-40: Ready is %s, want it untouched", have)
	}
	if len(w.events) == 0 || w.events[0] != "c FailedConsistencyCheck" {
		t.Errorf("LC-40: events %v", w.events)
	}
}
