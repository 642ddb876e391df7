package flow_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
)

// The world of the flows itself: the controller works through the proxy, can be killed at a step, and comes
// back.
func TestControllerIsKilledAtAStepAndComesBack(t *testing.T) {
	t.Parallel()
	f := newFlow(t, killsController)
	starts := f.controller.Starts()
	fired := f.killAt(apiproxy.Match{Verb: "patch", Resource: "nodepools*", Name: f.name}, apiproxy.BeforeResponse)
	first := f.pool("")
	f.waitUntilKilled(fired)
	f.waitForCondition(first, karpv1.ConditionValidationSucceeded, metav1.ConditionTrue, "")
	second := f.pool("-b")
	f.waitForCondition(second, karpv1.ConditionValidationSucceeded, metav1.ConditionTrue, "")
	if now := f.controller.Starts(); now <= starts {
		t.Errorf("the controller was started %d times before and after", now)
	}
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1, restartLimit)
}
