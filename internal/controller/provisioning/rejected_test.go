package provisioning_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// One pod that the planner gets wrong must not keep the others waiting.
func TestTrust_C03_OneRejectedPlanDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.CheckPlansWith(func(p solve.Problem, plan solve.Plan) []check.Violation {
		found := check.Plan(p, plan)
		for _, n := range plan.Create {
			for _, key := range n.Pods {
				if key.Name == "villain" {
					found = append(found, check.Violation{Code: check.SpreadUnmet, Subject: "pod/" + key.String(), Want: "a", Have: "b"})
				}
			}
		}
		return found
	})
	l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("villain", "1"), controllertest.PendingPod("honest", "1"))
	l.Pass(t.Context())
	claims := &karpv1.NodeClaimList{}
	if err := l.client.List(t.Context(), claims); err != nil {
		t.Fatal(err)
	}
	if len(claims.Items) != 1 || !l.emitted.Saw("honest Nominated") {
		t.Errorf("%d claims, told %q", len(claims.Items), l.emitted.Said)
	}
	if !l.emitted.Saw("villain FailedScheduling", "left out, because a plan with it broke a rule: pod/default/villain: SpreadUnmet") {
		t.Errorf("the pod to blame was told %q", l.emitted.Said)
	}
	if n := testutil.ToFloat64(l.metrics.SchedulerRejectedPlans.WithLabelValues("provisioner", "SpreadUnmet")); n != 2 {
		t.Errorf("%v rejected plans counted, want both ways to plan", n)
	}
	if strings.Contains(strings.Join(l.emitted.Said, "\n"), "honest FailedScheduling") {
		t.Errorf("reported %q", l.emitted.Said)
	}
}
