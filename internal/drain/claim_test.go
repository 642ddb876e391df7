package drain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

func TestNextClaim(t *testing.T) {
	t.Parallel()
	unregistered := func(c *karpv1.NodeClaim) { c.Status.Conditions = nil }
	gone := node()
	alive := node(func(n *corev1.Node) { n.Name, n.DeletionTimestamp = "m", nil })
	held := node(func(n *corev1.Node) { n.Finalizers = []string{"example.com/backup"} })
	marks := []drain.Mark{{Type: karpv1.ConditionInstanceTerminating, Status: metav1.ConditionTrue}}
	for name, tc := range map[string]struct {
		facts drain.ClaimFacts
		now   time.Duration
		want  drain.ClaimStep
	}{
		"LC-15.5 L14 never launched":                              {facts: drain.ClaimFacts{Claim: claim(unregistered)}, want: drain.ClaimStep{Release: true}},
		"FM A06 its instance is being launched":                   {facts: drain.ClaimFacts{Claim: claim(unregistered, period("1h")), Launching: true}, want: drain.ClaimStep{After: time.Second}},
		"LC-15.6 launched, not registered: no drain":              {facts: drain.ClaimFacts{Claim: claim(unregistered), Launched: true, Nodes: []*corev1.Node{alive}}, want: drain.ClaimStep{Terminate: true}},
		"LC-21 registered: nodes are deleted":                     {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Nodes: []*corev1.Node{gone, alive}}, want: drain.ClaimStep{DeleteNodes: []*corev1.Node{alive}, After: 5 * time.Second}},
		"LC-21 and waited for":                                    {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Nodes: []*corev1.Node{gone}}, want: drain.ClaimStep{After: 5 * time.Second}},
		"LC-22 L12 crash point 17: the node is gone":              {facts: drain.ClaimFacts{Claim: claim(), Launched: true}, want: drain.ClaimStep{Terminate: true}},
		"LC-22 accepted":                                          {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Instance: drain.Ending, Accepted: start}, want: drain.ClaimStep{Marks: marks, After: time.Second}},
		"LC-22 E02 not called again within five seconds":          {facts: drain.ClaimFacts{Claim: claim(terminating), Launched: true, Accepted: after(time.Minute)}, now: 61 * time.Second, want: drain.ClaimStep{After: 4 * time.Second}},
		"Trust A10 the condition is written if it was not":        {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Accepted: start}, now: 400 * time.Millisecond, want: drain.ClaimStep{Marks: marks, After: 600 * time.Millisecond}},
		"Trust A10 others hold the Node":                          {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Nodes: []*corev1.Node{held}}, want: drain.ClaimStep{Query: true, After: 5 * time.Second}},
		"Trust A10 of an instance that is gone":                   {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Nodes: []*corev1.Node{held}, Instance: drain.Gone}, want: drain.ClaimStep{Marks: marks, After: 5 * time.Second}},
		"Trust A10 of an instance that is there":                  {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Nodes: []*corev1.Node{held}, Instance: drain.Present}, want: drain.ClaimStep{After: 5 * time.Second}},
		"Trust A10 of an instance that is known to end":           {facts: drain.ClaimFacts{Claim: claim(terminating), Launched: true, Nodes: []*corev1.Node{held}}, want: drain.ClaimStep{After: 5 * time.Second}},
		"LC-22 called again":                                      {facts: drain.ClaimFacts{Claim: claim(), Launched: true, Accepted: start}, now: 5 * time.Second, want: drain.ClaimStep{Terminate: true}},
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
			if reported := len(got.Events) == 1; reported != (tc.want.Stamp != "") {
				t.Errorf("events %+v, want one exactly when a deadline is written", got.Events)
			}
		})
	}
}

// FM A06: which instance is ended with a claim.
func TestFM_A06_InstanceOfAClaim(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status         string
		launched, want cloud.ID
	}{
		"nothing was launched":           {},
		"the status says it":             {status: "i-1", want: "i-1"},
		"the status does not say it yet": {launched: "i-1", want: "i-1"},
		"the status wins":                {status: "i-1", launched: "i-2", want: "i-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := drain.InstanceOf(&karpv1.NodeClaim{Status: karpv1.NodeClaimStatus{ProviderID: tc.status}}, tc.launched); got != tc.want {
				t.Errorf("%q is ended, want %q", got, tc.want)
			}
		})
	}
}

// G13: a claim whose instance the cloud does not terminate says so once a call had time to work when it is repeated,
// and what it said stays for a minute.
func TestG13_AnInstanceThatStays(t *testing.T) {
	t.Parallel()
	unregistered := func(c *karpv1.NodeClaim) { c.Status.Conditions = nil }
	saying := func(c *karpv1.NodeClaim) {
		with(karpv1.ConditionInstanceTerminating, metav1.ConditionUnknown, drain.Throttled, 15*time.Second)(c)
		c.Status.Conditions[len(c.Status.Conditions)-1].Message = "waits since then"
	}
	for name, tc := range map[string]struct {
		claim     *karpv1.NodeClaim
		now, said time.Duration
		state     drain.State
		reason    string
		since     time.Duration
		wait      string // part of it; empty: none is reported
		mark      string // part of the message; empty: the condition is left as it is
	}{
		"a moment":                                  {claim: claim(unregistered), now: 14 * time.Second, state: drain.Staying},
		"a while":                                   {claim: claim(unregistered), now: 15 * time.Second, state: drain.Staying, reason: drain.TerminationFailed, wait: "the cloud does not terminate the instance: no (aws:///a/i-1); the request is repeated", mark: "waits since 2026-03-01T12:00:00Z: the cloud does not terminate the instance"},
		"counted from when the node was empty":      {claim: claim(drained), now: 15 * time.Second, state: drain.Staying},
		"and told since then":                       {claim: claim(drained), now: 16 * time.Second, state: drain.Staying, reason: drain.Unauthorized, since: time.Second, wait: "give the controller the permission", mark: "waits since 2026-03-01T12:00:01Z"},
		"something new waits for a minute":          {claim: claim(unregistered, saying), now: 2 * time.Minute, said: 90 * time.Second, state: drain.Staying, reason: drain.Unauthorized, wait: "give the controller", mark: "waits since then"},
		"and is said then":                          {claim: claim(unregistered, saying), now: 3 * time.Minute, said: 90 * time.Second, state: drain.Staying, reason: drain.Unauthorized, wait: "give the controller", mark: "the cloud does not terminate"},
		"one that was to end stays so":              {claim: claim(terminating), now: time.Minute, state: drain.Staying, reason: drain.Throttled, since: time.Second, wait: "when the rate limit allows it"},
		"one that ends":                             {claim: claim(terminating), now: time.Minute, state: drain.NotQueried},
		"one that has been ending for ever so long": {claim: claim(terminating), now: 6 * time.Minute, state: drain.NotQueried, since: time.Second, wait: "the cloud accepted the termination, but the instance still exists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := drain.ClaimFacts{Claim: tc.claim, Launched: true, Instance: tc.state, Refusal: drain.Refusal{Reason: tc.reason, Text: "no"}, Accepted: after(tc.now), Now: after(tc.now)}
			if tc.said > 0 {
				f.Said = after(tc.said)
			}
			step := drain.NextClaim(f)
			if reported := len(step.Waits) == 1; reported != (tc.wait != "") || reported &&
				(step.Waits[0].Cause != drain.InstanceStays || step.Waits[0].Since.Sub(start) != tc.since || !strings.Contains(step.Waits[0].Text(), tc.wait)) {
				t.Errorf("waits %+v, want %q since %s", step.Waits, tc.wait, tc.since)
			}
			if marked := len(step.Marks) == 1; marked != (tc.mark != "") || marked &&
				(step.Marks[0].Status != metav1.ConditionUnknown || step.Marks[0].Reason != tc.reason || !strings.Contains(step.Marks[0].Message, tc.mark)) {
				t.Errorf("marks %+v, want %s and %q", step.Marks, tc.reason, tc.mark)
			}
			if step.Terminate || step.Release {
				t.Errorf("terminate %t, release %t", step.Terminate, step.Release)
			}
		})
	}
}
