package store

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Disruption 17: a node that is held is part of a command, and its pods need no place until it is marked.
// Then they are planned for where the command put them, and that place is reserved.
func TestHeldThenReplaced(t *testing.T) {
	t.Parallel()
	w1 := cluster.PodKey{Namespace: "default", Name: "w1"}
	s := New(testOptions())
	s.feedObject(poolObject("general"), false)
	joined(s, "general-x")
	s.feedObject(podObject("w1", "ip-1"), false)
	s.SetCommanded("ip-1", true)
	v := s.Disruption(testTypes())
	if n := v.Nodes[0]; !n.Commanded || n.BeingRemoved || len(v.PodsToPlace) > 0 {
		t.Errorf("held: commanded %v, going %v, %d pods without a place", n.Commanded, n.BeingRemoved, len(v.PodsToPlace))
	}
	s.feedObject(claimObject("general-y", "aws:///a/i-2", true), false)
	s.feedObject(nodeObject("ip-2", "aws:///a/i-2", true), false)
	s.Replace([]string{"ip-1"}, map[cluster.PodKey]string{w1: "ip-2"})
	v = s.Disruption(testTypes())
	if n := v.Nodes[0]; !n.BeingRemoved || len(v.PodsToPlace) != 1 {
		t.Errorf("marked: going %v, %d pods without a place", n.BeingRemoved, len(v.PodsToPlace))
	}
	if want := (solve.Bind{Pod: w1, Node: "ip-2"}); len(v.PlannedBinds) != 1 || v.PlannedBinds[0] != want || !v.Nodes[1].ExpectsDisplaced {
		t.Errorf("planned binds %+v, expects displaced pods %v", v.PlannedBinds, v.Nodes[1].ExpectsDisplaced)
	}
	s.feedObject(podObject("w1", "ip-1"), true)
	if v := s.Disruption(testTypes()); v.Nodes[1].ExpectsDisplaced || v.Nodes[1].Nominated {
		t.Error("the place is still reserved although the pod is gone")
	}
	s.SetCommanded("ip-1", false)
	s.SetRemoving("ip-1", false)
	if n := s.Disruption(testTypes()).Nodes[0]; n.BeingRemoved || n.Commanded {
		t.Error("the node is not released")
	}
}

// Disruption 18, FM M02: of a node and its replacement only one counts for a static pool, from the
// moment that the replacement is ordered, and also before a new process has found the command again.
func TestReplacementsOfStaticPoolsCountOnce(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	pool := poolObject("general")
	pool.Spec.Replicas = new(int64(1))
	s.feedObject(pool, false)
	joined(s, "general-x")
	c := disrupt.Command{ID: "id", Remove: []disrupt.Candidate{{Claim: "general-x"}}, Template: []string{"general"}}
	next := claimObject("general-y", "", false)
	next.Annotations = c.Marks()
	s.RecordCreatedClaim(next, nil)
	if p := s.Disruption(testTypes()).Pools["general"]; p.Running != 1 || p.Claims != 2 {
		t.Errorf("ordered: %d run of %d claims, want one of two", p.Running, p.Claims)
	}
	s.SetCommanded("ip-1", true)
	if p := s.Disruption(testTypes()).Pools["general"]; p.Running != 1 {
		t.Errorf("held: %d run, want one", p.Running)
	}
	s.Replace([]string{"ip-1"}, nil)
	if p := s.Disruption(testTypes()).Pools["general"]; p.Running != 1 {
		t.Errorf("marked: %d run, want one", p.Running)
	}
	s.SetRemoving("ip-1", false)
	s.SetCommanded("ip-1", false)
	if p := s.Disruption(testTypes()).Pools["general"]; p.Running != 2 {
		t.Errorf("rolled back: %d run, want both, although no watch shows yet that general-y is no replacement any more", p.Running)
	}
	s.SetCommanded("ip-1", true)
	s.Replace([]string{"ip-1"}, nil)
	s.feedObject(claimObject("general-x", "aws:///a/i-1", true), true)
	if p := s.Disruption(testTypes()).Pools["general"]; p.Running != 1 || p.Claims != 1 {
		t.Errorf("replaced: %d run of %d claims, want one", p.Running, p.Claims)
	}
}

func annotated(p *corev1.Pod, key, value string) *corev1.Pod {
	p.Annotations = map[string]string{key: value}
	return p
}

// Disruption 4, FM D13: what counts as a change that consolidation has to look at.
func TestChanges(t *testing.T) {
	t.Parallel()
	claim := func(change func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
		c := claimObject("general-x", "aws:///a/i-1", true)
		change(c)
		return c
	}
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := nodeObject("ip-1", "aws:///a/i-1", true)
		change(n)
		return n
	}
	for name, tc := range map[string]struct {
		do   func(s *Store)
		want bool
	}{
		"the same objects again": {func(s *Store) {
			s.feedObject(poolObject("general"), false)
			s.feedObject(claimObject("general-x", "aws:///a/i-1", true), false)
			s.feedObject(nodeObject("ip-1", "aws:///a/i-1", true), false)
			s.feedObject(podObject("w1", "ip-1"), false)
		}, false},
		"a heartbeat": {func(s *Store) {
			s.feedObject(node(func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(now())}}
			}), false)
		}, false},
		"a pod is ready": {func(s *Store) {
			p := podObject("w1", "ip-1")
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			s.feedObject(p, false)
		}, false},
		"a pod came":        {func(s *Store) { s.feedObject(podObject("w2", "ip-1"), false) }, true},
		"a pod is gone":     {func(s *Store) { s.feedObject(podObject("w1", "ip-1"), true) }, true},
		"a claim is new":    {func(s *Store) { s.feedObject(claimObject("general-y", "", false), false) }, true},
		"a node is gone":    {func(s *Store) { s.feedObject(nodeObject("ip-1", "aws:///a/i-1", true), true) }, true},
		"a node is tainted": {func(s *Store) { s.feedObject(node(func(n *corev1.Node) { n.Spec.Unschedulable = true }), false) }, true},
		"a node is marked":  {func(s *Store) { s.SetRemoving("ip-1", true) }, true},
		"it may be replaced": {func(s *Store) {
			s.feedObject(claim(func(c *karpv1.NodeClaim) {
				c.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionConsolidatable, Status: metav1.ConditionTrue}}
			}), false)
		}, true},
		"it is shown what keeps it": {func(s *Store) {
			s.feedObject(claim(func(c *karpv1.NodeClaim) {
				c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: karpv1.ConditionDisruptionBlocked, Status: metav1.ConditionTrue})
			}), false)
		}, false},
		"a pod is protected": {func(s *Store) {
			s.feedObject(annotated(podObject("w1", "ip-1"), karpv1.AnnotationDoNotDisrupt, "2h"), false)
		}, true},
		"a pod is protected by the deprecated annotation (LC-62)": {func(s *Store) {
			s.feedObject(annotated(podObject("w1", "ip-1"), karpv1.AnnotationDoNotEvict, "true"), false)
		}, true},
		"an annotation of a pod that says little": {func(s *Store) { s.feedObject(annotated(podObject("w1", "ip-1"), "example.com/a", "true"), false) }, false},
		"a pool is edited": {func(s *Store) {
			p := poolObject("general")
			p.Spec.Disruption.ConsolidateAfter = "1m"
			s.feedObject(p, false)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			s.feedObject(poolObject("general"), false)
			joined(s, "general-x")
			s.feedObject(podObject("w1", "ip-1"), false)
			before := s.Changes()
			tc.do(s)
			if got := s.Changes() != before; got != tc.want {
				t.Errorf("counts as a change: %v, want %v", got, tc.want)
			}
		})
	}
}

// G10: a node of a command counts against the limits of its pool until it is requested to terminate. If the command
// is given up it stays, and what was launched in its place meanwhile would be too much.
func TestNodesOfCommandsCountUntilTheyGo(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	pool := poolObject("general")
	pool.Spec.Limits = corev1.ResourceList{karpv1.LimitNodes: resource.MustParse("3")}
	s.feedObject(pool, false)
	joined(s, "general-x")
	left := func() int64 { return *s.Snapshot(testTypes()).Pools[0].NodeLimit }
	if n := left(); n != 2 {
		t.Fatalf("%d nodes may be added to one of three", n)
	}
	s.SetRemoving("ip-1", true)
	if n := left(); n != 2 {
		t.Errorf("%d nodes may be added while a command may still be given up, want 2", n)
	}
	going := claimObject("general-x", "aws:///a/i-1", true)
	going.DeletionTimestamp = new(metav1.NewTime(now()))
	s.feedObject(going, false)
	if n := left(); n != 3 {
		t.Errorf("%d nodes may be added once it goes, want 3", n)
	}
}
