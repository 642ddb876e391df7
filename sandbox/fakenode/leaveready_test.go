package fakenode

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A test that sets Ready says for how long the kubelet leaves it alone; afterwards it reports again.
func TestTrust_D04_AKubeletLeavesReadyAloneForTheGivenTime(t *testing.T) {
	t.Parallel()
	until := epoch.Add(time.Minute).Format(time.RFC3339)
	for name, tc := range map[string]struct {
		annotation string
		after      time.Duration
		reports    bool
		again      time.Duration
	}{
		"nothing is requested":     {reports: true},
		"until a minute from now":  {annotation: until, again: time.Minute},
		"at the end of the minute": {annotation: until, after: time.Minute, reports: true},
		"always":                   {annotation: "always", after: 24 * time.Hour},
		"not a time":               {annotation: "soon", reports: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := registeredFacts()
			f.wall = epoch.Add(tc.after)
			f.node.Annotations[LeaveReadyAnnotation] = tc.annotation
			f.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: faultReason}}
			touched := false
			for _, change := range conditionsPatch(f.node.Status.Conditions, reportedConditions(f, f.node, true)) {
				switch c := change.(type) {
				case corev1.NodeCondition:
					touched = touched || c.Type == corev1.NodeReady
				case map[string]any:
					touched = touched || c["type"] == corev1.NodeReady
				}
			}
			if touched != tc.reports {
				t.Errorf("Ready is written: %v, want %v", touched, tc.reports)
			}
			if leaves, left := leavesReady(f.node, f.wall); leaves == tc.reports || leaves && left != tc.again {
				t.Errorf("left alone: %v for %s, want %v for %s", leaves, left, !tc.reports, tc.again)
			}
		})
	}
}
