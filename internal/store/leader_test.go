package store

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FM C17: the node that this controller runs on is left alone as long as no other replica could take over.
func TestFM_C17_TheLeadersOwnNode(t *testing.T) {
	t.Parallel()
	replica := func(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := podObject(name, node)
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "karpenter-1", UID: "rs-1", Controller: new(true)}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		for _, c := range change {
			c(p)
		}
		return p
	}
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		hold string // node of a running command
		want string // node that is left alone
	}{
		"alone":                       {pods: []*corev1.Pod{replica("k1", "ip-1")}, want: "ip-1"},
		"another replica is ready":    {pods: []*corev1.Pod{replica("k1", "ip-1"), replica("k2", "ip-2")}},
		"another replica starts":      {pods: []*corev1.Pod{replica("k1", "ip-1"), replica("k2", "ip-2", unready)}, want: "ip-1"},
		"says nothing of being ready": {pods: []*corev1.Pod{replica("k1", "ip-1"), replica("k2", "ip-2", func(p *corev1.Pod) { p.Status.Conditions = nil })}, want: "ip-1"},
		"another replica waits":       {pods: []*corev1.Pod{replica("k1", "ip-1"), replica("k2", "", unready)}, want: "ip-1"},
		"another replica is deleted":  {pods: []*corev1.Pod{replica("k1", "ip-1"), replica("k2", "ip-2", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now())) })}, want: "ip-1"},
		"both on one node":            {pods: []*corev1.Pod{replica("k1", "ip-1"), replica("k2", "ip-1")}, want: "ip-1"},
		"the other's node goes":       {pods: []*corev1.Pod{replica("k1", "ip-1"), replica("k2", "ip-2")}, hold: "ip-2", want: "ip-1"},
		"some other ready pod":        {pods: []*corev1.Pod{replica("k1", "ip-1"), replica("k2", "ip-2", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "rs-2" })}, want: "ip-1"},
		"of another namespace":        {pods: []*corev1.Pod{replica("k1", "ip-1"), replica("k2", "ip-2", func(p *corev1.Pod) { p.Namespace = "other" })}, want: "ip-1"},
		"it would not be replaced":    {pods: []*corev1.Pod{replica("k1", "ip-1", func(p *corev1.Pod) { p.OwnerReferences = nil }), replica("k2", "ip-2")}, want: "ip-1"},
		"runs on a node of others":    {pods: []*corev1.Pod{replica("k1", "ip-3")}},
		"is no pod that is known":     {pods: []*corev1.Pod{replica("k2", "ip-1")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := testOptions()
			o.Self = podKey{Namespace: "default", Name: "k1"}
			s := New(o)
			s.feedObject(poolObject("general"), false)
			joined(s, "general-a")
			s.feedObject(claimObject("general-b", "aws:///a/i-2", true), false)
			s.feedObject(nodeObject("ip-2", "aws:///a/i-2", true), false)
			s.feedObject(nodeObject("ip-3", "aws:///a/i-3", false), false)
			for _, p := range tc.pods {
				s.feedObject(p, false)
			}
			if tc.hold != "" {
				s.SetCommanded(tc.hold, true)
			}
			got := ""
			for _, n := range s.Disruption(testTypes()).Nodes {
				if n.Leading {
					got += n.Name
				}
			}
			if got != tc.want {
				t.Errorf("left alone: %q, want %q", got, tc.want)
			}
			loads := s.Loads("general")
			if claim := map[string]string{"ip-1": "general-a"}[tc.want]; loads["general-a"].Protected != (claim == "general-a") || loads["general-b"].Protected {
				t.Errorf("loads = %+v, want the leader's to be the last to go of a pool that shrinks", loads)
			}
		})
	}
	if got := New(testOptions()).unreplicatedLeaderNode(); got != "" {
		t.Errorf("a process that is no pod leaves %s alone", got)
	}
}
