package provisioning_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
)

// admit has claims created through a function, as admission does it.
func (l *fixture) admit(do func(claim *karpv1.NodeClaim) error) {
	l.Claims.Client = interceptor.NewClient(l.client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := do(obj.(*karpv1.NodeClaim)); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
	})
}

// FM A14, G12: admission denies claims of a pool. The next pass launches from another one, and the pool that
// is denied is left alone for a while.
func TestFM_A14_DeniedClaims(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	tries := 0
	l.admit(func(claim *karpv1.NodeClaim) error {
		if strings.HasPrefix(claim.Name, "first-") {
			tries++
			return apierrors.NewForbidden(karpv1.GroupVersion().WithResource("nodeclaims").GroupResource(), claim.Name, errors.New("not today"))
		}
		return nil
	})
	first := controllertest.ReadyPool("first")
	first.Spec.Weight = new(int32(90))
	l.add(first, controllertest.ReadyPool("next"), controllertest.PendingPod("web", "1"))
	for range 5 {
		l.Pass(t.Context())
	}
	if claims := l.claims(); len(claims) != 1 || claims[0].Labels[karpv1.LabelNodePool] != "next" {
		t.Errorf("%d claims, want one of the next pool", len(claims))
	}
	if tries != 1 {
		t.Errorf("%d claims were tried that are denied, want one", tries)
	}
}

// FM A13, G8: admission gives claims a taint. The pod that one was made for gets no other, and hears why;
// others are planned for as always.
func TestFM_A13_AlteredClaims(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.admit(func(claim *karpv1.NodeClaim) error {
		claim.Spec.Taints = append(claim.Spec.Taints, corev1.Taint{Key: "example.com/added", Effect: corev1.TaintEffectNoSchedule})
		return nil
	})
	l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("web", "1"))
	for range 5 {
		l.Pass(t.Context())
	}
	if claims := l.claims(); len(claims) != 1 {
		t.Fatalf("%d claims for one pod", len(claims))
	}
	if !l.emitted.Saw("web FailedScheduling", "spec.taints") {
		t.Errorf("the pod does not hear why it waits: %q", l.emitted.Said)
	}
	l.add(controllertest.PendingPod("other", "1"))
	for range 5 {
		l.Pass(t.Context())
	}
	if claims := l.claims(); len(claims) != 2 {
		t.Errorf("%d claims for two pods", len(claims))
	}
}

// RH-02, RH-03: a pool whose nodes do not register is backed off, and events of pods say so; among pools of equal weight it comes last.
func TestRH_02_UnhealthyPoolsRest(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	unhealthy := controllertest.ReadyPool("unhealthy") // before "other": names descend
	unhealthy.Status.Conditions = append(unhealthy.Status.Conditions, metav1.Condition{Type: karpv1.ConditionNodeRegistrationHealthy, Status: metav1.ConditionFalse})
	l.add(unhealthy, controllertest.PendingPod("web", "1"))
	l.LaunchBackoff.RecordUnhealthy("unhealthy", time.Now())
	l.Pass(t.Context())
	if len(l.claims()) != 0 || !l.emitted.Saw("web FailedScheduling", "its last nodes did not register") {
		t.Errorf("%d claims of a pool that rests; said %q", len(l.claims()), l.emitted.Said)
	}
	l.LaunchBackoff.RecordHealthy("unhealthy")
	l.Pass(t.Context())
	if claims := l.claims(); len(claims) != 1 || claims[0].Labels[karpv1.LabelNodePool] != "unhealthy" {
		t.Errorf("%d claims once the back-off is over, want one", len(claims))
	}
	l.add(controllertest.ReadyPool("other"), controllertest.PendingPod("huge", "6"))
	l.Pass(t.Context())
	if claims := l.claims(); len(claims) != 2 || !slices.ContainsFunc(claims, func(c karpv1.NodeClaim) bool { return c.Labels[karpv1.LabelNodePool] == "other" }) {
		t.Errorf("want a claim of the healthy pool: %d claims", len(claims))
	}
}
