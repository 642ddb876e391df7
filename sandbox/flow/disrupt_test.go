package flow_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// allowConsolidation lets a pool be consolidated, as the seeds do (S-086).
func allowConsolidation(p *karpv1.NodePool) {
	p.Spec.Disruption.ConsolidationPolicy, p.Spec.Disruption.ConsolidateAfter = karpv1.ConsolidationWhenEmptyOrUnderutilized, "1s"
}

// withBudget says how many nodes of a pool may go at a time.
func withBudget(nodes string, reasons ...karpv1.DisruptionReason) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets = append(p.Spec.Disruption.Budgets, karpv1.Budget{Nodes: intstr.Parse(nodes), Reasons: reasons})
	}
}

// createFragmentedPool makes a pool with three nodes that hold one pod each, and have room for two. The pool is not
// consolidated yet. It is made last, so that its pods are planned together: three nodes, however slow the machine is.
func (f *flow) createFragmentedPool(change ...func(*karpv1.NodePool)) (*karpv1.NodePool, []karpv1.NodeClaim) {
	f.Helper()
	d := f.deploy("inflate", 6, withRequests("1500m", "2Gi"))
	f.waitForUnschedulable(6)
	pool := f.pool("", change...)
	pods := f.waitForRunningPods("inflate", 6)
	f.ready(3)
	stays := map[string]bool{}
	for i := range pods {
		if node := pods[i].Spec.NodeName; !stays[node] {
			stays[node] = true
			continue
		}
		patch(f, &pods[i], func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, corev1.PodDeletionCost, "-1") })
	}
	f.scale(d, 3)
	on := map[string]int{}
	for _, p := range f.waitForRunningPods("inflate", 3) {
		on[p.Spec.NodeName]++
	}
	if len(on) != 3 {
		f.Fatalf("pods are left on %v, want one on each of three nodes", on)
	}
	return pool, f.ready(3)
}

// waitForUnschedulable waits until so many pods of the test are there and the scheduler found no place for any of them.
// Pools that are made after that have them planned together.
func (f *flow) waitForUnschedulable(n int) {
	f.Helper()
	f.waitUntil(soon, fmt.Sprintf("%d pods are unschedulable", n), func() (bool, string) {
		waiting := 0
		for _, p := range f.pods("") {
			if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
			}) {
				waiting++
			}
		}
		return waiting == n, fmt.Sprintf("%d are", waiting)
	})
}

// patchPool patches a pool.
func (f *flow) patchPool(p *karpv1.NodePool, change ...func(*karpv1.NodePool)) {
	f.Helper()
	patch(f, p, func(p *karpv1.NodePool) {
		for _, do := range change {
			do(p)
		}
	})
}

// checkUndisturbed fails if a node of the test is tainted, or goes, within a few passes of the loop.
func (f *flow) checkUndisturbed() {
	f.Helper()
	f.checkStays(25*time.Second, "no node is disrupted", func() (bool, string) {
		for _, c := range f.claims() {
			if c.DeletionTimestamp != nil || condition.Find(c.Status.Conditions, karpv1.ConditionDisruptionReason) != nil {
				return false, sayConditions([]karpv1.NodeClaim{c})
			}
		}
		return true, ""
	})
}

// waitUntilReleased waits until no node of the test has the taint, and no claim the condition (G7).
func (f *flow) waitUntilReleased() {
	f.Helper()
	f.waitUntil(restartLimit, "no taint and no condition is left", func() (bool, string) {
		for _, n := range f.nodes() {
			if n.DeletionTimestamp == nil && slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyDisrupted }) {
				return false, n.Name + " is tainted"
			}
		}
		for _, c := range f.claims() {
			if c.DeletionTimestamp == nil && condition.Find(c.Status.Conditions, karpv1.ConditionDisruptionReason) != nil {
				return false, sayConditions([]karpv1.NodeClaim{c})
			}
		}
		return true, ""
	})
}

// S-007, S-029, S-030, S-044, S-046, S-171, S-203: three nodes with room to spare become two, and every pod runs again.
func TestS_030_ThreeNodesBecomeTwo(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool, before := f.createFragmentedPool(onlyTypes("m5.xlarge"))
	f.patchPool(pool, allowConsolidation)
	after := f.ready(2)
	f.waitForRunningPods("inflate", 3)
	for i := range after {
		if !slices.ContainsFunc(before, func(c karpv1.NodeClaim) bool { return c.Name == after[i].Name }) {
			t.Errorf("%s is new; a terminating node needs no other here", after[i].Name)
		}
	}
	if !f.hasLogged("disrupting node(s)", f.name) {
		t.Error("the log does not say which nodes go")
	}
}

// S-046, S-140, disruption 25.12: a node that is too large is replaced by a cheaper one, which is up before the old
// one goes. Where it may be spot it must be: on-demand was not what was compared.
func TestS_046_ReplacedByACheaperNode(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	large := f.deploy("large", 1, withRequests("6", "8Gi"))
	f.deploy("inflate", 1, withRequests("500m", "512Mi"))
	f.waitForUnschedulable(2)
	pool := f.pool("", onlyTypes("m5.large", "m5.2xlarge"))
	f.waitForRunningPods("large", 1)
	f.waitForRunningPods("inflate", 1)
	old := f.ready(1)[0]
	f.scale(large, 0)
	f.waitForRunningPods("large", 0)
	f.patchPool(pool, allowConsolidation, withRequirement(karpv1.LabelCapacityType, corev1.NodeSelectorOpIn, karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand))
	next := f.claim("replaces the old one", func(c *karpv1.NodeClaim) bool { return c.Name != old.Name })
	for _, r := range next.Spec.Requirements {
		if r.Key == karpv1.LabelCapacityType && !slices.Equal(r.Values, []string{karpv1.CapacityTypeSpot}) {
			t.Errorf("the replacement may be %v", r.Values)
		}
	}
	f.claim("is told to go only once another is up", func(c *karpv1.NodeClaim) bool {
		if c.Name == old.Name && c.DeletionTimestamp != nil {
			for _, other := range f.claims() {
				if other.Name != old.Name && !condition.True(other.Status.Conditions, karpv1.ConditionInitialized) {
					t.Errorf("%s goes before %s is up", old.Name, other.Name)
				}
			}
		}
		return isDeleting(c) || c.Name != old.Name && hasCondition(karpv1.ConditionInitialized)(c)
	})
	now := f.ready(1)[0]
	if now.Labels[corev1.LabelInstanceTypeStable] != "m5.large" {
		t.Errorf("the pod runs on %s", now.Labels[corev1.LabelInstanceTypeStable])
	}
	f.waitForRunningPods("inflate", 1)
}

// S-045, S-182, S-183, disruption 5: what keeps a node is said, and once it is gone the node goes.
func TestS_182_WhatKeepsANodeIsSaid(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		block func(*flow, *karpv1.NodePool, []karpv1.NodeClaim) (free func())
		says  string
	}{
		{"FM K01: a PodDisruptionBudget that allows nothing", func(f *flow, _ *karpv1.NodePool, _ []karpv1.NodeClaim) func() {
			b := f.createPodDisruptionBudget("inflate", 0)
			return func() { f.remove(b) }
		}, "PodDisruptionBudget"},
		{"S-066, S-106: do-not-disrupt on the nodes", func(f *flow, _ *karpv1.NodePool, claims []karpv1.NodeClaim) func() {
			set := func(value string) {
				for i := range claims {
					patch(f, f.nodeOf(&claims[i]), func(n *corev1.Node) {
						if value == "" {
							delete(n.Annotations, karpv1.AnnotationDoNotDisrupt)
						} else {
							metav1.SetMetaDataAnnotation(&n.ObjectMeta, karpv1.AnnotationDoNotDisrupt, value)
						}
					})
				}
			}
			set("true")
			return func() { set("") }
		}, karpv1.AnnotationDoNotDisrupt},
		{"S-105: do-not-disrupt on the pool", func(f *flow, p *karpv1.NodePool, _ []karpv1.NodeClaim) func() {
			f.patchPool(p, func(p *karpv1.NodePool) {
				metav1.SetMetaDataAnnotation(&p.ObjectMeta, karpv1.AnnotationDoNotDisrupt, "true")
			})
			return func() {
				f.patchPool(p, func(p *karpv1.NodePool) { delete(p.Annotations, karpv1.AnnotationDoNotDisrupt) })
			}
		}, karpv1.AnnotationDoNotDisrupt},
		{"S-065: do-not-disrupt on the pods", func(f *flow, _ *karpv1.NodePool, _ []karpv1.NodeClaim) func() {
			set := func(value string) {
				pods := f.pods("inflate")
				for i := range pods {
					patch(f, &pods[i], func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, karpv1.AnnotationDoNotDisrupt, value) })
				}
			}
			set("true")
			return func() { set("false") }
		}, karpv1.AnnotationDoNotDisrupt},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, disturbsNone)
			pool, claims := f.createFragmentedPool(onlyTypes("m5.xlarge"))
			free := row.block(f, pool, claims)
			f.patchPool(pool, allowConsolidation)
			f.event("Node", claims[0].Status.NodeName, "DisruptionBlocked", row.says)
			f.event("NodeClaim", claims[0].Name, "DisruptionBlocked", row.says)
			f.checkUndisturbed()
			free()
			f.ready(2)
			f.waitForRunningPods("inflate", 3)
		})
	}
}

// S-183, LC-55, disruption 2: WhenEmpty leaves nodes with pods alone, and says so. The mark of a node that may go
// is removed when the pool says Never.
func TestS_183_WhenEmptyLeavesNodesWithPods(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool, claims := f.createFragmentedPool(onlyTypes("m5.xlarge"))
	f.patchPool(pool, emptyAfter("1s"))
	f.event("Node", claims[0].Status.NodeName, "Unconsolidatable", "")
	f.checkUndisturbed()
	f.waitForCondition(&claims[0], karpv1.ConditionConsolidatable, metav1.ConditionTrue, "")
	f.patchPool(pool, emptyAfter(karpv1.Never))
	f.waitUntil(soon, "no mark is left", func() (bool, string) {
		list := f.claims()
		return !slices.ContainsFunc(list, func(c karpv1.NodeClaim) bool {
			return condition.Find(c.Status.Conditions, karpv1.ConditionConsolidatable) != nil
		}), sayConditions(list)
	})
}

// Disruption 8, G5: a budget of none is said, and one of one lets the nodes go one by one.
func TestDisruption_8_BudgetsPace(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool, _ := f.createFragmentedPool(onlyTypes("m5.xlarge"), withBudget("0"))
	f.patchPool(pool, allowConsolidation)
	f.event("NodePool", f.name, "DisruptionBlocked", "Underutilized")
	f.checkUndisturbed()
	f.patchPool(pool, func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = nil }, withBudget("1"))
	f.ready(2)
}

// S-048, S-051, LC-57: a changed pool marks its nodes, each is replaced, and the pods run on new nodes.
func TestS_048_DriftReplacesNodes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		change func(*flow, *karpv1.NodePool)
		reason string
	}{
		{"labels of the template", func(f *flow, p *karpv1.NodePool) {
			f.patchPool(p, func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"tier": "gold"} })
		}, "NodePoolDrifted"},
		{"requirements", func(f *flow, p *karpv1.NodePool) {
			f.patchPool(p, withRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, "m6a.large"))
		}, "RequirementsDrifted"},
		{"user data of the class", func(f *flow, _ *karpv1.NodePool) {
			class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
			f.waitForCondition(class, karpv1.ConditionReady, metav1.ConditionTrue, "")
			patch(f, class, func(c *awsv1.EC2NodeClass) { c.Spec.UserData = new("#!/bin/bash\necho drift") })
		}, "NodeClassDrift"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, disturbsNone)
			pool := f.pool("", onlyTypes("m5.large"), withBudget("1"))
			f.deploy("inflate", 2)
			f.waitForRunningPods("inflate", 2)
			before := f.ready(2)
			row.change(f, pool)
			f.claim("is drifted", func(c *karpv1.NodeClaim) bool {
				found := condition.Find(c.Status.Conditions, karpv1.ConditionDrifted)
				return found != nil && found.Reason == row.reason
			})
			for i := range before {
				f.waitUntilGone(&before[i], later)
			}
			f.ready(2)
			f.waitForRunningPods("inflate", 2)
		})
	}
}

// Disruption 25.9, FM F: nothing can be launched to replace a drifted node. It stays, is released, and its
// pod is not evicted.
func TestDisruption_25_9_NoCapacityForTheReplacement(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool := f.pool("", onlyTypes("m5a.large"))
	f.deploy("inflate", 1)
	pod := f.waitForRunningPods("inflate", 1)[0]
	claim := f.ready(1)[0]
	f.exhaustOfferings("on-demand", "x2iezn.2xlarge", "")
	f.patchPool(pool, onlyTypes("x2iezn.2xlarge"))
	f.claim("is drifted", hasCondition(karpv1.ConditionDrifted))
	f.event("NodeClaim", f.name, "InsufficientCapacityError", "", later)
	f.waitUntilReleased()
	if now := f.waitForRunningPods("inflate", 1)[0]; now.UID != pod.UID {
		t.Error("the pod was evicted")
	}
	if found := f.claim("is the old one", func(c *karpv1.NodeClaim) bool { return c.Name == claim.Name }); found.DeletionTimestamp != nil {
		t.Error("the node goes although nothing replaces it")
	}
}

// Disruption 25.15, S-053: an expired node goes whatever budgets say, and its pod finds another.
func TestDisruption_25_15_ExpiryIgnoresBudgets(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"), withBudget("0"), withExpireAfter("1h"))
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	old := f.ready(1)[0]
	f.backdateCreation(&old, 2*time.Hour)
	f.waitUntilGone(&old, later)
	f.waitForRunningPods("inflate", 1)
}

// FM K01, G6: a budget of pods paces the drain: never are more of them down than it allows.
func TestFM_K01_ADrainKeepsToTheBudgetOfThePods(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool := f.pool("", onlyTypes("m5.large"), withBudget("100%"))
	d := f.deploy("inflate", 3)
	f.waitForRunningPods("inflate", 3)
	before := f.ready(3)
	b := f.createPodDisruptionBudget("inflate", 1)
	f.waitUntil(soon, "the budget is computed", func() (bool, string) {
		now := &policyv1.PodDisruptionBudget{}
		if err := f.kube.Get(t.Context(), client.ObjectKeyFromObject(b), now); err != nil {
			return false, err.Error()
		}
		return now.Status.DisruptionsAllowed == 1, fmt.Sprint(now.Status.DisruptionsAllowed)
	})
	f.patchPool(pool, func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"tier": "gold"} })
	for i := range before {
		f.waitUntilGone(&before[i], later)
	}
	f.waitForRunningPods("inflate", int(*d.Spec.Replicas))
}
