package provisioning_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/controller/provisioning"
)

// failedClaim is a claim of a pool that allows some values of properties of offerings.
func failedClaim(pool string, requirements ...karpv1.Requirement) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{karpv1.LabelNodePool: pool}},
		Spec:       karpv1.NodeClaimSpec{Requirements: requirements},
	}
}

func in(key string, values ...string) karpv1.Requirement {
	return karpv1.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// failLaunch records that a launch of a claim found no capacity.
func failLaunch(r *provisioning.LaunchBackoff, claim *karpv1.NodeClaim) {
	r.RecordLaunch(claim, cloud.Instance{}, &cloud.Error{Kind: cloud.NoCapacity}, time.Now())
}

// 16 claims for one instance type find no capacity. Pods that need another one do not wait.
func TestTrust_A05_InsufficientCapacityOfOneKindLeavesTheRest(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	for range 16 {
		failLaunch(l.LaunchBackoff, failedClaim("general", in(corev1.LabelInstanceTypeStable, "large")))
	}
	l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("web", "1"), controllertest.PendingPod("big", "6"))
	l.Pass(t.Context())
	claims := l.claims()
	if len(claims) != 1 {
		t.Fatalf("%d claims, want one: that of the pod that needs no large type", len(claims))
	}
	if got := claims[0].Spec.Requirements; got[len(got)-1].Key != corev1.LabelInstanceTypeStable || len(got[len(got)-1].Values) != 1 || got[len(got)-1].Values[0] != "small" {
		t.Errorf("requirements %v, want only the type that has capacity", got)
	}
	if !l.emitted.Saw("big FailedScheduling", "out of capacity at present: large") {
		t.Errorf("the pod that waits does not hear why: %q", l.emitted.Said)
	}
}
