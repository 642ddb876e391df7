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
// E20, since the emulated API never answers out of order.

// broken is a fault of AWS itself.
func broken(action, text string) awsemu.Fault {
	return awsemu.Fault{Action: action, Text: text, Code: "InternalError", Message: "broken by the test", Status: http.StatusInternalServerError}
}

// denied is a call that a policy does not allow.
func denied(action, text string) awsemu.Fault {
	return awsemu.Fault{Action: action, Text: text, Code: "UnauthorizedOperation", Message: "denied by a policy of the organization", Status: http.StatusForbidden}
}

// FM E01: DescribeInstances does not show a new instance for a minute.
func TestFM_E01_InstancesAreNotSeenYet(t *testing.T) {
	t.Parallel()
	f := newFlow(t, alone)
	f.lag("instances", 20*time.Second)
	f.pool("")
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	f.stays(20*time.Second, "the claim and its instance", func() (bool, string) {
		c := f.claims()
		return len(c) == 1 && c[0].UID == claim.UID && !deleting(&c[0]) && len(f.allInstances()) == 1, sayConditions(c)
	})
}

// FM E01, G3: the controller restarts while EC2 does not show a new instance yet. What only the process that
// launched it knew must not be missed: the claim stays, and so does the instance.
func TestFM_E01_RestartWhileInstancesAreNotSeenYet(t *testing.T) {
	t.Parallel()
	f := newFlow(t, alone)
	f.lag("instances", 30*time.Second)
	f.pool("")
	f.deploy("inflate", 1)
	claim := f.claim("is registered", is(karpv1.ConditionRegistered))
	f.kill()
	f.stays(20*time.Second, "the claim and its instance", func() (bool, string) {
		c := f.claims()
		return len(c) == 1 && c[0].UID == claim.UID && !deleting(&c[0]) && len(f.allInstances()) == 1, sayConditions(c)
	})
	f.running("inflate", 1)
}

// FM E02, LC-22: the end of an instance takes two minutes. The finalizer stays that long, and TerminateInstances
// is not called in a hurry.
func TestFM_E02_InstancesEndSlowly(t *testing.T) {
	t.Parallel()
	f := newFlow(t, weather)
	f.aws(http.MethodPut, "timing", `{"shuttingDown":"25s"}`)
	f.Cleanup(func() { f.aws(http.MethodPut, "timing", harness.QuickInstances) })
	f.pool("")
	d := f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	f.scale(d, 0)
	f.remove(&claim)
	f.claim("says that its instance goes", is(karpv1.ConditionInstanceTerminating))
	f.stays(15*time.Second, "the claim while its instance goes", func() (bool, string) {
		return len(f.claims()) == 1 || f.stateOf(instanceOf(&claim)) == "terminated", f.stateOf(instanceOf(&claim))
	})
	f.gone(&claim, later)
}

// FM E03, G3: DescribeInstances fails for a while. Nothing is read as "does not exist".
func TestFM_E03_DescribeFails(t *testing.T) {
	t.Parallel()
	f := newFlow(t, weather)
	f.pool("")
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	calmed := f.disturb()
	mend := f.awsFault(broken("ec2:DescribeInstances", ""))
	f.remove(&claim)
	f.stays(20*time.Second, "the claim", func() (bool, string) {
		return slices.ContainsFunc(f.claims(), func(c karpv1.NodeClaim) bool { return c.UID == claim.UID }), ""
	})
	mend()
	calmed()
	f.gone(&claim, later)
	f.running("inflate", 1)
}

// FM L16, E09: instances cannot be ended for a while; the finalizer stays, and afterwards all goes its way.
func TestFM_L16_TerminateFails(t *testing.T) {
	t.Parallel()
	f := newFlow(t, calm)
	f.pool("")
	d := f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	calmed := f.disturb()
	mend := f.awsFault(broken("ec2:TerminateInstances", instanceOf(&claim)))
	f.scale(d, 0)
	f.remove(&claim)
	f.stays(20*time.Second, "the claim and its instance", func() (bool, string) {
		return len(f.claims()) == 1 && f.stateOf(instanceOf(&claim)) == "running", f.stateOf(instanceOf(&claim))
	})
	mend()
	calmed()
	f.gone(&claim, later)
}

// FM E05: an instance is stopped outside; the message leads to its replacement.
func TestFM_E05_InstanceIsStopped(t *testing.T) {
	t.Parallel()
	f := newFlow(t, calm)
	f.pool("")
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	f.aws(http.MethodPost, "stop", fmt.Sprintf(`{"instance":%q}`, instanceOf(&claim)))
	f.event("NodeClaim", claim.Name, "InstanceStopping", "")
	f.gone(&claim, later)
	f.running("inflate", 1, later)
}

// FM E06, G2, LC-39: somebody strips the finalizer of a claim. The collector ends its instance, and the node goes.
func TestFM_E06_ClaimIsForcedAway(t *testing.T) {
	t.Parallel()
	f := newFlow(t, calm)
	f.pool("")
	d := f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	f.checker.Excuse(invariant.G3, "NodeClaim "+claim.Name)
	f.scale(d, 0)
	f.remove(&claim)
	patch(f, &claim, func(c *karpv1.NodeClaim) { c.Finalizers = nil })
	f.await(later, "no instance and no node", func() (bool, string) {
		return len(f.instances()) == 0 && len(f.nodes()) == 0, fmt.Sprintf("%d instances, %d nodes", len(f.instances()), len(f.nodes()))
	})
}

// FM E08: AWS answers RequestLimitExceeded to everything for a while. Nothing is deleted, and afterwards
// the pods get their nodes.
func TestFM_E08_Throttled(t *testing.T) {
	t.Parallel()
	f := newFlow(t, weather)
	f.pool("")
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	calmed := f.disturb()
	mend := f.awsFault(awsemu.Fault{Action: "ec2:*", Code: "RequestLimitExceeded", Message: "Request limit exceeded.", Status: http.StatusServiceUnavailable})
	f.deploy("more", 1, requests("3", "3Gi"))
	f.stays(25*time.Second, "the first node", func() (bool, string) {
		return len(f.instances()) == 1 && f.instances()[0].State == "running", ""
	})
	mend()
	calmed()
	f.running("more", 1, later)
	f.running("inflate", 1)
}

// FM E13, E15: images and subnets cannot be looked up any more. What was found stays, nodes live, and
// nothing drifts.
func TestFM_E13_LookupsFail(t *testing.T) {
	t.Parallel()
	f := newFlow(t, weather)
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.condition(class, karpv1.ConditionReady, metav1.ConditionTrue, "")
	f.pool("")
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	f.disturb()
	f.awsFault(broken("ssm:*", ""))
	f.awsFault(broken("ec2:DescribeImages", ""))
	patch(f, class, func(c *awsv1.EC2NodeClass) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, "look", "again") })
	f.stays(20*time.Second, "the claim, not drifted, and the images of the class", func() (bool, string) {
		if err := f.kube.Get(t.Context(), keyOf(class), class); err != nil {
			return false, err.Error()
		}
		c := f.claims()
		return len(c) == 1 && !is(karpv1.ConditionDrifted)(&c[0]) && len(class.Status.AMIs) > 0, sayConditions(c)
	})
}

// FM E18: instances cannot be tagged; the node is usable all the same.
func TestFM_E18_TaggingIsDenied(t *testing.T) {
	t.Parallel()
	f := newFlow(t, weather)
	f.awsFault(denied("ec2:CreateTags", ""))
	f.pool("")
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	f.remove(&claim)
	f.gone(&claim)
}

// S-135, S-200: instances carry the tags of the cluster and the profile of the class.
func TestS_200_TagsOfInstances(t *testing.T) {
	t.Parallel()
	f := newFlow(t, calm)
	f.pool("")
	f.deploy("inflate", 1)
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	f.await(soon, "the tags that come once the node is known", func() (bool, string) {
		tags := f.instances()[0].Tags
		return tags["karpenter.sh/nodeclaim"] == claim.Name && tags["Name"] == claim.Status.NodeName, fmt.Sprint(tags)
	})
	i := f.instances()[0]
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
