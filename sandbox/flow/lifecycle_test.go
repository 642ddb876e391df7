package flow_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

// The edge cases of nodeclaim-lifecycle 15, by their numbers. Case 15 needs a controller that was down for
// an hour, and case 16 is in capacity_test.go.

// 1, FM A02, LC-02: the launch succeeds and its status is not written, five times.
func TestLC_15_01_StatusWriteFails(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.markDisturbed()
	f.proxyFault(apiproxy.Fault{Verb: "patch", Resource: "nodeclaims/status", Name: f.name + "*", Status: http.StatusInternalServerError, Count: 5})
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1, later)
	f.ready(1)
	if n := len(f.allInstances()); n != 1 {
		t.Errorf("%d instances for one claim", n)
	}
}

// 2, FM B03, LC-07: a node that joins without the taint is registered all the same.
func TestLC_15_02_JoinsWithoutTheTaint(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.nodeFault(fakenode.Fault{NoUnregisteredTaint: true})
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.event("NodeClaim", f.name, "UnregisteredTaintMissing", "")
	f.ready(1)
}

// 3, FM B04, LC-06, LC-14: two Nodes with one provider id. The claim is not given to either, and goes after 15 minutes.
func TestLC_15_03_TwoNodesWithOneProviderID(t *testing.T) {
	t.Parallel()
	f := newFlow(t, killsController)
	f.nodeFault(fakenode.Fault{NeverJoin: true})
	f.pool("")
	f.deploy("inflate", 1)
	launched := f.claim("is launched", hasCondition(karpv1.ConditionLaunched))
	up := f.stopController() // else it registers the one that comes first
	mend := f.nodeFault(fakenode.Fault{JoinTwice: true})
	f.waitUntil(soon, "two nodes with the provider id", func() (bool, string) {
		var list corev1.NodeList
		f.list(&list)
		list.Items = slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return n.Spec.ProviderID != launched.Status.ProviderID })
		return len(list.Items) == 2, fmt.Sprint(len(list.Items))
	})
	up()
	claim := f.claim("says that it found two nodes", waitsFor(karpv1.ConditionRegistered, "MultipleNodesFound"))
	f.checkStays(5*time.Second, "the claim", func() (bool, string) {
		c := f.claims()
		return len(c) == 1 && c[0].DeletionTimestamp == nil, sayConditions(c)
	})
	mend()
	f.backdateCondition(claim, karpv1.ConditionRegistered, 16*time.Minute)
	f.waitUntilGone(claim, later)
	f.waitForRunningPods("inflate", 1, later)
}

// 4, FM B10, G8, LC-11: the device plugin never comes up. The claim names the resource, and no second node is
// made.
func TestLC_15_04_DevicePluginMissing(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	mend := f.nodeFault(fakenode.Fault{Without: []corev1.ResourceName{"nvidia.com/gpu"}})
	f.pool("", onlyTypes("g4dn.xlarge"))
	f.deploy("train", 1, func(p *corev1.PodTemplateSpec) {
		gpu := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: gpu, Limits: gpu}
	})
	claim := f.claim("waits for the resource", waitsFor(karpv1.ConditionInitialized, "ResourceNotRegistered"))
	if text := f.waitForCondition(claim, karpv1.ConditionInitialized, metav1.ConditionUnknown, "ResourceNotRegistered").Message; !strings.Contains(text, "nvidia.com/gpu") {
		t.Errorf("the message %q does not name the resource", text)
	}
	f.checkStays(25*time.Second, "one claim", func() (bool, string) { return len(f.claims()) == 1, sayConditions(f.claims()) })
	mend()
	f.waitForRunningPods("train", 1)
}

// 5, FM L14, LC-22: a claim that was never launched goes at once, and nothing is terminated.
func TestLC_15_05_DeletedBeforeLaunch(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.classReady()
	f.markDisturbed()
	f.awsFault(serviceFault("ec2:CreateFleet", f.name))
	f.pool("")
	d := f.deploy("inflate", 1)
	claim := f.claim("has tried to launch", func(c *karpv1.NodeClaim) bool { return waitsFor(karpv1.ConditionLaunched, "InternalError")(c) })
	f.scale(d, 0)
	f.remove(claim)
	f.waitUntilGone(claim)
	if len(f.allInstances()) > 0 {
		t.Error("something was launched")
	}
}

// 6, LC-21: a claim that is launched and not registered: its instance goes without a drain.
func TestLC_15_06_DeletedBeforeRegistration(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.nodeFault(fakenode.Fault{NeverJoin: true})
	f.pool("")
	d := f.deploy("inflate", 1)
	claim := f.claim("is launched", hasCondition(karpv1.ConditionLaunched))
	f.scale(d, 0)
	f.remove(claim)
	f.waitUntilGone(claim)
	f.waitUntil(soon, "no instance", func() (bool, string) { return len(f.liveInstances()) == 0, "" })
}

// 7, FM L13, S-049, S-050, LC-19, LC-24, LC-27, LC-35: kubectl delete node drains, and claim and instance go too.
func TestLC_15_07_DeleteNode(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.deploy("inflate", 2, stopsAfter(1))
	f.waitForUnschedulable(2)
	f.pool("", onlyTypes("m5.xlarge")) // holds both pods
	before := f.waitForRunningPods("inflate", 2)
	claim := f.ready(1)[0]
	node := f.nodeOf(&claim)
	f.remove(node)
	f.waitUntil(soon, "the node announces its end", func() (bool, string) {
		list := f.nodes()
		i := slices.IndexFunc(list, func(n corev1.Node) bool { return n.UID == node.UID })
		if i < 0 {
			return true, ""
		}
		return hasTaint(&list[i], karpv1.DisruptedTaint()) && list[i].Labels["node.kubernetes.io/exclude-from-external-load-balancers"] == "karpenter", ""
	})
	f.waitUntilGone(node)
	f.waitUntilGone(&claim)
	f.waitForRunningPods("inflate", 2)
	f.event("Pod", before[0].Name, "Evicted", "")
}

func hasTaint(n *corev1.Node, want corev1.Taint) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == want.Key && t.Effect == want.Effect })
}

// 8, FM E04: an instance ends outside, and its message comes too.
func TestLC_15_08_InstanceEndsOutside(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.callControlAPI("POST", "kill", fmt.Sprintf(`{"instance":%q}`, instanceOf(&claim)))
	f.waitUntilGone(&claim, later)
	f.waitForRunningPods("inflate", 1, later)
}

// 9, FM K01, LC-19, LC-35: a budget that allows nothing holds the drain, visibly; letting go ends it.
func TestLC_15_09_BudgetHoldsTheDrain(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	budget := f.createPodDisruptionBudget("inflate", 0)
	claim := f.ready(1)[0]
	f.remove(&claim)
	f.event("Node", claim.Status.NodeName, "FailedDraining", "inflate-")
	f.checkStays(10*time.Second, "the instance", func() (bool, string) {
		state := f.stateOf(instanceOf(&claim))
		return state == "running", state
	})
	f.remove(budget)
	f.waitUntilGone(&claim)
	f.waitForRunningPods("inflate", 1)
}

// 9, FM L02, LC-20, LC-26, LC-32, LC-36: with a grace period, the pod goes when the deadline less its own grace
// comes. One that needs longer goes earlier, although it is of those that leave last. Claim and node say when.
func TestLC_15_09_DeadlineBeatsTheBudget(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"), withTerminationGracePeriod("25s"))
	f.deploy("inflate", 1, stopsAfter(5), withRequests("500m", "512Mi"))
	inflate := f.waitForRunningPods("inflate", 1)[0]
	f.deploy("last", 1, stopsAfter(20), withRequests("500m", "512Mi"), withCriticalPriority)
	last := f.waitForRunningPods("last", 1)[0]
	f.createPodDisruptionBudget("inflate", 0)
	claim := f.ready(1)[0]
	began := time.Now()
	f.remove(&claim)
	f.claim("has its deadline 25 s after its deletion", func(c *karpv1.NodeClaim) bool {
		at, err := time.Parse(time.RFC3339, c.Annotations[karpv1.AnnotationTerminationTimestamp])
		return c.Name == claim.Name && err == nil && at.Equal(c.DeletionTimestamp.Add(25*time.Second))
	})
	goes := func(pod *corev1.Pod) bool {
		return !slices.ContainsFunc(f.pods(""), func(p corev1.Pod) bool { return p.UID == pod.UID && p.DeletionTimestamp == nil })
	}
	f.waitUntil(soon, "the pod that needs longer is told to go", func() (bool, string) { return goes(&last), "" })
	if goes(&inflate) {
		t.Error("the pod with the shorter grace period did not stay until then")
	}
	f.event("Pod", inflate.Name, "Disrupted", " s to end, it requested 5 s")
	if after := time.Since(began); after < 18*time.Second {
		t.Errorf("the pod was deleted after %s, want 20 s", after)
	}
	f.waitUntilGone(&claim)
	f.event("Pod", last.Name, "Disrupted", " s to end, it requested 20 s")
	f.event("NodeClaim", claim.Name, "TerminationGracePeriodExpiring", "")
	f.event("Node", claim.Status.NodeName, "TerminationGracePeriodExpiring", "")
}

// 10, LC-33: do-not-disrupt with a duration protects that long.
func TestLC_15_10_DoNotDisruptForAWhile(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 1, withAnnotation(karpv1.AnnotationDoNotDisrupt, "40s"))
	pod := f.waitForRunningPods("inflate", 1)[0]
	claim := f.ready(1)[0]
	f.remove(&claim)
	f.waitUntilGone(&claim, later)
	if lived := time.Since(pod.CreationTimestamp.Time); lived < 40*time.Second {
		t.Errorf("the node went %s after its protected pod was made", lived)
	}
}

// S-065, LC-33: do-not-disrupt holds the drain of a deleted node, until the annotation is removed.
func TestS_065_DoNotDisruptHoldsTheDrain(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 1, withAnnotation(karpv1.AnnotationDoNotDisrupt, "true"))
	pod := f.waitForRunningPods("inflate", 1)[0]
	claim := f.ready(1)[0]
	f.remove(&claim)
	f.event("Node", claim.Status.NodeName, "FailedDraining", "")
	f.checkStays(10*time.Second, "the pod", func() (bool, string) {
		pods := f.pods("inflate")
		return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID == pod.UID && p.DeletionTimestamp == nil }), ""
	})
	patch(f, &pod, func(p *corev1.Pod) { delete(p.Annotations, karpv1.AnnotationDoNotDisrupt) })
	f.waitUntilGone(&claim)
}

// 11, FM L08, LC-29: a pod that tolerates everything is not drained and holds nothing up.
func TestLC_15_11_PodThatToleratesEverything(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("stubborn", 1, withTolerations(corev1.Toleration{Operator: corev1.TolerationOpExists}))
	pod := f.waitForRunningPods("stubborn", 1)[0]
	claim := f.ready(1)[0]
	f.remove(&claim)
	f.waitUntilGone(&claim)
	if events := f.events("Pod", pod.Name); slices.ContainsFunc(events, func(e eventsv1.Event) bool { return e.Reason == "Evicted" }) {
		t.Error("it was evicted")
	}
}

// 12, FM J01, LC-28, LC-37: the instance stays until its volume is detached.
func TestLC_15_12_VolumeIsDetachedFirst(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.nodeFault(fakenode.Fault{DetachLate: 15 * time.Second})
	f.pool("")
	d := f.createVolumeWorkload("store")
	f.waitForRunningPods("store", 1)
	claim := f.ready(1)[0]
	f.scale(d, 0)
	f.remove(&claim)
	f.event("Node", claim.Status.NodeName, "AwaitingVolumeDetachment", "")
	f.waitUntil(soon, "the volume is detached while the instance runs", func() (bool, string) {
		state := f.stateOf(instanceOf(&claim))
		if f.hasVolumeAttached(claim.Status.NodeName) && state != "running" { // asked after: what is attached now was so before
			t.Fatalf("the instance is %s with a volume attached", state)
		}
		return !f.hasVolumeAttached(claim.Status.NodeName), state
	})
	f.waitUntilGone(&claim)
}

func (f *flow) hasVolumeAttached(node string) bool {
	f.Helper()
	var list storagev1.VolumeAttachmentList
	f.list(&list)
	return slices.ContainsFunc(list.Items, func(a storagev1.VolumeAttachment) bool { return a.Spec.NodeName == node })
}

// 13, LC-36: a grace period of nothing deletes the pods at once, with one second.
func TestLC_15_13_NoGraceAtAll(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", withTerminationGracePeriod("0s"))
	f.deploy("inflate", 1, stopsAfter(600), withAnnotation(karpv1.AnnotationDoNotDisrupt, "true"))
	f.waitForRunningPods("inflate", 1)
	f.createPodDisruptionBudget("inflate", 0)
	claim := f.ready(1)[0]
	f.remove(&claim)
	f.waitUntilGone(&claim)
}

// 14, FM A07, LC-19: a pool is deleted; its claims go, and the pods find another pool.
func TestLC_15_14_PoolIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	label := func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"flow": f.name} }
	first := f.pool("-first", label, func(p *karpv1.NodePool) { p.Spec.Weight = new(int32(90)) })
	f.pool("-second", label)
	f.deploy("inflate", 3, withNodeSelector("flow", f.name), stopsAfter(1))
	f.waitForRunningPods("inflate", 3)
	f.remove(first)
	f.waitUntilGone(first, later)
	f.waitUntil(later, "no claim of the pool", func() (bool, string) { return len(f.claims(first.Name)) == 0, sayConditions(f.claims()) })
	f.waitForRunningPods("inflate", 3, later)
	if len(f.claims(f.name+"-second")) == 0 {
		t.Error("no claim of the second pool")
	}
}

// 17, FM B01, LC-15, LC-53: nodes never join. After two timeouts the pool says that registration is not healthy,
// and is used all the same.
func TestLC_15_17_RegistrationIsBroken(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	mend := f.nodeFault(fakenode.Fault{NeverJoin: true})
	pool := f.pool("")
	f.deploy("inflate", 1)
	for range 2 {
		claim := f.claim("is launched", func(c *karpv1.NodeClaim) bool { return hasCondition(karpv1.ConditionLaunched)(c) && !isDeleting(c) })
		f.backdateCondition(claim, karpv1.ConditionRegistered, 16*time.Minute)
		f.waitUntilGone(claim)
	}
	f.waitForCondition(pool, karpv1.ConditionNodeRegistrationHealthy, metav1.ConditionFalse, "")
	mend()
	// One pod gets two nodes in five minutes. Without the ageing these would have been half an hour apart.
	for _, pod := range f.pods("inflate") {
		f.remove(&pod)
	}
	f.waitForRunningPods("inflate", 1, later)
}

// RH-01, RH-02, RH-03: of two pools of equal weight the one whose name comes last is used first, until its nodes do not join. It is backed off
// and says so; the next pod gets a node of the other pool, also once the back-off is over. When the pool is mended it comes first again.
func TestRH_01_AHealthyPoolComesFirst(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	same := []func(*karpv1.NodePool){onlyTypes("m5.large"), func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"flow": f.name} }}
	unhealthy := f.pool("-sick", same...)
	f.world.Nodes.Faults().Set(unhealthy.Name, fakenode.Selector{NodePool: unhealthy.Name}, fakenode.Fault{NeverJoin: true})
	mend := func() { f.world.Nodes.Faults().Clear(unhealthy.Name) }
	f.Cleanup(mend)
	both, alone := withNodeSelector("flow", f.name), withRequests("1500m", "2Gi")
	f.deploy("first", 1, both, alone)
	for range 2 {
		claim := f.claim("is launched", func(c *karpv1.NodeClaim) bool { return hasCondition(karpv1.ConditionLaunched)(c) && !isDeleting(c) })
		f.backdateCondition(claim, karpv1.ConditionRegistered, 16*time.Minute)
		f.waitUntilGone(claim)
	}
	f.waitForCondition(unhealthy, karpv1.ConditionNodeRegistrationHealthy, metav1.ConditionFalse, "")
	f.event("Pod", "first", "FailedScheduling", "its last nodes did not register")
	for _, pod := range f.pods("first") { // one pod gets two nodes in five minutes
		f.remove(&pod)
	}
	healthy := f.pool("-healthy", same...)
	f.waitForRunningPods("first", 1)
	f.deploy("insists", 1, withNodeSelector(karpv1.LabelNodePool, unhealthy.Name), alone)
	f.waitUntil(soon, "a claim of the unhealthy pool, whose back-off is over", func() (bool, string) { return len(f.claims(unhealthy.Name)) == 1, sayConditions(f.claims()) })
	f.deploy("second", 1, both, alone)
	f.waitForRunningPods("second", 1)
	if ours, theirs := len(f.claims(healthy.Name)), len(f.claims(unhealthy.Name)); ours != 2 || theirs != 1 {
		t.Errorf("%d claims of the healthy pool and %d of the unhealthy one, want 2 and 1", ours, theirs)
	}
	mend()
	f.waitForRunningPods("insists", 1)
	f.patchPool(unhealthy, withBudget("1")) // any change: what was before it says nothing about the pool as it is now
	f.waitUntil(soon, "the pool is not unhealthy any more", func() (bool, string) {
		if err := f.kube.Get(t.Context(), keyOf(unhealthy), unhealthy); err != nil {
			return false, err.Error()
		}
		now := condition.Find(unhealthy.Status.Conditions, karpv1.ConditionNodeRegistrationHealthy)
		return now != nil && now.Status != metav1.ConditionFalse, fmt.Sprint(now)
	})
	f.deploy("third", 1, both, alone)
	f.waitForRunningPods("third", 1)
	if n := len(f.claims(unhealthy.Name)); n != 2 {
		t.Errorf("%d claims of the pool that was mended, want 2: it comes first again", n)
	}
}

// 18, FM B09, LC-11, LC-12: a startup taint that stays keeps the node uninitialized, and the pods wait for it.
func TestLC_15_18_StartupTaintStays(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: "example.com/not-yet", Effect: corev1.TaintEffectNoSchedule}}
	})
	f.deploy("inflate", 1)
	claim := f.claim("waits for its startup taint", waitsFor(karpv1.ConditionInitialized, "StartupTaintsExist"))
	f.checkStays(25*time.Second, "one claim", func() (bool, string) { return len(f.claims()) == 1, sayConditions(f.claims()) })
	patch(f, f.nodeOf(claim), func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "example.com/not-yet" })
	})
	f.waitForRunningPods("inflate", 1)
	f.ready(1)
}

// LC-16, S-053, S-049: a node that is old enough goes, and its pods find another.
func TestS_053_Expiry(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", withExpireAfter("2h"))
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.backdateCreation(&claim, time.Hour)
	f.checkStays(5*time.Second, "the claim, which is an hour old", func() (bool, string) {
		list := f.claims()
		return len(list) == 1 && !isDeleting(&list[0]), sayConditions(list)
	})
	f.backdateCreation(&claim, 2*time.Hour)
	f.waitUntilGone(&claim, later)
	if n := f.sumMetric("karpenter_nodeclaims_disrupted_total", `reason="expired"`); n < 1 {
		t.Errorf("%v claims are counted as expired", n)
	}
	f.waitForRunningPods("inflate", 1)
}

// 15, FM C07: the controller was down while a node expired; it goes at the start, and no timer begins anew.
func TestLC_15_15_ExpiredWhileTheControllerWasDown(t *testing.T) {
	t.Parallel()
	f := newFlow(t, killsController)
	f.pool("", withExpireAfter("1h"))
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	up := f.stopController()
	f.backdateCreation(&claim, 2*time.Hour)
	up()
	f.claim("is deleting, or another one", func(c *karpv1.NodeClaim) bool { return c.UID != claim.UID || isDeleting(c) })
	f.waitUntilGone(&claim)
	f.waitForRunningPods("inflate", 1)
}
