package flow_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// S-001, S-002, S-005, S-040, S-042: kubectl create deployment nginx --image=nginx --replicas=10.
func TestS_040_TenPodsGetNodesAndRun(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.pool("", onlySpot)
	f.deploy("nginx", 10, func(p *corev1.PodTemplateSpec) {
		p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}}, TerminationGracePeriodSeconds: new(int64(1))}
	})
	f.waitForRunningPods("nginx", 10)
	for _, c := range f.ready(len(f.claims())) {
		if c.Labels[karpv1.LabelCapacityType] != karpv1.CapacityTypeSpot {
			t.Errorf("claim %s is %s, the pool allows spot", c.Name, c.Labels[karpv1.LabelCapacityType])
		}
	}
	f.oneFleetForMany()
	// S-003: the scheduler of Kubernetes placed the pods.
	for _, p := range f.pods("nginx") {
		if p.Spec.SchedulerName != "default-scheduler" || p.Spec.NodeName == "" {
			t.Errorf("pod %s of %s on %q", p.Name, p.Spec.SchedulerName, p.Spec.NodeName)
		}
	}
}

// S-103, S-174, S-196, S-008: kubectl scale deployment inflate --replicas=5, then 0, which leaves no node of the pool.
func TestS_103_InflateUpAndToZero(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", emptyAfter("1s"))
	inflate := f.deploy("inflate", 0)
	f.checkStays(3*time.Second, "no claim", func() (bool, string) { return len(f.claims()) == 0, sayConditions(f.claims()) })
	f.scale(inflate, 5)
	f.waitForRunningPods("inflate", 5)
	node := f.ready(len(f.claims()))[0].Status.NodeName
	f.scale(inflate, 0)
	f.nothingLeft()
	for message, text := range map[string]string{"disrupting node(s)": `"reason":"empty"`, "tainted node": "karpenter.sh/disrupted", "deleted node": "provider-id"} {
		if !slices.ContainsFunc(f.controllerLog(), func(line string) bool {
			return strings.Contains(line, `"message":"`+message+`"`) && strings.Contains(line, text) && strings.Contains(line, node)
		}) {
			t.Errorf("S-174 the log does not say %s of %s", message, node)
		}
	}
}

// S-041, S-140: 100m and 128Mi with a selector for arm64 lead to one small arm64 spot node.
func TestS_041_ArmSpot(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.deploy("inflate", 3, withRequests("100m", "128Mi"), withNodeSelector(karpv1.LabelNodePool, f.name, corev1.LabelArchStable, "arm64"))
	f.waitForUnschedulable(3)
	f.pool("", onlySpot, withRequirement(corev1.LabelArchStable, corev1.NodeSelectorOpIn, "arm64", "amd64"), func(p *karpv1.NodePool) {
		withRequirement("karpenter.k8s.aws/instance-category", corev1.NodeSelectorOpIn, "t", "c", "m", "r")(p)
	})
	f.waitForRunningPods("inflate", 3)
	claims := f.ready(1)
	node := f.nodeOf(&claims[0])
	if node.Labels[corev1.LabelArchStable] != "arm64" || node.Labels[karpv1.LabelCapacityType] != karpv1.CapacityTypeSpot {
		t.Errorf("the node is %s %s", node.Labels[corev1.LabelArchStable], node.Labels[karpv1.LabelCapacityType])
	}
}

// S-010, S-060, S-051: a taint of the pool keeps those out that do not tolerate it, and a toleration lets in.
func TestS_060_Taints(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	taint := corev1.Taint{Key: "example.com/special-workload", Value: "true", Effect: corev1.TaintEffectNoSchedule}
	f.pool("", onlyTypes("m5.xlarge"), func(p *karpv1.NodePool) { p.Spec.Template.Spec.Taints = []corev1.Taint{taint} })
	f.deploy("plain", 1)
	f.event("Pod", "plain", "FailedScheduling", "example.com/special-workload")
	if claims := f.claims(); len(claims) > 0 {
		t.Errorf("a claim for a pod that does not tolerate the pool: %s", sayConditions(claims))
	}
	f.deploy("special", 2, withTolerations(corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: "true", Effect: taint.Effect}))
	f.waitForRunningPods("special", 2)
	claim := f.ready(1)[0]
	if node := f.nodeOf(&claim); !slices.Contains(node.Spec.Taints, taint) {
		t.Errorf("taints of %s: %v", node.Name, node.Spec.Taints)
	}
	for _, p := range f.pods("plain") {
		if p.Spec.NodeName != "" {
			t.Errorf("pod %s slipped onto %s", p.Name, p.Spec.NodeName)
		}
	}
}

// S-063, S-052, LC-08, LC-10: labels of the pool reach the node and can be selected, beside those that every
// node has. The node belongs to its claim, which holds it with a finalizer.
func TestS_063_Labels(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", func(p *karpv1.NodePool) {
		p.Spec.Template.ObjectMeta.Labels = map[string]string{"node-type": f.name, "workload-type": "platform"}
		p.Spec.Template.ObjectMeta.Annotations = map[string]string{"example.com/owner": "platform"}
	})
	f.deploy("inflate", 1, withNodeSelector("node-type", f.name))
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	node := f.nodeOf(&claim)
	if len(node.OwnerReferences) != 1 || node.OwnerReferences[0].UID != claim.UID || !slices.Contains(node.Finalizers, karpv1.FinalizerTermination) {
		t.Errorf("the node has owners %v and finalizers %v", node.OwnerReferences, node.Finalizers)
	}
	// Those that the claim was born with: what tagging notes on it later is for the claim alone.
	for _, key := range []string{"example.com/owner", karpv1.AnnotationNodePoolHash, awsv1.AnnotationNodeClassHash} {
		if value := claim.Annotations[key]; value == "" || node.Annotations[key] != value {
			t.Errorf("annotation %s is %q on the node and %q on the claim", key, node.Annotations[key], value)
		}
	}
	for _, key := range []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, karpv1.LabelCapacityType, corev1.LabelArchStable} {
		if node.Labels[key] == "" {
			t.Errorf("label %s is missing", key)
		}
	}
	for key, want := range map[string]string{
		"node-type": f.name, "workload-type": "platform", karpv1.LabelNodePool: f.name, karpv1.LabelProvisionerName: f.name,
		karpv1.LabelRegistered: "true", karpv1.LabelInitialized: "true",
	} {
		if got := node.Labels[key]; got != want {
			t.Errorf("label %s is %q, want %q", key, got, want)
		}
	}
}

// S-061, S-198, S-009: a workload avoids a pool with a soft taint while another fits, and lands there otherwise.
func TestS_061_SoftTaint(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	label := func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"flow": f.name} }
	soft := corev1.Taint{Key: "workload-type", Value: "infrastructure", Effect: corev1.TaintEffectPreferNoSchedule}
	f.pool("-infra", label, func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Taints = []corev1.Taint{soft}
		p.Spec.Weight = new(int32(50)) // tried first, if nothing spoke against it
	})
	apps := f.pool("-apps", label)
	f.deploy("business", 2, withNodeSelector("flow", f.name))
	f.waitForRunningPods("business", 2)
	if n := len(f.claims(f.name + "-infra")); n > 0 {
		t.Errorf("%d claims of the pool with the soft taint", n)
	}
	f.remove(apps)
	f.waitUntil(later, "no claim of the pool that is gone", func() (bool, string) { return len(f.claims(apps.Name)) == 0, sayConditions(f.claims()) })
	f.waitForRunningPods("business", 2, later)
	if n := len(f.claims(f.name + "-infra")); n == 0 {
		t.Error("no claim of the pool that is left")
	}
}

// S-197, S-140, S-011: a pool for on-demand never launches spot, and has its nodes in all zones when the pods
// want that; nothing was set up for a zone.
func TestS_197_OnDemandOnly(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 8, onePerNode("inflate"), overZones("inflate"))
	f.waitForRunningPods("inflate", 8)
	zones := map[string]int{}
	for _, i := range f.allInstances() {
		zones[i.Zone]++
		if i.CapacityType != karpv1.CapacityTypeOnDemand {
			t.Errorf("instance %s is %s", i.ID, i.CapacityType)
		}
	}
	if len(zones) != 3 {
		t.Errorf("the nodes are in %v, want three zones", zones)
	}
}

// S-199: the pool with the highest weight is tried first.
func TestS_199_Weight(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	for suffix, weight := range map[string]int32{"-low": 1, "-high": 90, "-mid": 50} {
		f.pool(suffix, func(p *karpv1.NodePool) {
			p.Spec.Weight = &weight
			p.Spec.Template.ObjectMeta.Labels = map[string]string{"flow": f.name}
		})
	}
	f.deploy("inflate", 2, withNodeSelector("flow", f.name))
	f.waitForRunningPods("inflate", 2)
	for _, c := range f.claims() {
		if pool := c.Labels[karpv1.LabelNodePool]; pool != f.name+"-high" {
			t.Errorf("a claim of %s", pool)
		}
	}
}

// S-019, S-039, S-049, S-050, S-170, S-173, LC-01, LC-03, LC-10, LC-12, LC-56, nodeclaim-lifecycle 17: the way of one pod, in
// this order and each step visible. The user makes a pool and a pod; the claim is the work of the controller.
func TestS_019_Timeline(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive) // pods get few events when there are many of them (V15-61)
	f.pool("")
	f.deploy("inflate", 1)
	f.event("Pod", "inflate", "Nominated", "nodeclaim/")
	claim := f.claim("is launched", hasCondition(karpv1.ConditionLaunched))
	for _, key := range []string{corev1.LabelInstanceTypeStable, karpv1.LabelCapacityType, corev1.LabelTopologyZone} {
		if claim.Labels[key] == "" {
			t.Errorf("a launched claim shows no %s", key)
		}
	}
	if claim.Status.ProviderID == "" || claim.Status.ImageID == "" || claim.Status.Capacity.Cpu().IsZero() || claim.Status.Allocatable.Cpu().IsZero() {
		t.Errorf("a launched claim has status %+v", claim.Status)
	}
	if !slices.Contains(claim.Finalizers, karpv1.FinalizerTermination) {
		t.Errorf("a launched claim has finalizers %v", claim.Finalizers)
	}
	f.claim("is registered", hasCondition(karpv1.ConditionRegistered))
	f.claim("is initialized", hasCondition(karpv1.ConditionInitialized))
	f.waitForRunningPods("inflate", 1)
	claim = f.claim("is ready", hasCondition(karpv1.ConditionReady))
	if node := f.nodeOf(claim); hasTaint(node, karpv1.UnregisteredTaint()) || node.Labels[karpv1.LabelRegistered] != "true" || node.Labels[karpv1.LabelInitialized] != "true" {
		t.Errorf("the node has taints %v and labels %v", node.Spec.Taints, node.Labels)
	}
	if n := f.sumMetric("karpenter_nodes_created_total"); n != 1 {
		t.Errorf("%v nodes are counted as created", n)
	}
	order := []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized}
	for i := 1; i < len(order); i++ {
		before, after := condition.Find(claim.Status.Conditions, order[i-1]), condition.Find(claim.Status.Conditions, order[i])
		if after.LastTransitionTime.Before(&before.LastTransitionTime) {
			t.Errorf("%s at %s, %s at %s", order[i-1], before.LastTransitionTime, order[i], after.LastTransitionTime)
		}
	}
	for _, message := range []string{"found provisionable pod(s)", "computed new nodeclaim(s) to fit pod(s)"} {
		if !f.hasLogged(message, "") {
			t.Errorf("the log lacks %q", message)
		}
	}
	for _, message := range []string{"created nodeclaim", "launched nodeclaim", "registered nodeclaim", "initialized nodeclaim"} {
		f.waitUntil(soon, "the log says "+message, func() (bool, string) { return f.hasLogged(message, claim.Name), claim.Name }) // after the object does
	}
	f.launchLine(claim)
	f.waitUntil(soon, "the time of the last pod event", func() (bool, string) {
		c := f.claims()
		return len(c) == 1 && !c[0].Status.LastPodEventTime.IsZero(), ""
	})
}

// launchLine checks what the log says of a launch (S-170), which is all that the line of earlier releases said (S-173).
func (f *flow) launchLine(claim *karpv1.NodeClaim) {
	f.Helper()
	for _, line := range f.controllerLog() {
		if !strings.Contains(line, `"message":"launched nodeclaim"`) || !strings.Contains(line, claim.Name) {
			continue
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			f.Errorf("%v: %s", err, line)
		}
		for key, want := range map[string]any{
			"level": "INFO", "provider-id": claim.Status.ProviderID, "instance-type": claim.Labels[corev1.LabelInstanceTypeStable],
			"capacity-type": claim.Labels[karpv1.LabelCapacityType], "zone": claim.Labels[corev1.LabelTopologyZone],
			"NodeClaim": map[string]any{"name": claim.Name},
		} {
			if !reflect.DeepEqual(got[key], want) {
				f.Errorf("%s is %v and not %v: %s", key, got[key], want, line)
			}
		}
		if commit, ok := got["commit"].(string); !ok || commit == "" {
			f.Errorf("no commit: %s", line)
		}
		return
	}
	f.Errorf("no line about the launch of %s", claim.Name)
}

// hasLogged says whether the log has a line with a message and a text.
func (f *flow) hasLogged(message, text string) bool {
	f.Helper()
	return slices.ContainsFunc(f.controllerLog(), func(line string) bool {
		return strings.Contains(line, `"message":"`+message+`"`) && strings.Contains(line, text)
	})
}

// reportedOnce checks that one line of the log has a text.
func (f *flow) reportedOnce(text string) {
	f.Helper()
	logged := 0
	for _, line := range f.controllerLog() {
		if strings.Contains(line, text) {
			logged++
		}
	}
	if logged != 1 {
		f.Errorf("%d lines of the log have %q, want 1", logged, text)
	}
}

// inOrder waits until the log has lines with these messages and a text, one after the other.
func (f *flow) inOrder(text string, messages ...string) {
	f.Helper()
	f.waitUntil(soon, fmt.Sprintf("the log says %q of %s", messages, text), func() (bool, string) {
		left := messages
		for _, line := range f.controllerLog() {
			if len(left) > 0 && strings.Contains(line, `"message":"`+left[0]+`"`) && strings.Contains(line, text) {
				left = left[1:]
			}
		}
		return len(left) == 0, fmt.Sprintf("not said: %q", left)
	})
}

// FM I20, S-024: limits hold while many claims are in flight, the event names the limit, and more room lets
// more pods in.
func TestFM_I20_Limits(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool := f.pool("", onlyTypes("m5.large"), func(p *karpv1.NodePool) { p.Spec.Limits = corev1.ResourceList{"cpu": resource.MustParse("6")} })
	f.deploy("inflate", 5, onePerNode("inflate"))
	f.event("Pod", "inflate", "FailedScheduling", "limit")
	f.ready(3)
	f.checkStays(12*time.Second, "three nodes of two cores", func() (bool, string) { return len(f.claims()) == 3, sayConditions(f.claims()) })
	f.waitUntil(soon, "status.resources of the pool", func() (bool, string) {
		if err := f.kube.Get(t.Context(), keyOf(pool), pool); err != nil {
			return false, err.Error()
		}
		cpu := pool.Status.Resources["cpu"]
		return cpu.Value() == 6, cpu.String()
	})
	patch(f, pool, func(p *karpv1.NodePool) { p.Spec.Limits = corev1.ResourceList{"cpu": resource.MustParse("10")} })
	f.waitForRunningPods("inflate", 5)
}

// FM I09, I15: a pod that nothing can hold says so, and does not keep others from their nodes.
func TestFM_I09_APodTooBigForEveryType(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"))
	f.deploy("giant", 1, withRequests("64", "1Gi"))
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.event("Pod", "giant", "FailedScheduling", "")
	f.ready(1)
}

// G8: pods that wait for a slow node cause no second one, however often they are looked at.
func TestFM_G8_SlowNodesAreWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.nodeFault(joinLate(25 * time.Second))
	f.pool("")
	f.deploy("inflate", 1)
	f.claim("waits for its node", waitsFor(karpv1.ConditionRegistered, "NodeNotFound"))
	f.checkStays(22*time.Second, "one claim", func() (bool, string) { return len(f.claims()) == 1, sayConditions(f.claims()) })
	f.waitForRunningPods("inflate", 1)
	if n := len(f.allInstances()); n != 1 {
		t.Errorf("%d instances for one pod", n)
	}
}

// S-091, LC-50, LC-51, LC-54: kubectl get nodepools shows how many nodes there are and that the pool is ready;
// one whose requirements contradict each other says so and is not.
func TestS_091_PoolStatus(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool := f.pool("")
	f.waitForCondition(pool, karpv1.ConditionReady, metav1.ConditionTrue, "")
	f.deploy("inflate", 2, onePerNode("inflate"))
	f.waitForRunningPods("inflate", 2)
	f.waitUntil(soon, "two nodes in the status of the pool", func() (bool, string) {
		if err := f.kube.Get(t.Context(), keyOf(pool), pool); err != nil {
			return false, err.Error()
		}
		nodes := pool.Status.Resources["nodes"]
		return nodes.Value() == 2 && pool.Status.Nodes != nil && *pool.Status.Nodes == 2, fmt.Sprintf("%v", pool.Status)
	})
	if pool.Annotations[karpv1.AnnotationNodePoolHash] == "" || f.claims()[0].Annotations[karpv1.AnnotationNodePoolHash] != pool.Annotations[karpv1.AnnotationNodePoolHash] {
		t.Errorf("the pool has annotations %v, a claim %v", pool.Annotations, f.claims()[0].Annotations)
	}
	bad := f.pool("-bad", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, karpv1.Requirement{Key: awsv1.LabelInstanceCPU, Operator: "Gt", Values: []string{"8"}}, karpv1.Requirement{Key: awsv1.LabelInstanceCPU, Operator: "Lt", Values: []string{"4"}})
	})
	f.waitForCondition(bad, karpv1.ConditionValidationSucceeded, metav1.ConditionFalse, "")
	f.waitForCondition(bad, karpv1.ConditionReady, metav1.ConditionFalse, "")
}
