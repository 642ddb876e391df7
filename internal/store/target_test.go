package store

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// selecting is a pod that mounts a claim for a volume, and that claim, which is to be made for a node.
func selecting(node string, change ...func(*corev1.PersistentVolumeClaim)) (*corev1.Pod, *corev1.PersistentVolumeClaim) {
	pod := podObject("w1", "")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", Annotations: map[string]string{selectedNode: node}}}
	for _, apply := range change {
		apply(claim)
	}
	return pod, claim
}

func nominated(name, node string) *corev1.Pod {
	pod := podObject(name, "")
	pod.Status.NominatedNodeName = node
	return pod
}

// A pod that the scheduler is about to bind to a node takes room there, and the node is not empty: others are
// preempted for the pod, or a volume is made for it. When nothing comes of it the pod waits like any other.
func TestTrust_A06_PodsOnTheirWayCountAsBound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do      func(*Store)
		seated  bool // the pod counts on ip-1
		waiting bool // the pod needs a plan
	}{
		"nominated": {do: func(s *Store) { s.feedObject(nominated("w1", "ip-1"), false) }, seated: true},
		"nominated before the node": {do: func(s *Store) {
			s.feedObject(nodeObject("ip-1", "aws:///a/i-1", true), true)
			s.feedObject(nominated("w1", "ip-1"), false)
			joined(s, "general-x")
		}, seated: true},
		"nominated elsewhere":   {do: func(s *Store) { s.feedObject(nominated("w1", "ip-9"), false) }, waiting: true},
		"nomination taken back": {do: func(s *Store) { s.feedObject(nominated("w1", "ip-1"), false); s.feedObject(podObject("w1", ""), false) }, waiting: true},
		"the node is gone": {do: func(s *Store) {
			s.feedObject(nominated("w1", "ip-1"), false)
			s.feedObject(nodeObject("ip-1", "aws:///a/i-1", true), true)
		}, waiting: true},
		"the pod is gone": {do: func(s *Store) {
			s.feedObject(nominated("w1", "ip-1"), false)
			s.feedObject(nominated("w1", "ip-1"), true)
		}},
		"the pod goes": {do: func(s *Store) { s.feedObject(deleted(nominated("w1", "ip-1")), false) }},
		"bound there": {do: func(s *Store) {
			s.feedObject(nominated("w1", "ip-1"), false)
			s.feedObject(podObject("w1", "ip-1"), false)
		}, seated: true},
		"bound elsewhere": {do: func(s *Store) {
			s.feedObject(nominated("w1", "ip-1"), false)
			s.feedObject(podObject("w1", "ip-2"), false)
		}},
		"a volume is made for it":   {do: func(s *Store) { feedAll(s, selecting)("ip-1") }, seated: true},
		"the claim comes after it":  {do: func(s *Store) { pod, claim := selecting("ip-1"); s.feedObject(pod, false); s.feedObject(claim, false) }, seated: true},
		"the volume cannot be made": {do: func(s *Store) { feedAll(s, selecting)("ip-1"); _, claim := selecting(""); s.feedObject(claim, false) }, waiting: true},
		"a volume that is there": {do: func(s *Store) {
			feedAll(s, selecting)("ip-1", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv-1" })
		}, waiting: true},
		"a volume on a node that left": {do: func(s *Store) { feedAll(s, selecting)("ip-9") }, waiting: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			s.feedObject(poolObject("general"), false)
			joined(s, "general-x")
			tc.do(s)
			view, onNode := s.Snapshot(testTypes()), 0
			for i := range view.Nodes {
				if view.Nodes[i].Name == "ip-1" {
					onNode = len(view.Nodes[i].Pods)
				}
			}
			if seated := onNode == 1; seated != tc.seated {
				t.Errorf("counts on its node: %v, want %v", seated, tc.seated)
			}
			if waiting := s.Waiting() == 1; waiting != tc.waiting {
				t.Errorf("waits for a plan: %v, want %v", waiting, tc.waiting)
			}
			for _, n := range s.Disruption(testTypes()).Nodes {
				if (len(n.Pods) == 1) != tc.seated {
					t.Errorf("pods that disruption sees on %s: %v", n.Name, n.Pods)
				}
			}
		})
	}
}

func deleted(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp = new(metav1.NewTime(now()))
	return p
}

// feedAll feeds a claim for a volume and then its pod.
func feedAll(s *Store, objects func(string, ...func(*corev1.PersistentVolumeClaim)) (*corev1.Pod, *corev1.PersistentVolumeClaim)) func(string, ...func(*corev1.PersistentVolumeClaim)) {
	return func(node string, change ...func(*corev1.PersistentVolumeClaim)) {
		pod, claim := objects(node, change...)
		s.feedObject(claim, false)
		s.feedObject(pod, false)
	}
}

// A node that a pod is about to be bound to is not disrupted, except to repair it, whichever component nominated the pod
// may have dropped it.
func TestTrust_A06_NodesOfSuchPodsStay(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	s.feedObject(poolObject("general"), false)
	joined(s, "general-x")
	s.feedObject(nominated("w1", "ip-1"), false)
	if n := s.Disruption(testTypes()).Nodes[0]; !n.ExpectsDisplaced || n.Nominated {
		t.Errorf("expects displaced pods %v, nominated %v; want displaced pods only", n.ExpectsDisplaced, n.Nominated)
	}
	s.feedObject(podObject("w1", "ip-1"), false)
	if n := s.Disruption(testTypes()).Nodes[0]; n.ExpectsDisplaced || n.Nominated {
		t.Error("the node still expects displaced pods although its pod is there")
	}
}

// A nomination that the scheduler does not follow is trusted for some time, and for as long as pods on the node end. Then
// the pod is planned for.
func TestTrust_A06_NominationsLapse(t *testing.T) {
	t.Parallel()
	clock := now()
	o := testOptions()
	o.Now = func() time.Time { return clock }
	s := New(o)
	s.feedObject(poolObject("general"), false)
	joined(s, "general-x")
	victim := podObject("w2", "ip-1")
	s.feedObject(deleted(victim), false)
	s.feedObject(nominated("w1", "ip-1"), false)
	clock = clock.Add(2 * targetTimeout)
	if got := s.Waiting(); got != 0 {
		t.Fatalf("%d pods wait while a victim ends, want none", got)
	}
	s.feedObject(victim, true)
	if got := s.Snapshot(testTypes()).Pods; len(got) != 1 || got[0].Key != (cluster.PodKey{Namespace: "default", Name: "w1"}) {
		t.Fatalf("pods that need a place: %v, want w1", got)
	}
	if got := s.Waiting(); got != 1 {
		t.Errorf("%d pods wait, want 1", got)
	}
	s.feedObject(nominated("w1", "ip-1"), false) // reported again, for another reason
	if got := s.Waiting(); got != 1 {
		t.Errorf("%d pods wait after the same nomination, want 1", got)
	}
}

// The pods that a claim was made for are those that the last plan put there, still wait, and have no nomination.
func TestTrust_A03_Nominees(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	s.feedObject(poolObject("general"), false)
	var keys []cluster.PodKey
	for _, name := range []string{"w5", "w4", "w3", "w2", "w1"} {
		s.feedObject(podObject(name, ""), false)
		keys = append(keys, cluster.PodKey{Namespace: "default", Name: name})
	}
	s.RecordCreatedClaim(claimObject("general-x", "", false), keys)
	joined(s, "general-x")
	s.feedObject(claimObject("general-y", "", false), false)
	s.RecordPlannedNode(keys[0], "general-y")    // planned elsewhere since
	s.feedObject(podObject("w4", "ip-2"), false) // bound
	s.feedObject(nominated("w3", "ip-9"), false) // the scheduler preempts others for it
	var got []string
	for _, p := range s.Nominees("general-x") {
		got = append(got, p.Name)
	}
	compare(t, "nominees", []string{"w1", "w2"}, got)
}

// Pods that were planned for are counted when they are bound, once, by whether they are where they should be.
// A pod that was nominated keeps its reservation.
func TestTrust_A03_LandedElsewhereIsCounted(t *testing.T) {
	t.Parallel()
	counts := map[bool]int{}
	o := testOptions()
	o.OnBound = func(asPlanned bool) { counts[asPlanned]++ }
	s := New(o)
	s.feedObject(poolObject("general"), false)
	var keys []cluster.PodKey
	for _, name := range []string{"w1", "w2", "w3"} {
		s.feedObject(podObject(name, ""), false)
		keys = append(keys, cluster.PodKey{Namespace: "default", Name: name})
	}
	s.RecordCreatedClaim(claimObject("general-x", "", false), keys)
	joined(s, "general-x")
	s.feedObject(nominated("w1", "ip-1"), false)
	s.Snapshot(testTypes())
	for range 2 {
		s.feedObject(podObject("w1", "ip-1"), false)
		s.feedObject(podObject("w2", "ip-2"), false)
		s.feedObject(podObject("w9", "ip-1"), false) // not planned for
	}
	s.feedObject(podObject("w3", ""), true)
	compare(t, "landed", map[bool]int{true: 1, false: 1}, counts)
}
