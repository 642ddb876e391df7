package store

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reboot"
)

// V15-30: reboots count for 24 hours, each for its own claim.
func TestRebootsCountForADay(t *testing.T) {
	t.Parallel()
	at := now()
	o := testOptions()
	o.Now = func() time.Time { return at }
	s := New(o)
	s.feedObject(poolObject("general"), false)
	joined(s, "general-x")
	uid := s.claims["general-x"].UID
	count := func() int { return s.Disruption(testTypes()).Nodes[0].Reboots }
	if n := count(); n != 0 {
		t.Errorf("%d reboots before the first", n)
	}
	s.Rebooted(uid)
	s.Rebooted("another")
	at = at.Add(23 * time.Hour)
	s.Rebooted(uid)
	if n := count(); n != 2 {
		t.Errorf("%d reboots in the last day, want 2", n)
	}
	at = at.Add(time.Hour)
	if n := count(); n != 1 {
		t.Errorf("%d reboots after the first is a day old, want 1", n)
	}
	s.Rebooted(uid)
	if n := count(); n != 2 {
		t.Errorf("%d reboots, want 2", n)
	}
	if _, kept := s.reboots["another"]; kept {
		t.Error("a claim that is long gone is kept")
	}
	at = at.Add(48 * time.Hour)
	if n := count(); n != 0 {
		t.Errorf("%d reboots days later", n)
	}
}

// V15-42: a node that is to be rebooted keeps offering its room, so that pods that leave it cause no other
// node. If its drain does not end they would wait for it forever, and it for them: a PodDisruptionBudget may
// let no other pod go before they run.
func TestV15_42_RoomOfANodeWhoseRebootWaits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		after  time.Duration
		offers bool
	}{
		"pods are leaving":           {cluster.RebootRequested, time.Minute, true},
		"they do not leave":          {cluster.RebootRequested, rebootTimeout, false},
		"it boots, however long ago": {reboot.Issued, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := now()
			o := testOptions()
			o.Now = func() time.Time { return at }
			s := New(o)
			s.feedObject(poolObject("general"), false)
			claim, node := claimObject("general-x", "aws:///a/i-1", true), nodeObject("n1", "aws:///a/i-1", true)
			claim.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionRebooting, Status: metav1.ConditionTrue, Reason: tc.reason, LastTransitionTime: metav1.NewTime(at)}}
			node.Spec.Taints = []corev1.Taint{karpv1.RebootingTaint()}
			s.feedObject(claim, false)
			s.feedObject(node, false)
			if n := s.Snapshot(testTypes()).Nodes[0]; len(n.Taints) > 0 {
				t.Fatalf("at first: taints %v", n.Taints)
			}
			at = at.Add(tc.after)
			if n := s.Snapshot(testTypes()).Nodes[0]; (len(n.Taints) == 0) != tc.offers {
				t.Errorf("taints %v, want its room to be offered: %v", n.Taints, tc.offers)
			}
		})
	}
}
