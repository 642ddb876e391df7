package drain_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

func TestNextClaim(t *testing.T) {
	t.Parallel()
	unregistered := func(c *karpv1.NodeClaim) { c.Status.Conditions = nil }
	gone := node()
	alive := node(func(n *corev1.Node) { n.Name, n.DeletionTimestamp = "m", nil })
	marks := []drain.Mark{{Type: karpv1.ConditionInstanceTerminating, Status: metav1.ConditionTrue}}
	for name, tc := range map[string]struct {
		facts drain.ClaimFacts
		now   time.Duration
		want  drain.ClaimStep
	}{
		"LC-15.5 L14 never launched":                              {facts: drain.ClaimFacts{Claim: claim(unregistered)}, want: drain.ClaimStep{Release: true}},
		"LC-15.6 launched, not registered: no drain":              {facts: drain.ClaimFacts{Claim: claim(unregistered), Launched: true, Nodes: []*corev1.Node{alive}}, want: drain.ClaimStep{Terminate: true}},
		"LC-21 registered: nodes are deleted":                     {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Nodes: []*corev1.Node{gone, alive}}, want: drain.ClaimStep{DeleteNodes: []*corev1.Node{alive}, After: 5 * time.Second}},
		"LC-21 and waited for":                                    {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Nodes: []*corev1.Node{gone}}, want: drain.ClaimStep{After: 5 * time.Second}},
		"LC-22 L12 crash point 17: the node is gone":              {facts: drain.ClaimFacts{Claim: claim(), Launched: true}, want: drain.ClaimStep{Terminate: true}},
		"LC-22 accepted":                                          {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Instance: drain.Ending, Told: start}, want: drain.ClaimStep{Marks: marks, After: 5 * time.Second}},
		"LC-22 E02 not asked again within five seconds":           {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Told: start}, now: time.Second, want: drain.ClaimStep{After: 4 * time.Second}},
		"LC-22 asked again":                                       {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Told: start}, now: 5 * time.Second, want: drain.ClaimStep{Terminate: true}},
		"LC-23 G3 gone":                                           {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Instance: drain.Gone}, want: drain.ClaimStep{Release: true}},
		"LC-20 the deadline is written":                           {facts: drain.ClaimFacts{Claim: claim(period("1h")), Nodes: []*corev1.Node{gone}}, now: time.Minute, want: drain.ClaimStep{Stamp: "2026-03-01T13:00:00Z", After: 5 * time.Second}},
		"LC-20 crash point 15: once":                              {facts: drain.ClaimFacts{Claim: claim(period("1h"), stamped("2026-03-01T12:00:01Z")), Nodes: []*corev1.Node{gone}}, now: time.Minute, want: drain.ClaimStep{After: 5 * time.Second}},
		"FM L18 garbage is replaced":                              {facts: drain.ClaimFacts{Claim: claim(period("1h"), stamped("?")), Nodes: []*corev1.Node{gone}}, want: drain.ClaimStep{Stamp: "2026-03-01T13:00:00Z", Unreadable: "?", After: 5 * time.Second}},
		"FM L18 garbage is taken off where nothing gives another": {facts: drain.ClaimFacts{Claim: claim(stamped("?")), Nodes: []*corev1.Node{gone}}, want: drain.ClaimStep{Unstamp: true, Unreadable: "?", After: 5 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.facts.Now = after(tc.now)
			got := drain.NextClaim(tc.facts)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(drain.ClaimStep{}, "Events")); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
			if told := len(got.Events) == 1; told != (tc.want.Stamp != "") {
				t.Errorf("events %+v, want one exactly when a deadline is written", got.Events)
			}
		})
	}
}
