package store

import (
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FM D13: heartbeats of nodes request no plan, and what was read of a node stays read.
func TestFM_D13_HeartbeatsChangeNothing(t *testing.T) {
	t.Parallel()
	woken := 0
	o := testOptions()
	o.Wake = func(types.UID) { woken++ }
	s := New(o)
	node := nodeObject("ip-1", "aws:///a/i-1", true)
	for _, obj := range []client.Object{poolObject("general"), claimObject("general-1", "aws:///a/i-1", true), node, podObject("w1", "ip-1")} {
		s.feedObject(obj, false)
	}
	s.Snapshot(testTypes())
	place := s.places[s.placeKeys["ip-1"]]
	if !place.valid {
		t.Fatal("a snapshot does not keep what it read of a node")
	}
	for i := range 100 {
		beat := node.DeepCopy()
		beat.ResourceVersion = string(rune('a' + i))
		beat.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(now().Add(time.Duration(i) * time.Second)),
		}}
		s.feedObject(beat, false)
	}
	if woken > 0 {
		t.Errorf("%d plans were requested by heartbeats", woken)
	}
	if !place.valid || s.places[s.placeKeys["ip-1"]] != place {
		t.Error("a heartbeat has the node read again")
	}
	grown := node.DeepCopy()
	grown.Status.Allocatable = amounts("1900m", "14Gi")
	if s.feedObject(grown, false); place.valid {
		t.Error("a change of what the node holds goes unseen")
	}
}

// FM D15: a snapshot stays as it was cut while nodes and pods come and go. The race detector sees whether
// anything is shared.
func TestFM_D15_SnapshotsAreFrozen(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	objects := []client.Object{poolObject("general"), claimObject("general-1", "aws:///a/i-1", true), nodeObject("ip-1", "aws:///a/i-1", true), podObject("w1", "ip-1")}
	for _, obj := range objects {
		s.feedObject(obj, false)
	}
	view := s.Snapshot(testTypes())
	var others sync.WaitGroup
	others.Go(func() {
		for range 50 {
			for _, obj := range objects {
				s.feedObject(obj, true)
			}
			s.Snapshot(testTypes())
			for _, obj := range objects {
				s.feedObject(obj, false)
			}
		}
		for _, obj := range objects {
			s.feedObject(obj, true)
		}
	})
	for range 1000 {
		if len(view.Nodes) != 1 || view.Nodes[0].Name != "ip-1" || len(view.Nodes[0].Pods) != 1 || view.Nodes[0].Pods[0].Key.Name != "w1" {
			t.Fatalf("the snapshot changed: %+v", view.Nodes)
		}
	}
	others.Wait()
	if now := s.Snapshot(testTypes()); len(now.Nodes) > 0 {
		t.Errorf("nodes %+v are left of none", now.Nodes)
	}
}

// FM A13: a pod waits for the claim that was made for it and altered on the way, also once its node is up,
// and no longer than the claim exists.
func TestFM_A13_PodsWaitForAlteredClaims(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	w1 := podKey{Namespace: "default", Name: "w1"}
	s.feedObject(poolObject("general"), false)
	s.feedObject(podObject("w1", ""), false)
	claim := claimObject("general-x", "aws:///a/i-1", true)
	s.RecordCreatedClaim(claim, []podKey{w1})
	s.RecordAlteredClaim(claim.Name)
	waits := func(when string, want int) {
		t.Helper()
		if got := len(s.Snapshot(testTypes()).Pods); got != want {
			t.Errorf("%s: %d pods to place, want %d", when, got, want)
		}
	}
	waits("in flight", 0)
	s.feedObject(claim, false)
	s.feedObject(nodeObject("ip-1", "aws:///a/i-1", true), false)
	waits("the node is up", 0)
	if view := s.Disruption(testTypes()); len(view.Nodes) != 1 || !view.Nodes[0].Nominated {
		t.Errorf("nodes %+v, want one that is reserved: it would be launched again", view.Nodes)
	}
	s.feedObject(podObject("w2", ""), false)
	waits("another pod", 1)
	s.feedObject(podObject("w1", ""), true)
	again := podObject("w1", "")
	again.UID = "pod-again"
	s.feedObject(again, false)
	waits("another pod of the same name", 2)
}

// FM A13: when the claim goes, its pods are planned for again.
func TestFM_A13_AlteredClaimGoes(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	s.feedObject(poolObject("general"), false)
	s.feedObject(podObject("w1", ""), false)
	claim := claimObject("general-x", "", false)
	s.RecordCreatedClaim(claim, []podKey{{Namespace: "default", Name: "w1"}})
	s.RecordAlteredClaim(claim.Name)
	if pods := s.Snapshot(testTypes()).Pods; len(pods) != 0 {
		t.Fatalf("%d pods to place, want none", len(pods))
	}
	going := claim.DeepCopy()
	going.DeletionTimestamp = new(metav1.NewTime(now()))
	s.feedObject(going, false)
	if pods := s.Snapshot(testTypes()).Pods; len(pods) != 1 {
		t.Errorf("%d pods to place while the claim goes, want one", len(pods))
	}
	s.feedObject(going, true)
	if pods := s.Snapshot(testTypes()).Pods; len(pods) != 1 || len(s.altered) > 0 {
		t.Errorf("%d pods to place after the claim, want one; kept %v", len(pods), s.altered)
	}
}
