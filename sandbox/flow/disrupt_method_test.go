package flow_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// withFlags runs a controller with other flags in place of the one that all tests share.
func (f *flow) withFlags(flags ...string) {
	f.Helper()
	f.withRights(nil, flags...)
}

// withRights is with, for a controller that is granted more than by default: what values of the chart add.
func (f *flow) withRights(values []string, flags ...string) {
	f.Helper()
	f.stopController()
	installed := world.Installation{ServiceAccount: f.name, Rules: world.Granted(values...)} // the other controller keeps its rights
	c, err := f.world.RunController(f.Context(), world.ControllerOptions{
		Binary: binary, Installation: installed, Proxied: true, Restart: true, Log: f.name + ".log", Flags: append([]string{"--log-level=debug"}, flags...),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := c.Stop(); err != nil {
			f.Error(err)
		}
	})
	f.own = c
}

// startedCommands are the decisions about nodes of the test that the controller began to carry out, as reason and
// decision.
func (f *flow) startedCommands() []string {
	f.Helper()
	var list []string
	for _, line := range f.controllerLog() {
		var entry struct{ Message, Reason, Decision string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "disrupting node(s)" && strings.Contains(line, f.name) {
			list = append(list, entry.Reason+" "+entry.Decision)
		}
	}
	return list
}

// typesOf are the instance types of claims, sorted.
func typesOf(claims []karpv1.NodeClaim) []string {
	var list []string
	for i := range claims {
		list = append(list, claims[i].Labels[corev1.LabelInstanceTypeStable])
	}
	slices.Sort(list)
	return list
}

// createOversizedNode makes one node of a type that holds the large pod, which then goes: the small one stays.
func (f *flow) createOversizedNode() karpv1.NodeClaim {
	f.Helper()
	large := f.deploy("large", 1, withRequests("6", "8Gi"))
	f.waitForRunningPods("large", 1)
	f.deploy("inflate", 1, withRequests("500m", "512Mi"))
	f.waitForRunningPods("inflate", 1)
	old := f.ready(1)[0]
	f.scale(large, 0)
	f.waitForRunningPods("large", 0)
	return old
}

// Disruption 15a: Balanced does not replace a node to save less than half of its cost, and counts that. The
// default policy does.
func TestDisruption_15a_BalancedRejectsAMoveWorthLittle(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool := f.pool("", onlyTypes("c5.2xlarge", "m5.xlarge")) // saves 44 %
	old := f.createOversizedNode()
	f.patchPool(pool, allowConsolidation, func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationBalanced })
	f.waitUntil(soon, "a score that is too low", func() (bool, string) {
		return slices.ContainsFunc(f.controllerLog(), func(line string) bool {
			return strings.Contains(line, `"message":"consolidation score"`) && strings.Contains(line, f.name) && strings.Contains(line, `"approved":false`)
		}), ""
	})
	f.checkUndisturbed()
	f.patchPool(pool, allowConsolidation)
	f.waitUntilGone(&old, later)
	if got := typesOf(f.ready(1)); !slices.Equal(got, []string{"m5.xlarge"}) {
		t.Errorf("the pod runs on %v", got)
	}
	f.waitForRunningPods("inflate", 1)
}

// Disruption 25.1: of an empty, a drifted and an underutilized node, the empty one goes first, then the
// drifted one.
func TestDisruption_25_1_OrderOfReasons(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool, claims := f.createFragmentedPool(onlyTypes("m5.xlarge"), withBudget("0"))
	goes := f.deploy("goes", 1, withRequests("3500m", "2Gi"))
	f.waitForRunningPods("goes", 1)
	f.ready(4)
	f.scale(goes, 0)
	f.waitForRunningPods("goes", 0)
	patch(f, &claims[0], func(c *karpv1.NodeClaim) { c.Annotations[karpv1.AnnotationNodePoolHash] = "of-an-older-template" })
	f.patchPool(pool, allowConsolidation)
	f.claim("is drifted", hasCondition(karpv1.ConditionDrifted))
	f.waitUntil(soon, "all four could be consolidated", func() (bool, string) {
		list := f.claims()
		return !slices.ContainsFunc(list, func(c karpv1.NodeClaim) bool { return !hasCondition(karpv1.ConditionConsolidatable)(&c) }), sayConditions(list)
	})
	f.checkUndisturbed() // by then no pod is expected any longer on the node that was launched last
	f.patchPool(pool, func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = nil }, withBudget("1"))
	f.waitUntilGone(&claims[0], later)
	f.ready(2)
	f.waitForRunningPods("inflate", 3)
	var reasons []string
	for _, c := range f.startedCommands() {
		reason, _, _ := strings.Cut(c, " ")
		reasons = append(reasons, reason)
	}
	if !slices.Equal(reasons, []string{"empty", "drifted"}) {
		t.Errorf("the order was %v", reasons)
	}
}

// Disruption 25.10: spot nodes go without the gate when their pods fit elsewhere, and are not replaced by
// cheaper spot nodes.
func TestDisruption_25_10_SpotIsDeletedAndNotReplaced(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool, before := f.createFragmentedPool(onlyTypes("m5.xlarge"), onlySpot)
	f.patchPool(pool, allowConsolidation, withRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, "m5.xlarge", "m5.large"))
	f.waitUntil(later, "two of the three nodes are left", func() (bool, string) {
		n := len(f.claims())
		return n == 2, fmt.Sprint(n)
	})
	after := f.ready(2)
	for i := range after {
		if !slices.ContainsFunc(before, func(c karpv1.NodeClaim) bool { return c.Name == after[i].Name }) {
			t.Errorf("%s is new: a spot node was replaced without the gate", after[i].Name)
		}
	}
	f.waitForRunningPods("inflate", 3)
	f.event("Node", "", "Unconsolidatable", "SpotToSpotConsolidation")
	f.checkUndisturbed()
}

// Issue 6, demand 2: three nodes that are half empty and dear become fewer or cheaper ones in one move, not
// only one by one.
func TestDisruption_15_SeveralNodesBecomeSeveralOthers(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool := f.pool("", onlyTypes("m5.2xlarge"), withBudget("100%"))
	filler := f.deploy("filler", 3, withRequests("5500m", "4Gi"))
	f.waitForRunningPods("filler", 3)
	f.deploy("inflate", 3, withRequests("1500m", "2Gi"))
	f.waitForRunningPods("inflate", 3)
	f.ready(3)
	f.scale(filler, 0)
	f.waitForRunningPods("filler", 0)
	f.patchPool(pool, allowConsolidation, withRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, "m5.large", "m5.xlarge", "m5.2xlarge"))
	f.waitUntil(later, "no dear node is left", func() (bool, string) {
		list := typesOf(f.claims())
		return len(list) > 0 && !slices.Contains(list, "m5.2xlarge"), fmt.Sprint(list)
	})
	pods := f.waitForRunningPods("inflate", 3)
	got := typesOf(f.claims())
	if !slices.Equal(got, []string{"m5.large", "m5.xlarge"}) && !slices.Equal(got, []string{"m5.large", "m5.large", "m5.large"}) {
		t.Errorf("%d pods run on %v", len(pods), got)
	}
	if !slices.Contains(f.startedCommands(), "underutilized replace") {
		t.Errorf("the log says %v", f.startedCommands())
	}
}

// Disruption 25.6, FM D01: a pod that may not be disrupted is bound while its node is held. The node is
// released, and no pod on it is evicted.
func TestDisruption_25_6_AProtectedPodComesWhileItsNodeIsHeld(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool, claims := f.createFragmentedPool(onlyTypes("m5.xlarge"))
	var once sync.Once
	held := make(chan string, 1)
	for i := range claims {
		match := apiproxy.Match{Verb: "patch", Resource: "nodes", Name: claims[i].Status.NodeName, Body: karpv1.TaintKeyDisrupted}
		_, cancel := f.world.Proxy.Once(apiproxy.Trigger{Match: match, Moment: apiproxy.BeforeResponse, Run: func(r apiproxy.Request) {
			once.Do(func() { f.createBoundPod("late", r.Name); held <- r.Name })
		}})
		f.Cleanup(cancel)
	}
	f.patchPool(pool, allowConsolidation)
	var node string
	select {
	case node = <-held:
	case <-time.After(soon):
		t.Fatal("no node was held")
	}
	on := func() (uids []string) {
		for _, p := range f.pods("") {
			if p.Spec.NodeName == node {
				uids = append(uids, string(p.UID))
			}
		}
		return uids
	}
	before := on()
	f.checkStays(25*time.Second, "the node stays, with its pods", func() (bool, string) {
		now := on()
		gone := slices.ContainsFunc(before, func(uid string) bool { return !slices.Contains(now, uid) })
		return !gone, fmt.Sprint(now)
	})
	f.waitUntilReleased()
	if slices.ContainsFunc(f.claims(), func(c karpv1.NodeClaim) bool { return c.Status.NodeName == node && c.DeletionTimestamp != nil }) {
		t.Error("the node goes although a pod on it may not be disrupted")
	}
}

// createBoundPod makes a pod that may not be disrupted on a node, past the scheduler.
func (f *flow) createBoundPod(name, node string) {
	f.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: f.namespace, Annotations: map[string]string{karpv1.AnnotationDoNotDisrupt: "true"}},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: name, Image: "public.ecr.aws/eks-distro/kubernetes/pause:3.7"}},
		},
	}
	if err := f.kube.Create(f.Context(), pod); err != nil {
		f.Error(err)
	}
}

// Disruption 25.15: a node that expired and cannot be drained yet uses up the budget of its pool.
func TestDisruption_25_15_AnExpiredNodeUsesUpTheBudget(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool := f.pool("", onlyTypes("m5.large"), emptyAfter("1s"), withBudget("1"), withExpireAfter("1h"))
	first := f.deploy("first", 1, withAnnotation(karpv1.AnnotationDoNotDisrupt, "true"))
	f.waitForRunningPods("first", 1)
	old := f.ready(1)[0]
	f.patchPool(pool, withExpireAfter(karpv1.Never))
	second := f.deploy("second", 1)
	f.waitForRunningPods("second", 1)
	f.backdateCreation(&old, 2*time.Hour)
	f.claim("expired", func(c *karpv1.NodeClaim) bool { return c.Name == old.Name && isDeleting(c) })
	other := f.claim("stays", func(c *karpv1.NodeClaim) bool { return c.Name != old.Name })
	f.scale(second, 0)
	f.waitForRunningPods("second", 0)
	f.checkStays(25*time.Second, "the empty node waits", func() (bool, string) {
		return !slices.ContainsFunc(f.claims(), func(c karpv1.NodeClaim) bool { return c.Name == other.Name && isDeleting(&c) }), ""
	})
	f.scale(first, 0)
	f.waitUntilGone(&old)
	f.waitUntilGone(other)
}

// Disruption 25.4, FM K11: a budget that cannot be read closes its pool for every reason.
func TestDisruption_25_4_ABrokenBudgetClosesItsPool(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool, _ := f.createFragmentedPool(onlyTypes("m5.xlarge"))
	f.patchPool(pool, allowConsolidation, withBudget("100%"), func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets[0].Schedule, p.Spec.Disruption.Budgets[0].Duration = new("61 * * * *"), new(karpv1.Duration("1h"))
	})
	f.event("NodePool", f.name, "DisruptionBlocked", "Underutilized")
	f.checkUndisturbed()
}

// LC-49, features 3, disruption 18: a static pool has its nodes without any pod, is scaled like a Deployment, and a
// drifted node is replaced before it goes. S-138: this controller has no queue, and runs all the same.
func TestFeatures_3_StaticPools(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withFlags("--feature-gates=StaticCapacity=true", "--interruption-queue=")
	pool := f.pool("", onlyTypes("m5.large"), withBudget("1"), func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64(2)) })
	before := f.ready(2)
	f.patchPool(pool, func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"tier": "gold"} })
	fewest := 2
	for i := range before {
		f.waitUntil(later, before[i].Name+" is replaced", func() (bool, string) {
			list := f.claims()
			up := 0
			for j := range list {
				if list[j].DeletionTimestamp == nil && hasCondition(karpv1.ConditionInitialized)(&list[j]) {
					up++
				}
			}
			fewest = min(fewest, up)
			return !slices.ContainsFunc(list, func(c karpv1.NodeClaim) bool { return c.Name == before[i].Name }), sayConditions(list)
		})
	}
	if fewest < 2 {
		t.Errorf("%d nodes were up meanwhile; want replacements first", fewest)
	}
	f.ready(2)
	f.patchPool(pool, func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64(3)) })
	f.ready(3)
	f.patchPool(pool, func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64(1)) })
	f.ready(1)
	if f.hasLogged("watching interruption queue", "") {
		t.Error("a queue is watched although there is none")
	}
}
