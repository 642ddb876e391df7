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

// with runs a controller with other flags in place of the one that all tests share.
func (f *flow) with(flags ...string) {
	f.Helper()
	f.withRights(nil, flags...)
}

// withRights is with, for a controller that is granted more than by default: what values of the chart add.
func (f *flow) withRights(values []string, flags ...string) {
	f.Helper()
	f.down()
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

// commands are the decisions about nodes of the test that the controller began to carry out, as reason and
// decision.
func (f *flow) commands() []string {
	f.Helper()
	var list []string
	for _, line := range f.log() {
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

// oversized makes one node of a type that holds the large pod, which then goes: the small one stays.
func (f *flow) oversized() karpv1.NodeClaim {
	f.Helper()
	large := f.deploy("large", 1, requests("6", "8Gi"))
	f.running("large", 1)
	f.deploy("inflate", 1, requests("500m", "512Mi"))
	f.running("inflate", 1)
	old := f.ready(1)[0]
	f.scale(large, 0)
	f.running("large", 0)
	return old
}

// Disruption 15a: Balanced does not replace a node to save less than half of its cost, and counts that. The
// default policy does.
func TestDisruption_15a_BalancedRejectsAMoveWorthLittle(t *testing.T) {
	t.Parallel()
	f := newFlow(t, calm)
	pool := f.pool("", types("c5.2xlarge", "m5.xlarge")) // saves 44 %
	old := f.oversized()
	f.become(pool, consolidates, func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationBalanced })
	f.await(soon, "a score that is too low", func() (bool, string) {
		return slices.ContainsFunc(f.log(), func(line string) bool {
			return strings.Contains(line, `"message":"consolidation score"`) && strings.Contains(line, f.name) && strings.Contains(line, `"approved":false`)
		}), ""
	})
	f.untouched()
	f.become(pool, consolidates)
	f.gone(&old, later)
	if got := typesOf(f.ready(1)); !slices.Equal(got, []string{"m5.xlarge"}) {
		t.Errorf("the pod runs on %v", got)
	}
	f.running("inflate", 1)
}

// Disruption 25.1: of an empty, a drifted and an underutilized node, the empty one goes first, then the
// drifted one.
func TestDisruption_25_1_OrderOfReasons(t *testing.T) {
	t.Parallel()
	f := newFlow(t, calm)
	pool, claims := f.fragmented(types("m5.xlarge"), pace("0"))
	goes := f.deploy("goes", 1, requests("3500m", "2Gi"))
	f.running("goes", 1)
	f.ready(4)
	f.scale(goes, 0)
	f.running("goes", 0)
	patch(f, &claims[0], func(c *karpv1.NodeClaim) { c.Annotations[karpv1.AnnotationNodePoolHash] = "of-an-older-template" })
	f.become(pool, consolidates)
	f.claim("is drifted", is(karpv1.ConditionDrifted))
	f.await(soon, "all four could be consolidated", func() (bool, string) {
		list := f.claims()
		return !slices.ContainsFunc(list, func(c karpv1.NodeClaim) bool { return !is(karpv1.ConditionConsolidatable)(&c) }), sayConditions(list)
	})
	f.untouched() // by then no pod is expected any longer on the node that was launched last
	f.become(pool, func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = nil }, pace("1"))
	f.gone(&claims[0], later)
	f.ready(2)
	f.running("inflate", 3)
	var reasons []string
	for _, c := range f.commands() {
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
	f := newFlow(t, calm)
	pool, before := f.fragmented(types("m5.xlarge"), spot)
	f.become(pool, consolidates, require(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, "m5.xlarge", "m5.large"))
	f.await(later, "two of the three nodes are left", func() (bool, string) {
		n := len(f.claims())
		return n == 2, fmt.Sprint(n)
	})
	after := f.ready(2)
	for i := range after {
		if !slices.ContainsFunc(before, func(c karpv1.NodeClaim) bool { return c.Name == after[i].Name }) {
			t.Errorf("%s is new: a spot node was replaced without the gate", after[i].Name)
		}
	}
	f.running("inflate", 3)
	f.event("Node", "", "Unconsolidatable", "SpotToSpotConsolidation")
	f.untouched()
}

// Issue 6, demand 2: three nodes that are half empty and dear become fewer or cheaper ones in one move, not
// only one by one.
func TestDisruption_15_SeveralNodesBecomeSeveralOthers(t *testing.T) {
	t.Parallel()
	f := newFlow(t, calm)
	pool := f.pool("", types("m5.2xlarge"), pace("100%"))
	filler := f.deploy("filler", 3, requests("5500m", "4Gi"))
	f.running("filler", 3)
	f.deploy("inflate", 3, requests("1500m", "2Gi"))
	f.running("inflate", 3)
	f.ready(3)
	f.scale(filler, 0)
	f.running("filler", 0)
	f.become(pool, consolidates, require(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, "m5.large", "m5.xlarge", "m5.2xlarge"))
	f.await(later, "no dear node is left", func() (bool, string) {
		list := typesOf(f.claims())
		return len(list) > 0 && !slices.Contains(list, "m5.2xlarge"), fmt.Sprint(list)
	})
	pods := f.running("inflate", 3)
	got := typesOf(f.claims())
	if !slices.Equal(got, []string{"m5.large", "m5.xlarge"}) && !slices.Equal(got, []string{"m5.large", "m5.large", "m5.large"}) {
		t.Errorf("%d pods run on %v", len(pods), got)
	}
	if !slices.Contains(f.commands(), "underutilized replace") {
		t.Errorf("the log says %v", f.commands())
	}
}

// Disruption 25.6, FM D01: a pod that may not be disrupted is bound while its node is held. The node is
// released, and no pod on it is evicted.
func TestDisruption_25_6_AProtectedPodComesWhileItsNodeIsHeld(t *testing.T) {
	t.Parallel()
	f := newFlow(t, calm)
	pool, claims := f.fragmented(types("m5.xlarge"))
	var once sync.Once
	held := make(chan string, 1)
	for i := range claims {
		match := apiproxy.Match{Verb: "patch", Resource: "nodes", Name: claims[i].Status.NodeName, Body: karpv1.TaintKeyDisrupted}
		_, cancel := f.world.Proxy.Once(apiproxy.Trigger{Match: match, Moment: apiproxy.BeforeAnswer, Run: func(r apiproxy.Request) {
			once.Do(func() { f.bind("late", r.Name); held <- r.Name })
		}})
		f.Cleanup(cancel)
	}
	f.become(pool, consolidates)
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
	f.stays(25*time.Second, "the node stays, with its pods", func() (bool, string) {
		now := on()
		gone := slices.ContainsFunc(before, func(uid string) bool { return !slices.Contains(now, uid) })
		return !gone, fmt.Sprint(now)
	})
	f.unheld()
	if slices.ContainsFunc(f.claims(), func(c karpv1.NodeClaim) bool { return c.Status.NodeName == node && c.DeletionTimestamp != nil }) {
		t.Error("the node goes although a pod on it may not be disrupted")
	}
}

// bind makes a pod that may not be disrupted on a node, past the scheduler.
func (f *flow) bind(name, node string) {
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
	f := newFlow(t, calm)
	pool := f.pool("", types("m5.large"), emptyAfter("1s"), pace("1"), expires("1h"))
	first := f.deploy("first", 1, annotated(karpv1.AnnotationDoNotDisrupt, "true"))
	f.running("first", 1)
	old := f.ready(1)[0]
	f.become(pool, expires(karpv1.Never))
	second := f.deploy("second", 1)
	f.running("second", 1)
	f.older(&old, 2*time.Hour)
	f.claim("expired", func(c *karpv1.NodeClaim) bool { return c.Name == old.Name && deleting(c) })
	other := f.claim("stays", func(c *karpv1.NodeClaim) bool { return c.Name != old.Name })
	f.scale(second, 0)
	f.running("second", 0)
	f.stays(25*time.Second, "the empty node waits", func() (bool, string) {
		return !slices.ContainsFunc(f.claims(), func(c karpv1.NodeClaim) bool { return c.Name == other.Name && deleting(&c) }), ""
	})
	f.scale(first, 0)
	f.gone(&old)
	f.gone(other)
}

// Disruption 25.4, FM K11: a budget that cannot be read closes its pool for every reason.
func TestDisruption_25_4_ABrokenBudgetClosesItsPool(t *testing.T) {
	t.Parallel()
	f := newFlow(t, calm)
	pool, _ := f.fragmented(types("m5.xlarge"))
	f.become(pool, consolidates, pace("100%"), func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets[0].Schedule, p.Spec.Disruption.Budgets[0].Duration = new("61 * * * *"), new(karpv1.Duration("1h"))
	})
	f.event("NodePool", f.name, "DisruptionBlocked", "Underutilized")
	f.untouched()
}

// LC-49, features 3, disruption 18: a static pool has its nodes without any pod, is scaled like a Deployment, and a
// drifted node is replaced before it goes. S-138: this controller has no queue, and runs all the same.
func TestFeatures_3_StaticPools(t *testing.T) {
	t.Parallel()
	f := newFlow(t, alone)
	f.with("--feature-gates=StaticCapacity=true", "--interruption-queue=")
	pool := f.pool("", types("m5.large"), pace("1"), func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64(2)) })
	before := f.ready(2)
	f.become(pool, func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"tier": "gold"} })
	fewest := 2
	for i := range before {
		f.await(later, before[i].Name+" is replaced", func() (bool, string) {
			list := f.claims()
			up := 0
			for j := range list {
				if list[j].DeletionTimestamp == nil && is(karpv1.ConditionInitialized)(&list[j]) {
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
	f.become(pool, func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64(3)) })
	f.ready(3)
	f.become(pool, func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64(1)) })
	f.ready(1)
	if f.logged("watching interruption queue", "") {
		t.Error("a queue is watched although there is none")
	}
}
