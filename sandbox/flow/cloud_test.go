package flow_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/harness"
	"github.com/dovetail-sh/dovetail/sandbox/invariant"
)

// Group E of the failure modes. E04 is LC edge 8 in lifecycle_test.go, E17 is in class_test.go. Not tested
// here: E10 to E12, which need drift and catalogues that age; E16, which ends the controller at its start;
// E20, since the emulated API never responds out of order.

// serviceFault is a fault of AWS itself.
func serviceFault(action, text string) awsemu.Fault {
	return awsemu.Fault{Action: action, Text: text, Code: "InternalError", Message: "broken by the test", Status: http.StatusInternalServerError}
}

// denialFault is a call that a policy does not allow.
func denialFault(action, text string) awsemu.Fault {
	return awsemu.Fault{Action: action, Text: text, Code: "UnauthorizedOperation", Message: "denied by a policy of the organization", Status: http.StatusForbidden}
}

// FM E01: DescribeInstances does not show a new instance for a minute.
func TestFM_E01_InstancesAreNotSeenYet(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.delayVisibility("instances", 20*time.Second)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.checkStays(20*time.Second, "the claim and its instance", func() (bool, string) {
		c := f.claims()
		return len(c) == 1 && c[0].UID == claim.UID && !isDeleting(&c[0]) && len(f.allInstances()) == 1, sayConditions(c)
	})
}

// FM E01, G3: the controller restarts while EC2 does not show a new instance yet. What only the process that
// launched it knew must not be missed: the claim stays, and so does the instance.
func TestFM_E01_RestartWhileInstancesAreNotSeenYet(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.delayVisibility("instances", 30*time.Second)
	f.pool("")
	f.deploy("inflate", 1)
	claim := f.claim("is registered", hasCondition(karpv1.ConditionRegistered))
	f.killController()
	f.checkStays(20*time.Second, "the claim and its instance", func() (bool, string) {
		c := f.claims()
		return len(c) == 1 && c[0].UID == claim.UID && !isDeleting(&c[0]) && len(f.allInstances()) == 1, sayConditions(c)
	})
	f.waitForRunningPods("inflate", 1)
}

// FM E02, LC-22: the end of an instance takes two minutes. The finalizer stays that long, and TerminateInstances
// is not called in a hurry.
func TestFM_E02_InstancesEndSlowly(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	f.callControlAPI(http.MethodPut, "timing", `{"shuttingDown":"25s"}`)
	f.Cleanup(func() { f.callControlAPI(http.MethodPut, "timing", harness.QuickInstances) })
	f.pool("")
	d := f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.scale(d, 0)
	f.remove(&claim)
	f.claim("says that its instance goes", hasCondition(karpv1.ConditionInstanceTerminating))
	f.checkStays(15*time.Second, "the claim while its instance goes", func() (bool, string) {
		return len(f.claims()) == 1 || f.stateOf(instanceOf(&claim)) == "terminated", f.stateOf(instanceOf(&claim))
	})
	f.waitUntilGone(&claim, later)
}

// FM E03, G3: DescribeInstances fails for a while. Nothing is read as "does not exist".
func TestFM_E03_DescribeFails(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	calmed := f.markDisturbed()
	mend := f.awsFault(serviceFault("ec2:DescribeInstances", ""))
	f.remove(&claim)
	f.checkStays(20*time.Second, "the claim", func() (bool, string) {
		return slices.ContainsFunc(f.claims(), func(c karpv1.NodeClaim) bool { return c.UID == claim.UID }), ""
	})
	mend()
	calmed()
	f.waitUntilGone(&claim, later)
	f.waitForRunningPods("inflate", 1)
}

// FM L16, E09: instances cannot be ended for a while; the finalizer stays, and afterwards all goes its way.
func TestFM_L16_TerminateFails(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	d := f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	calmed := f.markDisturbed()
	mend := f.awsFault(serviceFault("ec2:TerminateInstances", instanceOf(&claim)))
	f.scale(d, 0)
	f.remove(&claim)
	f.checkStays(20*time.Second, "the claim and its instance", func() (bool, string) {
		return len(f.claims()) == 1 && f.stateOf(instanceOf(&claim)) == "running", f.stateOf(instanceOf(&claim))
	})
	mend()
	calmed()
	f.waitUntilGone(&claim, later)
}

// FM E05: an instance is stopped outside; the message leads to its replacement.
func TestFM_E05_InstanceIsStopped(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.callControlAPI(http.MethodPost, "stop", fmt.Sprintf(`{"instance":%q}`, instanceOf(&claim)))
	f.event("NodeClaim", claim.Name, "InstanceStopping", "")
	f.waitUntilGone(&claim, later)
	f.waitForRunningPods("inflate", 1, later)
}

// FM E06, G2, LC-39: a user strips the finalizer of a claim. The collector ends its instance, and the node goes.
func TestFM_E06_ClaimIsForcedAway(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	d := f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.checker.Excuse(invariant.G3, "NodeClaim "+claim.Name)
	f.scale(d, 0)
	f.remove(&claim)
	patch(f, &claim, func(c *karpv1.NodeClaim) { c.Finalizers = nil })
	f.waitUntil(later, "no instance and no node", func() (bool, string) {
		return len(f.liveInstances()) == 0 && len(f.nodes()) == 0, fmt.Sprintf("%d instances, %d nodes", len(f.liveInstances()), len(f.nodes()))
	})
}

// FM E08: AWS responds with RequestLimitExceeded to everything for a while. Nothing is deleted, and afterwards
// the pods get their nodes.
func TestFM_E08_Throttled(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	calmed := f.markDisturbed()
	mend := f.awsFault(awsemu.Fault{Action: "ec2:*", Code: "RequestLimitExceeded", Message: "Request limit exceeded.", Status: http.StatusServiceUnavailable})
	f.deploy("more", 1, withRequests("3", "3Gi"))
	f.checkStays(25*time.Second, "the first node", func() (bool, string) {
		return len(f.liveInstances()) == 1 && f.liveInstances()[0].State == "running", ""
	})
	mend()
	calmed()
	f.waitForRunningPods("more", 1, later)
	f.waitForRunningPods("inflate", 1)
}

// FM E13, E15: images and subnets cannot be looked up any more. What was found stays, nodes live, and
// nothing drifts.
func TestFM_E13_LookupsFail(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.waitForCondition(class, karpv1.ConditionReady, metav1.ConditionTrue, "")
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.markDisturbed()
	f.awsFault(serviceFault("ssm:*", ""))
	f.awsFault(serviceFault("ec2:DescribeImages", ""))
	patch(f, class, func(c *awsv1.EC2NodeClass) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, "look", "again") })
	f.checkStays(20*time.Second, "the claim, not drifted, and the images of the class", func() (bool, string) {
		if err := f.kube.Get(t.Context(), keyOf(class), class); err != nil {
			return false, err.Error()
		}
		c := f.claims()
		return len(c) == 1 && !hasCondition(karpv1.ConditionDrifted)(&c[0]) && len(class.Status.AMIs) > 0, sayConditions(c)
	})
}

// FM E18: instances cannot be tagged; the node is usable all the same.
func TestFM_E18_TaggingIsDenied(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	f.awsFault(denialFault("ec2:CreateTags", ""))
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.remove(&claim)
	f.waitUntilGone(&claim)
}

// S-135, S-200: instances carry the tags of the cluster and the profile of the class.
func TestS_200_TagsOfInstances(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.waitUntil(soon, "the tags that come once the node is known", func() (bool, string) {
		tags := f.liveInstances()[0].Tags
		return tags["karpenter.sh/nodeclaim"] == claim.Name && tags["Name"] == claim.Status.NodeName, fmt.Sprint(tags)
	})
	i := f.liveInstances()[0]
	for key, want := range map[string]string{
		"kubernetes.io/cluster/sandbox": "owned", "eks:eks-cluster-name": "sandbox", "karpenter.sh/nodepool": f.name, "karpenter.k8s.aws/ec2nodeclass": f.name,
	} {
		if i.Tags[key] != want {
			t.Errorf("tag %s is %q, want %q", key, i.Tags[key], want)
		}
	}
	if i.Profile == "" {
		t.Error("no instance profile")
	}
}
