package drain_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/drain"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

func somePods(t *rapid.T) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
		p := pod(fmt.Sprintf("p%d", i), grace(int64(rapid.SampledFrom([]int{0, 1, 30, 300, 100000}).Draw(t, "grace"))))
		for _, change := range []func(*corev1.Pod){daemon, critical, endsAt(time.Minute), endsAt(-time.Hour), phase(corev1.PodSucceeded), owned("v1", "Node")} {
			if rapid.IntRange(0, 4).Draw(t, "change") == 0 {
				change(p)
			}
		}
		if value := rapid.SampledFrom([]string{"", "", "true", "30m", "3h", "x"}).Draw(t, "protected"); value != "" {
			protected(value)(p)
		}
		if p.DeletionTimestamp != nil && rapid.Bool().Draw(t, "told") {
			withGrace(int64(rapid.IntRange(1, 600).Draw(t, "seconds")))(p)
		}
		pods = append(pods, p)
	}
	return pods
}

func someFacts(t *rapid.T) drain.Facts {
	f := drain.Facts{Node: node(), Pods: somePods(t), Now: after(time.Duration(rapid.IntRange(0, 7200).Draw(t, "now")) * time.Second)}
	if rapid.Bool().Draw(t, "unhealthy") {
		notReady(f.Node)
	}
	if rapid.IntRange(0, 4).Draw(t, "claim") > 0 {
		f.Claim = claim(rapid.SampledFrom([]func(*karpv1.NodeClaim){draining, drained, terminating, func(*karpv1.NodeClaim) {}}).Draw(t, "stage"))
		f.Claim.Spec.TerminationGracePeriod = rapid.SampledFrom([]karpv1.Duration{"", "0s", "10m", "1h", "100h"}).Draw(t, "period")
	}
	f.Instance = rapid.SampledFrom([]drain.State{drain.NotQueried, drain.Unsure, drain.Present, drain.Ending}).Draw(t, "instance")
	return f
}

// G6: no protected pod leaves early; LC-36: grace is never zero and never beyond the deadline by more
// than the second it is at least.
func TestProtectedPodsStayUntilTheirDeadline(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := someFacts(t)
		step := drain.Next(f)
		deadline := drain.Deadline(f.Claim)
		for _, p := range step.Pods.Evict {
			if drain.Protected(p, f.Now) || p.DeletionTimestamp != nil {
				t.Fatalf("pod %s is evicted although it is protected or ends", p.Name)
			}
		}
		for _, d := range step.Pods.Delete {
			due := deadline.Add(-time.Duration(*d.Pod.Spec.TerminationGracePeriodSeconds) * time.Second)
			if deadline.IsZero() || d.Pod.DeletionTimestamp == nil && !f.Now.After(due) {
				t.Fatalf("pod %s is deleted at %s, before %s", d.Pod.Name, f.Now, due)
			}
			if d.Grace < time.Second || d.Grace > max(time.Second, deadline.Sub(f.Now)) {
				t.Fatalf("pod %s gets %s of %s", d.Pod.Name, d.Grace, deadline.Sub(f.Now))
			}
		}
	})
}

// LC-31: all evicted pods are of one group, and no pod of an earlier one is left.
func TestGroupsLeaveInOrder(t *testing.T) {
	t.Parallel()
	group := func(p *corev1.Pod) (g int) {
		if p.Spec.PriorityClassName != "" {
			g = 2
		}
		if slices.ContainsFunc(p.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "DaemonSet" }) {
			g++
		}
		return g
	}
	rapid.Check(t, func(t *rapid.T) {
		f := someFacts(t)
		for _, p := range drain.Next(f).Pods.Evict {
			for _, other := range f.Pods {
				if cluster.DrainWaits(other, karpv1.DisruptedTaint(), f.Now) && group(other) < group(p) {
					t.Fatalf("pod %s of group %d leaves before pod %s of group %d", p.Name, group(p), other.Name, group(other))
				}
			}
		}
	})
}

// The end comes nearer when pods go, never farther away.
func TestFewerPodsAreNearerToTheEnd(t *testing.T) {
	t.Parallel()
	stage := func(s drain.Step) int {
		switch {
		case s.Query:
			return -1
		case s.Release:
			return 3
		case s.Terminate:
			return 2
		case len(s.Pods.Waiting) == 0:
			return 1
		default:
			return 0
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := someFacts(t)
		before := drain.Next(f)
		if len(f.Pods) > 0 {
			i := rapid.IntRange(0, len(f.Pods)-1).Draw(t, "gone")
			f.Pods = slices.Delete(slices.Clone(f.Pods), i, i+1)
		}
		if now := drain.Next(f); stage(now) < stage(before) {
			t.Fatalf("stage %d became %d when a pod went", stage(before), stage(now))
		}
	})
}

func TestOrderOfListingDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := someFacts(t)
		first := drain.Next(f)
		f.Pods = rapid.Permutation(f.Pods).Draw(t, "order")
		if diff := cmp.Diff(first, drain.Next(f), cmp.AllowUnexported(drain.Waiting{})); diff != "" {
			t.Fatalf("two steps (-first +second):\n%s", diff)
		}
	})
}

// G3: neither silence nor an accepted request lets a claim's node go.
func TestOnlyGoneReleasesTheNodeOfAClaim(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := someFacts(t)
		if step := drain.Next(f); step.Release && f.Claim != nil {
			t.Fatalf("released although the instance is in state %d", f.Instance)
		}
	})
}

// G13: whatever holds the pods of a node for minutes, something is reported, as long as it is known how far
// the eviction queue is.
func TestG13_NoDrainWaitsInSilence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := someFacts(t)
		f.Tries = map[types.UID]drain.Try{}
		for _, p := range f.Pods {
			f.Tries[p.UID] = drain.Try{
				Since:    f.Now.Add(-time.Duration(rapid.IntRange(60, 7200).Draw(t, "tried")) * time.Second),
				Response: rapid.SampledFrom([]string{"", "no", `webhook "x" says no`, "cannot create resource \"pods/eviction\""}).Draw(t, "response"),
				Budget:   rapid.Bool().Draw(t, "budget"),
			}
		}
		step := drain.Next(f)
		reported := len(step.Waits) > 0 || step.Query || step.DeleteClaim
		settled := f.Claim == nil || find(f.Claim, karpv1.ConditionDrained) != nil
		if waiting := len(step.Pods.Waiting); waiting > 0 && !reported && settled && f.Now.Sub(start) > time.Minute {
			t.Fatalf("%d pods hold the node and nothing is told: %+v", waiting, step.Pods.Waiting)
		}
	})
}

func find(c *karpv1.NodeClaim, kind string) *metav1.Condition {
	for i := range c.Status.Conditions {
		if found := &c.Status.Conditions[i]; found.Type == kind && found.Status == metav1.ConditionUnknown {
			return found
		}
	}
	return nil
}
