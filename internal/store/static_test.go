package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// LC-47, FM M03: what the size of a pool is decided on is in memory, claims in flight included.
func TestLoads(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	s.feedObject(poolObject("general"), false)
	for _, name := range []string{"empty", "busy", "guarded", "held"} {
		s.feedObject(claimObject("general-"+name, "aws:///"+name, true), false)
		s.feedObject(nodeObject(name, "aws:///"+name, true), false)
	}
	daemon := podObject("d", "empty")
	daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d"}}
	guarded := podObject("g", "guarded")
	guarded.OwnerReferences, guarded.Annotations = daemon.OwnerReferences, map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}
	s.feedObject(daemon, false)
	s.feedObject(guarded, false)
	s.feedObject(podObject("w1", "busy"), false)
	s.feedObject(podObject("w2", "busy"), false)
	s.RecordCreatedClaim(claimObject("general-new", "", false), nil)
	s.SetCommanded("held", true)
	want := map[string]cluster.ClaimLoad{
		"general-empty": {}, "general-busy": {Pods: true, Cost: 2}, "general-guarded": {Protected: true}, "general-held": {Held: true}, "general-new": {},
	}
	if diff := cmp.Diff(want, s.Loads("general")); diff != "" {
		t.Errorf("loads (-want +got):\n%s", diff)
	}
	going := claimObject("general-empty", "aws:///empty", true)
	going.DeletionTimestamp = new(metav1.NewTime(now()))
	s.feedObject(going, false)
	if n := s.Claims("general"); n != 5 {
		t.Errorf("%d claims, want 5: one that goes still counts", n)
	}
	if n := s.Claims("other"); n != 0 || len(s.Loads("other")) != 0 {
		t.Errorf("%d claims of a pool that has none", n)
	}
}

// LC-62: a pod that carries do-not-evict is seen as protected by everything that chooses nodes, and so is
// a node with do-not-consolidate.
func TestLC62_OldAnnotationsProtect(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	s.feedObject(poolObject("general"), false)
	joined(s, "general-x")
	pod := podObject("w1", "ip-1")
	pod.Annotations = map[string]string{karpv1.AnnotationDoNotEvict: "true"}
	s.feedObject(pod, false)
	n := s.Disruption(testTypes()).Nodes[0]
	if p := n.Pods[0]; p.ProtectedBy != karpv1.AnnotationDoNotEvict || n.ProtectedBy != "" {
		t.Errorf("pod is %+v", p)
	}
	if !s.Loads("general")["general-x"].Protected {
		t.Error("scale-down of a static pool does not see it")
	}
	for _, key := range []string{karpv1.AnnotationDoNotEvict, karpv1.AnnotationDoNotConsolidate} {
		node := nodeObject("ip-1", "aws:///a/i-1", true)
		node.Annotations = map[string]string{key: "true"}
		s.feedObject(node, false)
		if n := s.Disruption(testTypes()).Nodes[0]; n.ProtectedBy != key {
			t.Errorf("node with %s is protected by %q", key, n.ProtectedBy)
		}
	}
}
