package flow_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// Group H of the failure modes, and S-047. H09 is a benchmark. Not tested here: H05, which needs a second
// cluster; H10 and H14, which are unit tests.

// sendQueueMessage puts a text into the interruption queue.
func (f *flow) sendQueueMessage(body string) {
	f.Helper()
	f.callControlAPI(http.MethodPost, "message?queue="+world.Queue, body)
}

// spotInterruptionNotice is what EventBridge sends for a spot instance that goes.
func spotInterruptionNotice(instance string) string {
	return fmt.Sprintf(`{"version":"0","id":"x","detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2","account":%q,"time":%q,"region":%q,`+
		`"resources":["arn:aws:ec2:eu-west-1a:instance/%s"],"detail":{"instance-id":%q,"instance-action":"terminate"}}`,
		world.Account, time.Now().UTC().Format(time.RFC3339), world.Region, instance, instance)
}

// S-012, S-047, S-027, S-049, S-203, LC-18: a spot node is interrupted. Its claim goes and a replacement is on its way before the
// instance is taken, and the pods run again. How quickly is measured by make bench-controller.
func TestS_047_SpotInterruption(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.deploy("inflate", 2, stopsAfter(1))
	f.waitForUnschedulable(2)
	f.pool("", onlyTypes("m5.xlarge", "m5a.xlarge"), onlySpot) // either holds both pods
	f.waitForRunningPods("inflate", 2)
	claim := f.ready(1)[0]
	f.sendSpotNotice(&claim, "5m")
	f.claim("is new", func(c *karpv1.NodeClaim) bool { return c.UID != claim.UID })
	for _, c := range f.claims() {
		if c.UID == claim.UID && !isDeleting(&c) {
			t.Errorf("a replacement was launched before %s was requested to terminate", c.Name)
		}
	}
	f.event("NodeClaim", claim.Name, "SpotInterrupted", "")
	f.event("NodeClaim", claim.Name, "TerminatingOnInterruption", "")
	f.waitForRunningPods("inflate", 2)
	f.waitUntilGone(&claim)
	next := f.ready(1)[0] // for both pods, although they are evicted one by one
	if next.Labels[corev1.LabelInstanceTypeStable] == claim.Labels[corev1.LabelInstanceTypeStable] && next.Labels[corev1.LabelTopologyZone] == claim.Labels[corev1.LabelTopologyZone] {
		t.Errorf("the successor is of the offering that was just taken back: %s in %s", next.Labels[corev1.LabelInstanceTypeStable], next.Labels[corev1.LabelTopologyZone])
	}
	if !f.hasLogged("initiating delete from interruption message", claim.Name) {
		t.Error("the log says nothing of the interruption (S-172)")
	}
}

// FM H01: messages that are none are dropped, and the next one is handled.
func TestFM_H01_MalformedMessages(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlySpot)
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	for _, body := range []string{"{", "null", "[]", "text", `{"detail-type":7}`, `{"version":"0","source":"aws.ec2","detail-type":"of a kind yet to come","detail":{}}`, strings.Repeat("x", 200_000)} {
		f.sendQueueMessage(body)
	}
	f.sendSpotNotice(&claim, "60s")
	f.waitUntilGone(&claim)
	f.waitUntil(soon, "an empty queue", func() (bool, string) {
		queues := f.callControlAPI(http.MethodGet, "queues", "")
		return !strings.Contains(queues, "of a kind yet to come"), queues
	})
	f.waitForRunningPods("inflate", 1)
}

// FM H02, H08: the same message five times, which cannot be deleted at first, leads to one deletion.
func TestFM_H02_TheSameMessageAgain(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	fault := serviceFault("sqs:DeleteMessage*", "")
	fault.Count = 2
	f.awsFault(fault)
	for range 5 {
		f.sendQueueMessage(spotInterruptionNotice(instanceOf(&claim)))
	}
	f.waitUntilGone(&claim)
	f.waitForRunningPods("inflate", 1)
	f.checkStays(12*time.Second, "one successor", func() (bool, string) {
		n := len(f.allInstances())
		return n == 2, fmt.Sprintf("%d instances", n)
	})
}

// FM H03: the message comes before the claim is known by its instance.
func TestFM_H03_MessageComesEarly(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.nodeFault(joinLate(10 * time.Second))
	f.pool("", onlySpot)
	f.deploy("inflate", 1)
	f.waitUntil(soon, "an instance", func() (bool, string) { return len(f.liveInstances()) == 1, "" })
	first := f.liveInstances()[0].ID
	f.callControlAPI(http.MethodPost, "interrupt", fmt.Sprintf(`{"instance":%q,"notice":"45s"}`, first))
	f.waitForRunningPods("inflate", 1, later)
	if f.stateOf(first) == "running" {
		t.Errorf("instance %s still runs", first)
	}
}

// FM H04: a late message for an instance that is gone does nothing.
func TestFM_H04_LateMessage(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlySpot)
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.remove(&claim)
	f.waitUntilGone(&claim)
	f.waitForRunningPods("inflate", 1)
	next := f.ready(1)[0]
	f.sendQueueMessage(spotInterruptionNotice(instanceOf(&claim)))
	f.checkStays(8*time.Second, "the successor", func() (bool, string) {
		c := f.claims()
		return len(c) == 1 && c[0].UID == next.UID && !isDeleting(&c[0]), sayConditions(c)
	})
}

// FM H06, H07: the queue cannot be read for a while. Provisioning goes on, and afterwards the messages are
// read.
func TestFM_H07_QueueCannotBeRead(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	mend := f.awsFault(awsemu.Fault{Action: "sqs:ReceiveMessage", Code: "AccessDenied", Message: "broken by the test", Status: http.StatusForbidden})
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	before := len(f.world.AWS.Calls(wire.SQS, "ReceiveMessage"))
	f.checkStays(10*time.Second, "at most fifty calls of ReceiveMessage", func() (bool, string) {
		n := len(f.world.AWS.Calls(wire.SQS, "ReceiveMessage")) - before
		return n <= 50, fmt.Sprint(n)
	})
	f.sendQueueMessage(spotInterruptionNotice(instanceOf(&claim)))
	mend()
	f.waitUntilGone(&claim, later)
	f.waitForRunningPods("inflate", 1)
}

// FM H11: the pods need longer than the notice. They are evicted at once, and run elsewhere.
func TestFM_H11_PodsNeedLonger(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlySpot)
	f.deploy("slow", 1, stopsAfter(600))
	pod := f.waitForRunningPods("slow", 1)[0]
	claim := f.ready(1)[0]
	f.sendSpotNotice(&claim, "45s")
	f.event("Pod", pod.Name, "Evicted", "")
	f.waitUntilGone(&claim, later)
	f.waitUntil(later, "a pod that runs", func() (bool, string) {
		for _, p := range f.pods("slow") {
			if p.UID != pod.UID && p.Status.Phase == corev1.PodRunning {
				return true, ""
			}
		}
		return false, ""
	})
}

// FM H12, S-137: recommendations are events, and nothing else. The other rules of S-137: warnings in TestS_047, changes
// of state in TestFM_E05, scheduled changes in TestAWS_7_1.
func TestFM_H12_RebalanceRecommendations(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlySpot)
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	for range 20 {
		f.callControlAPI(http.MethodPost, "rebalance", fmt.Sprintf(`{"instance":%q}`, instanceOf(&claim)))
	}
	f.event("NodeClaim", claim.Name, "SpotRebalanceRecommendation", "")
	f.checkStays(5*time.Second, "the claim", func() (bool, string) {
		c := f.claims()
		return len(c) == 1 && !isDeleting(&c[0]), sayConditions(c)
	})
}

// S-137: a scheduled change of the host leads to a replacement.
func TestAWS_7_1_ScheduledChange(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.callControlAPI(http.MethodPost, "health", fmt.Sprintf(`{"instance":%q}`, instanceOf(&claim)))
	f.event("NodeClaim", claim.Name, "InstanceUnhealthy", "")
	f.waitUntilGone(&claim)
	f.waitForRunningPods("inflate", 1)
}

// FM H13, S-144: a termination handler is installed too. It cordons, taints and drains the node that is
// interrupted; the end is the same, and neither undoes what the other one did.
func TestFM_H13_TerminationHandlerIsInstalledToo(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.deploy("inflate", 2, stopsAfter(1))
	f.waitForUnschedulable(2)
	f.pool("", onlyTypes("m5.xlarge", "m5a.xlarge"), onlySpot) // either holds both pods
	pods := f.waitForRunningPods("inflate", 2)
	claim := f.ready(1)[0]
	node := f.nodeOf(&claim)
	f.sendSpotNotice(&claim, "60s")
	patch(f, node, func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Labels["aws-node-termination-handler/action"] = "cordon-and-drain"
	})
	for i := range pods {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods[i].Name, Namespace: pods[i].Namespace}}
		if err := f.kube.SubResource("eviction").Create(t.Context(), &pods[i], eviction); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	f.waitUntil(soon, "the node goes and stays cordoned until then", func() (bool, string) {
		now := &corev1.Node{}
		err := f.kube.Get(t.Context(), keyOf(node), now)
		if apierrors.IsNotFound(err) {
			return true, ""
		}
		if err == nil && !now.Spec.Unschedulable {
			t.Fatal("the node was uncordoned")
		}
		return false, "it is there"
	})
	f.waitUntilGone(&claim)
	f.waitForRunningPods("inflate", 2)
	if n := len(f.allInstances()); n > 3 {
		t.Errorf("%d instances, want the first and one for each pod at most", n)
	}
}

// IR-05, IR-06: five spot nodes of a Deployment are on different spot pools, so that one that is reclaimed takes two of them at most.
// Its claims leave EC2 a choice of types. The recorded prices are too far apart for 3 %, so that an overlay makes them equal.
func TestIR_05_SpotNodesOfADeployment(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.waitForOverlayCondition(f.createOverlay("-equal", `spec: {price: "0.08", requirements: []}`), metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	f.deploy("inflate", 5, withRequests("3", "4Gi"))
	f.waitForUnschedulable(5)
	f.pool("", onlySpot, withRequirement("karpenter.k8s.aws/instance-cpu", corev1.NodeSelectorOpIn, "4"))
	f.waitForRunningPods("inflate", 5)
	on := map[string]int{}
	for _, c := range f.ready(5) {
		on[c.Labels[corev1.LabelInstanceTypeStable]+" in "+c.Labels[corev1.LabelTopologyZone]]++
		for _, r := range c.Spec.Requirements {
			if r.Key == corev1.LabelInstanceTypeStable && len(r.Values) < 3 {
				t.Errorf("claim %s names only %v", c.Name, r.Values)
			}
		}
	}
	for at, nodes := range on {
		if nodes > 2 {
			t.Errorf("%d of 5 nodes are %s: %v", nodes, at, on)
		}
	}
	t.Logf("spot pools: %v", on)
}

// IR-01, IR-03, IR-04: two pods that wait get one large spot node, which is a little cheaper than two small ones. EC2 recommends to leave it:
// it stays, but the next two pods get two small nodes, because what was observed of the large type in its zone counts. When a small one
// is interrupted its pod gets a node of the large type.
func TestIR_01_WhatIsObservedChangesTheNextLaunch(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withFlags() // what a controller observed counts for hours
	const large, small = "r5n.2xlarge", "r5b.xlarge"
	first, next := f.name+"-first", f.name+"-next"
	// With the fee for a node, 0.02 $, one large node counts 0.320 $ and two small ones 0.325 $. A recommendation counts 5 % of the
	// price of the large one, at least 0.012 $.
	for name, price := range map[string]string{large: "0.3", small: "0.1425"} {
		o := f.createOverlay("-"+strings.ReplaceAll(name, ".", "-"), fmt.Sprintf(`spec: {price: %q, requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [%s]}]}`, price, name), first, next)
		f.waitForOverlayCondition(o, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	}
	launch := func(name, pool string) []karpv1.NodeClaim { // for two pods that are planned together
		t.Helper()
		f.deploy(name, 2, withNodeSelector(karpv1.LabelNodePool, pool), withRequests("3", "4Gi"), stopsAfter(1))
		f.waitForUnschedulable(2)
		f.pool(strings.TrimPrefix(pool, f.name), onlyTypes(large, small), onlySpot, withRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "eu-west-1a"))
		f.waitForRunningPods(name, 2)
		f.ready(len(f.claims()))
		return f.claims(pool)
	}
	before := launch("first", first)
	if got := typesOf(before); !slices.Equal(got, []string{large}) {
		t.Fatalf("two pods run on %v, want one %s", got, large)
	}
	f.callControlAPI(http.MethodPost, "rebalance", fmt.Sprintf(`{"instance":%q}`, instanceOf(&before[0])))
	f.event("NodeClaim", before[0].Name, "SpotRebalanceRecommendation", "")
	after := launch("next", next)
	if got := typesOf(after); !slices.Equal(got, []string{small, small}) {
		t.Errorf("two pods run on %v, want two %s: to leave the %s in this zone was recommended", got, small, large)
	}
	if now := f.claims(first); len(now) != 1 || now[0].UID != before[0].UID || isDeleting(&now[0]) {
		t.Errorf("the node did not stay: %s", sayConditions(now))
	}
	f.sendSpotNotice(&after[0], "5m")
	f.waitUntilGone(&after[0])
	f.waitForRunningPods("next", 2)
	f.ready(3)
	if got := typesOf(f.claims(next)); !slices.Equal(got, []string{small, large}) {
		t.Errorf("after the interruption the nodes are %v, want a %s and a %s", got, small, large)
	}
}
