package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

func ailments(t *testing.T) *lifecycle.Ailments {
	t.Helper()
	a, err := lifecycle.NewAilments([]cloud.Repair{
		{Condition: "Ready", Status: "False", Toleration: 30 * time.Minute, Action: cloud.ReplaceNode},
		{Condition: "DiskReady", Status: "False", ReasonRegex: "Bad", Toleration: 10 * time.Minute, Action: cloud.ReplaceNode, Priority: 100},
		{Condition: "GPUReady", Status: "False", Toleration: time.Minute, Action: cloud.RebootNode},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func nodeWithConditions(conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{Status: corev1.NodeStatus{Conditions: conditions}}
}

func ail(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string, since time.Duration) corev1.NodeCondition {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(-since)
	return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(at)}
}

// LC-41, V15-33: what counts in the mode of old, and when.
func TestAilmentsDue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"healthy":                         {node: nodeWithConditions(ail("Ready", "True", "", time.Hour))},
		"an empty regex is any reason":    {node: nodeWithConditions(ail("Ready", "False", "Odd", 10*time.Minute)), want: "Ready in 20m0s"},
		"a regex must match":              {node: nodeWithConditions(ail("DiskReady", "False", "Odd", time.Hour))},
		"it does":                         {node: nodeWithConditions(ail("DiskReady", "False", "VeryBad", time.Minute)), want: "DiskReady in 9m0s"},
		"reboot policies are left out":    {node: nodeWithConditions(ail("GPUReady", "False", "", time.Hour))},
		"the one due first, not the dear": {node: nodeWithConditions(ail("DiskReady", "False", "Bad", 0), ail("Ready", "False", "", 25*time.Minute)), want: "Ready in 5m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if condition, at, unhealthy := ailments(t).Due(tc.node); unhealthy {
				got = fmt.Sprintf("%s in %s", condition, at.Sub(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// LC-42: a fifth, rounded up.
func TestAilmentsTooMany(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		nodes, unhealthy int
		stop             bool
	}{{1, 1, false}, {3, 1, false}, {3, 2, true}, {5, 1, false}, {5, 2, true}, {6, 2, false}, {20, 4, false}, {20, 5, true}} {
		var nodes []*corev1.Node
		for i := range tc.nodes {
			n := nodeWithConditions()
			if i < tc.unhealthy {
				n = nodeWithConditions(ail("Ready", "False", "", 0))
			}
			nodes = append(nodes, n)
		}
		if count, stop := ailments(t).TooMany(nodes); count != tc.unhealthy || stop != tc.stop {
			t.Errorf("%d of %d: counted %d, stop %v", tc.unhealthy, tc.nodes, count, stop)
		}
	}
}

// V15-33: a regex that does not compile is an error at start.
func TestAilmentsAreChecked(t *testing.T) {
	t.Parallel()
	if _, err := lifecycle.NewAilments([]cloud.Repair{{Condition: "A", ReasonRegex: "(", Action: cloud.ReplaceNode}}); err == nil {
		t.Error("accepted")
	}
	if _, err := lifecycle.NewAilments([]cloud.Repair{{Condition: "A", ReasonRegex: "(", Action: cloud.RebootNode}}); err != nil {
		t.Errorf("a policy that is left out anyway: %v", err)
	}
}
