package store

import (
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// A Node of another controller's node class is a node like any other: it does not count as one of ours
// whose claim is gone, so no node is launched for its pods. Ours does, whether or not its pool is
// still there.
func TestNodesOfOtherCloudsStay(t *testing.T) {
	t.Parallel()
	classLabel := karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.Kind}.LabelKey()
	for name, tc := range map[string]struct {
		label, pool string
		want        int // pods that need a place
	}{
		"another cloud's class and pool": {"compute.example.com/machineclass", "theirs", 0},
		"our class, pool gone":           {classLabel, "deleted", 1},
		"our pool, no class label yet":   {"any", "general", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			s.feedObject(poolObject("general"), false)
			foreign := claimObject("foreign-1", "other:///i-1", true)
			foreign.Spec.NodeClassRef = karpv1.NodeClassReference{Group: "compute.example.com", Kind: "MachineClass", Name: "x"}
			s.feedObject(foreign, false)
			node := nodeObject("ip-1", "other:///i-1", true)
			node.Labels[karpv1.LabelNodePool], node.Labels[tc.label] = tc.pool, "default"
			s.feedObject(node, false)
			s.feedObject(podObject("w1", "ip-1"), false)
			if got := s.Snapshot(testTypes()).Pods; len(got) != tc.want {
				t.Errorf("%d pods need a place, want %d", len(got), tc.want)
			}
		})
	}
}

// A managed node is that of the snapshot, with its pods. A Node that does not say yet what it is goes by the name of
// its claim there; disruption writes to objects and so needs the name of the Node.
func TestManagedNodesAreThoseOfTheSnapshot(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		typed bool
		named string // in the snapshot
	}{
		"initialized":              {typed: true, named: "ip-1"},
		"without an instance type": {named: "general-x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			s.feedObject(poolObject("general"), false)
			s.feedObject(claimObject("general-x", "aws:///a/i-1", true), false)
			s.feedObject(nodeObject("ip-1", "aws:///a/i-1", tc.typed), false)
			s.feedObject(podObject("w1", "ip-1"), false)
			v := s.Disruption(testTypes())
			if len(v.Nodes) != 1 || len(v.Cluster.Nodes) != 1 || len(v.Nodes[0].Pods) != 1 {
				t.Fatalf("nodes %+v, in the snapshot %+v; want one with one pod", v.Nodes, v.Cluster.Nodes)
			}
			n, want := v.Nodes[0], v.Cluster.Nodes[0]
			if n.Name != "ip-1" || want.Name != tc.named {
				t.Errorf("node %s, in the snapshot %s; want ip-1 and %s", n.Name, want.Name, tc.named)
			}
			if n.Name = want.Name; !reflect.DeepEqual(n.Node, want) || n.InstanceType != "small" || n.Pool != "general" {
				t.Errorf("node %+v, want %+v", n.Node, want)
			}
			if pod := n.Pods[0].Pod; !reflect.DeepEqual(pod, want.Pods[0]) {
				t.Errorf("pod %+v, want %+v", pod, want.Pods[0])
			}
		})
	}
}

// SC-52: a node that is planned for pending pods is reserved until they are bound, however long the
// next plan takes.
func TestPlannedNodesAreReserved(t *testing.T) {
	t.Parallel()
	s := New(testOptions())
	s.feedObject(poolObject("general"), false)
	s.feedObject(podObject("w1", ""), false)
	s.RecordCreatedClaim(claimObject("general-x", "", false), []cluster.PodKey{{Namespace: "default", Name: "w1"}})
	joined(s, "general-x")
	if v := s.Disruption(testTypes()); len(v.Nodes) != 1 || !v.Nodes[0].Nominated {
		t.Errorf("nodes = %+v, want one that is reserved", v.Nodes)
	}
	s.feedObject(podObject("w1", "ip-1"), false)
	if v := s.Disruption(testTypes()); v.Nodes[0].Nominated {
		t.Error("the node is still reserved although its pod is there")
	}
}

// G8: a process that comes later keeps the reservations of the one before: the pods that a claim was ordered for
// get its room, until it is up, where the scheduler decides, or goes.
func TestPlannedNodesAreRestored(t *testing.T) {
	t.Parallel()
	w1 := cluster.PodKey{Namespace: "default", Name: "w1"}
	order := func(change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
		claim := claimObject("general-x", "", false)
		claim.Annotations = map[string]string{karpv1.AnnotationPods: cluster.HashPods([]cluster.PodKey{w1})}
		for _, apply := range change {
			apply(claim)
		}
		return claim
	}
	for name, tc := range map[string]struct {
		do   func(*Store)
		want map[cluster.PodKey]string
	}{
		"on its way":          {do: func(s *Store) { s.feedObject(order(), false) }, want: map[cluster.PodKey]string{w1: "general-x"}},
		"of an unknown claim": {do: func(s *Store) { s.feedObject(claimObject("general-x", "", false), false) }},
		"an annotation of others": {do: func(s *Store) {
			s.feedObject(order(func(c *karpv1.NodeClaim) { c.Annotations[karpv1.AnnotationPods] = "all!" }), false)
		}},
		"it goes": {do: func(s *Store) {
			s.feedObject(order(func(c *karpv1.NodeClaim) { c.DeletionTimestamp = new(metav1.NewTime(now())) }), false)
		}},
		"it is gone":       {do: func(s *Store) { s.feedObject(order(), false); s.feedObject(order(), true) }},
		"its pod is bound": {do: func(s *Store) { s.feedObject(order(), false); s.feedObject(podObject("w1", "ip-7"), false) }},
		"it is up": {do: func(s *Store) {
			joined(s, "general-x")
			s.feedObject(order(launched), true)
			s.feedObject(order(launched), false)
		}},
		"a plan of our own says other": {do: func(s *Store) {
			s.feedObject(order(), false)
			s.feedObject(claimObject("general-y", "", false), false)
			s.RecordPlannedNode(w1, "general-y")
		}, want: map[cluster.PodKey]string{w1: "general-y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			s.feedObject(poolObject("general"), false)
			s.feedObject(podObject("w1", ""), false)
			s.feedObject(podObject("w2", ""), false)
			tc.do(s)
			for range 2 {
				if got := s.Snapshot(testTypes()).PlannedNodes; !maps.Equal(got, tc.want) {
					t.Errorf("planned %v, want %v", got, tc.want)
				}
			}
		})
	}
}

func launched(c *karpv1.NodeClaim) {
	c.Status = claimObject("general-x", "aws:///a/i-1", true).Status
}

// SC-52: a node that pods are expected on is reserved until the last of them is bound, wherever that is,
// or gone, and no longer than the nomination lasts. A pod that leaves another node comes under a new name:
// no client can see it arrive. It is not pending, though (disruption 4), and maybe never leaves.
func TestExpectedNodesAreSpokenFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		do               func(*Store)
		late             time.Duration
		want             bool
		expectsDisplaced bool // for pods that still run
	}{
		"both wait":                       {do: func(*Store) {}, want: true},
		"one is bound":                    {do: func(s *Store) { s.feedObject(podObject("w1", "ip-1"), false) }, want: true},
		"both are bound":                  {do: bindBoth("ip-1", "ip-1")},
		"both are bound elsewhere":        {do: bindBoth("ip-2", "ip-3")},
		"one is bound, one is gone":       {do: func(s *Store) { s.feedObject(podObject("w1", "ip-1"), false); s.feedObject(podObject("w2", ""), true) }},
		"the time is over":                {do: func(*Store) {}, late: 20 * time.Second},
		"one leaves another node":         {do: func(s *Store) { bindBoth("ip-1", "ip-1")(s); leaving(s) }, expectsDisplaced: true},
		"it left, and time went by":       {do: func(s *Store) { bindBoth("ip-1", "ip-1")(s); leaving(s) }, late: 20 * time.Second},
		"another pod is nominated for it": {do: func(s *Store) { bindBoth("ip-1", "ip-1")(s); s.Nominate("ip-1", now().Add(time.Second)) }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, o := now(), testOptions()
			o.Now = func() time.Time { return at }
			s := New(o)
			s.feedObject(poolObject("general"), false)
			joined(s, "general-x")
			for _, name := range []string{"w1", "w2"} {
				s.feedObject(podObject(name, ""), false)
				s.ExpectPod(cluster.PodKey{Namespace: "default", Name: name}, "ip-1", at.Add(20*time.Second))
			}
			tc.do(s)
			at = at.Add(tc.late)
			n := s.Disruption(testTypes()).Nodes[0]
			if n.Nominated != tc.want || n.ExpectsDisplaced != tc.expectsDisplaced || s.Nominated("ip-1") != (tc.want || tc.expectsDisplaced) {
				t.Errorf("nominated: %v, expects displaced pods: %v; want %v and %v", n.Nominated, n.ExpectsDisplaced, tc.want, tc.expectsDisplaced)
			}
		})
	}
}

func bindBoth(first, second string) func(*Store) {
	return func(s *Store) {
		s.feedObject(podObject("w1", first), false)
		s.feedObject(podObject("w2", second), false)
	}
}

// leaving expects a pod on ip-1 that runs on a terminating node.
func leaving(s *Store) {
	s.feedObject(claimObject("general-y", "aws:///a/i-9", true), false)
	s.feedObject(nodeObject("ip-9", "aws:///a/i-9", true), false)
	s.feedObject(podObject("w9", "ip-9"), false)
	s.SetRemoving("ip-9", true)
	s.ExpectPod(cluster.PodKey{Namespace: "default", Name: "w9"}, "ip-1", now().Add(20*time.Second))
}

// Disruption 6: budgets of pods that would not be evicted keep no node.
func TestBudgetsOfPodsThatStay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"an ordinary pod": {func(*corev1.Pod) {}, true},
		"one that tolerates the taint": {func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, false},
		"a mirror pod": {func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "ip-1"}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			s.feedObject(poolObject("general"), false)
			joined(s, "general-x")
			pod := podObject("w1", "ip-1")
			tc.change(pod)
			s.feedObject(pod, false)
			s.feedObject(&policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "b"},
				Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
			}, false)
			if got := s.Disruption(testTypes()).Nodes[0].Pods[0]; got.Blocked != tc.want || (len(got.Budgets) > 0) != tc.want {
				t.Errorf("pod = %+v, want it blocked %v", got, tc.want)
			}
		})
	}
}

// The budgets of pods are looked up fast enough for a large cluster: the selector of a budget is read
// once, not for every pod.
func TestDisruptionReadsBudgetsOnce(t *testing.T) {
	const pods, budgets = 2000, 400
	s := New(testOptions())
	s.feedObject(poolObject("general"), false)
	joined(s, "general-x")
	for i := range pods {
		s.feedObject(podObject(fmt.Sprintf("w%d", i), "ip-1"), false)
	}
	for i := range budgets {
		s.feedObject(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("b%d", i)},
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"app": fmt.Sprintf("other%d", i), "tier": "back"},
			}},
		}, false)
	}
	allocations := testing.AllocsPerRun(1, func() { s.Disruption(testTypes()) })
	if most := float64(20 * (pods + budgets)); allocations > most {
		t.Errorf("%.0f allocations for %d pods and %d budgets, want at most %.0f", allocations, pods, budgets, most)
	}
}

// LC-56: when a pod ended is read from its containers, so stripping must leave that.
func TestStripKeepsWhenPodsEnded(t *testing.T) {
	t.Parallel()
	started, ended := metav1.NewTime(now().Add(-time.Hour)), metav1.NewTime(now())
	pod := podObject("w1", "ip-1")
	pod.Status = corev1.PodStatus{
		Phase:      corev1.PodSucceeded,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: started}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Image: "long", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ended, Message: "long"}},
		}},
	}
	stripPod(pod)
	if got := lifecycle.PodEvent(pod); !got.Equal(ended.Time) {
		t.Errorf("the last event of the pod was at %s, want %s", got, ended)
	}
	if list := pod.Status.ContainerStatuses; len(list) != 1 || list[0].Image != "" || list[0].State.Terminated.Message != "" {
		t.Errorf("statuses = %+v, want one with nothing but times", list)
	}
}

// SC-51, FM I16: a node is launched only for pods that still need one when it comes to that.
func TestNeedsPlace(t *testing.T) {
	t.Parallel()
	w1 := cluster.PodKey{Namespace: "default", Name: "w1"}
	for name, tc := range map[string]struct {
		then func(s *Store)
		want bool
	}{
		"waits":     {func(s *Store) { s.feedObject(podObject("w1", ""), false) }, true},
		"is gone":   {func(*Store) {}, false},
		"was bound": {func(s *Store) { joined(s, "general-x"); s.feedObject(podObject("w1", "ip-1"), false) }, false},
		"its node goes": {func(s *Store) {
			joined(s, "general-x")
			s.feedObject(podObject("w1", "ip-1"), false)
			claim := claimObject("general-x", "aws:///a/i-1", true)
			claim.DeletionTimestamp = new(metav1.NewTime(now()))
			s.feedObject(claim, false)
		}, true},
		"a command waits to remove its node": {func(s *Store) {
			joined(s, "general-x")
			s.feedObject(podObject("w1", "ip-1"), false)
			s.SetRemoving("ip-1", true)
		}, false},
		"its node is gone": {func(s *Store) { s.feedObject(podObject("w1", "ip-1"), false) }, true},
		"its claim is gone": {func(s *Store) {
			s.feedObject(nodeObject("ip-1", "aws:///a/i-1", true), false)
			s.feedObject(podObject("w1", "ip-1"), false)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(testOptions())
			s.feedObject(poolObject("general"), false)
			tc.then(s)
			if got := s.NeedsPlace(w1); got != tc.want {
				t.Errorf("NeedsPlace() = %v, want %v", got, tc.want)
			}
		})
	}
}
