package flow_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// Group L of the failure modes, what is not among the edge cases in lifecycle_test.go.

// FM L01, S-067, LC-31: a pod has a day to end, and its pool sets no limit. It is given that day. The drain waits
// for it, and says so; node and instance stay as they are meanwhile, and so do critical pods, which go last.
func TestFM_L01_ADayOfGrace(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"))
	f.deploy("slow", 1, stopsAfter(24*60*60), withRequests("500m", "512Mi"))
	pod := f.waitForRunningPods("slow", 1)[0]
	f.deploy("last", 1, withCriticalPriority, withRequests("500m", "512Mi"))
	last := f.waitForRunningPods("last", 1)[0]
	claim := f.ready(1)[0]
	f.remove(&claim)
	f.event("Pod", pod.Name, "Evicted", "")
	f.event("Node", claim.Status.NodeName, "FailedDraining", pod.Name)
	f.claim("says that its drain waits for the grace period", func(c *karpv1.NodeClaim) bool {
		d := condition.Find(c.Status.Conditions, karpv1.ConditionDrained)
		return c.Name == claim.Name && d != nil && d.Status == metav1.ConditionUnknown && strings.Contains(d.Message, "grace period") && strings.Contains(d.Message, pod.Name)
	})
	f.checkStays(5*time.Second, "the node, tainted, its pod and its instance", func() (bool, string) {
		n := f.nodeOf(&claim)
		there := slices.ContainsFunc(f.pods("slow"), func(p corev1.Pod) bool {
			return p.UID == pod.UID && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 24*60*60
		}) && slices.ContainsFunc(f.pods("last"), func(p corev1.Pod) bool { return p.UID == last.UID && p.DeletionTimestamp == nil })
		state := f.stateOf(instanceOf(&claim))
		return there && state == "running" && hasTaint(n, karpv1.DisruptedTaint()), fmt.Sprintf("%s, %v, pods as before: %v", state, n.Spec.Taints, there)
	})
	if err := f.kube.Delete(t.Context(), &pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	f.waitUntilGone(&claim)
	f.waitForRunningPods("slow", 1)
	f.waitForRunningPods("last", 1)
}

// FM L17, LC-23, LC-25, LC-28: a user deletes the Node first. The claim ends all the same, its instance with it, and all
// is counted once.
func TestFM_L17_TheNodeIsDeletedFirst(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]struct {
		first    func(*flow, *karpv1.NodeClaim, *corev1.Node)
		finished float64 // nodes that we let go
	}{
		"once its instance has ended": {func(f *flow, c *karpv1.NodeClaim, n *corev1.Node) {
			f.callControlAPI(http.MethodPost, "kill", fmt.Sprintf(`{"instance":%q}`, instanceOf(c)))
			f.remove(n)
		}, 1},
		"and takes our finalizer off, while a pod holds the drain": {func(f *flow, c *karpv1.NodeClaim, n *corev1.Node) {
			f.remove(c)
			f.event("Node", n.Name, "FailedDraining", "")
			f.remove(n)
			if err := f.kube.Patch(f.Context(), n, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
				f.Fatal(err)
			}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t, disturbsNone)
			f.pool("", onlyTypes("m5.large"))
			f.deploy("held", 1, withAnnotation(karpv1.AnnotationDoNotDisrupt, "true"))
			f.waitForRunningPods("held", 1)
			claim := f.ready(1)[0]
			node := f.nodeOf(&claim)
			act.first(f, &claim, node)
			f.waitUntilGone(node)
			f.waitUntilGone(&claim, later)
			if state := f.stateOf(instanceOf(&claim)); state != "terminated" {
				t.Errorf("the claim is gone and its instance is %s", state)
			}
			f.waitUntil(soon, "the claim is counted", func() (bool, string) {
				n := f.sumMetric("karpenter_nodeclaims_terminated_total")
				return n > 0, fmt.Sprint(n)
			})
			if n := f.sumMetric("karpenter_nodeclaims_terminated_total"); n != 1 {
				t.Errorf("%v claims are counted", n)
			}
			if n := f.sumMetric("karpenter_nodes_terminated_total"); n != act.finished {
				t.Errorf("%v nodes are counted, want %v", n, act.finished)
			}
			f.waitForRunningPods("held", 1)
		})
	}
}

// FM L19: a pool of sixty nodes is deleted. They drain at the same time, never are more of their pods down than
// the budget allows, and the controller keeps its lease throughout.
func TestFM_L19_APoolOfSixtyNodesGoesAtOnce(t *testing.T) {
	t.Parallel()
	const nodes, down = 60, 6
	f := newFlow(t, exclusive)
	f.runLeader()
	label := func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"flow": f.name} }
	first := f.pool("-first", label, onlyTypes("m5.large"), func(p *karpv1.NodePool) { p.Spec.Weight = new(int32(90)) })
	f.pool("-second", label, onlyTypes("m5.4xlarge"))
	f.deploy("inflate", nodes, withNodeSelector("flow", f.name)) // one to a node of the first pool
	f.waitForRunningPods("inflate", nodes, later)
	f.ready(nodes)
	budget := f.createPodDisruptionBudget("inflate", down)
	allows := func(least int32) (bool, string) {
		if err := f.kube.Get(t.Context(), client.ObjectKeyFromObject(budget), budget); err != nil {
			return false, err.Error()
		}
		return budget.Status.DisruptionsAllowed >= least, fmt.Sprint(budget.Status)
	}
	f.waitUntil(soon, "the budget is computed", func() (bool, string) { return allows(down) })
	holder, longestPause := f.leaseHolder(), f.witnessPauses()

	f.remove(first)
	most := 0
	f.waitUntil(later, "no node of the pool", func() (bool, string) {
		if _, now := allows(0); budget.Status.CurrentHealthy < budget.Status.DesiredHealthy {
			t.Fatalf("more pods are down than the budget allows: %s", now)
		}
		going := 0
		for _, n := range f.nodes() {
			if n.Labels[karpv1.LabelNodePool] == first.Name && hasTaint(&n, karpv1.DisruptedTaint()) {
				going++
			}
		}
		most = max(most, going)
		left := len(f.claims(first.Name))
		return left == 0, fmt.Sprintf("%d claims are left, %d nodes drain", left, going)
	})
	f.waitUntilGone(first)
	f.waitForRunningPods("inflate", nodes)
	t.Logf("%d nodes drained at the same time", most)
	if most <= 2*down {
		t.Errorf("only %d nodes drained at the same time", most)
	}
	pause := longestPause()
	if now := f.leaseHolder(); now != holder || f.own.Starts() != 1 {
		said := fmt.Sprintf("the lease went from %s to %s; the controller was started %d times; a lease beside it was not renewed for %s", holder, now, f.own.Starts(), pause)
		if pause < leaseDeadline/2 {
			t.Error(said)
		}
		t.Log(said)
	}
}

// runLeader runs a controller with a lease, as in a cluster, in place of the one that all share.
func (f *flow) runLeader() {
	f.Helper()
	f.stopController()
	c, err := f.world.RunController(f.Context(), world.ControllerOptions{
		Binary: binary, Proxied: true, LeaderElection: true, Restart: true, Log: f.name + ".log", Flags: []string{"--log-level=debug"},
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

// FM L21, LC-30: a node without pods is not ended at once: for five seconds from its taint on, a pod may
// show up that was bound before the scheduler knew of it.
func TestFM_L21_AnEmptyNodeWaitsForARacingBind(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"))
	d := f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.scale(d, 0)
	f.waitForRunningPods("inflate", 0)
	tainted := f.whenTainted(&claim, func() {})
	f.remove(&claim)
	f.waitUntilGone(&claim)
	waited := f.endOf(&claim).Sub(<-tainted)
	t.Logf("the instance was ended %s after the taint", waited)
	if waited < 5*time.Second {
		t.Errorf("the instance was ended %s after the taint, want 5 s at least", waited)
	}
}

// FM L21: a pod that was bound to an empty node at the moment of its taint is seen, and is waited for.
func TestFM_L21_ARacingBindIsSeen(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"))
	d := f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.scale(d, 0)
	f.waitForRunningPods("inflate", 0)
	f.whenTainted(&claim, func() { f.createBoundPod("late", claim.Status.NodeName) })
	f.remove(&claim)
	f.event("Node", claim.Status.NodeName, "FailedDraining", "late")
	f.checkStays(7*time.Second, "the instance", func() (bool, string) {
		state := f.stateOf(instanceOf(&claim))
		return state == "running", state
	})
	f.remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "late", Namespace: f.namespace}})
	f.waitUntilGone(&claim)
}

// whenTainted calls a function once the node of a claim is tainted, and returns when that was.
func (f *flow) whenTainted(c *karpv1.NodeClaim, run func()) <-chan time.Time {
	f.Helper()
	at := make(chan time.Time, 1)
	match := apiproxy.Match{Verb: "patch", Resource: "nodes", Name: c.Status.NodeName, Body: karpv1.TaintKeyDisrupted}
	_, cancel := f.world.Proxy.Once(apiproxy.Trigger{Match: match, Moment: apiproxy.AfterResponse, Run: func(apiproxy.Request) {
		at <- time.Now()
		run()
	}})
	f.Cleanup(cancel)
	return at
}

// endOf is when AWS was queried to end the instance of a claim.
func (f *flow) endOf(c *karpv1.NodeClaim) time.Time {
	f.Helper()
	for _, call := range f.world.AWS.Calls(wire.EC2, "TerminateInstances") {
		if strings.Contains(fmt.Sprint(call.Parameters), instanceOf(c)) {
			return call.Time
		}
	}
	f.Fatalf("the end of %s was not requested", instanceOf(c))
	return time.Time{}
}
