package flow_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

// The rows of install 17 that are not shown elsewhere. Elsewhere: subnets, groups, alias, role in
// class_test.go; permission and user data there too; limits and taints in provision_test.go; capacity in
// capacity_test.go; launch in launch_test.go; registration and initialization in lifecycle_test.go.

// "restricted tag", "wrong alias": the API server refuses them, and says which.
func TestInstall_17_RefusedAtTheDoor(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	for text, spoil := range map[string]func(*awsv1.EC2NodeClass){
		"karpenter.sh/nodepool": func(c *awsv1.EC2NodeClass) { c.Spec.Tags = map[string]string{"karpenter.sh/nodepool": "x"} },
		"alias":                 func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "debian@latest" },
	} {
		class := f.createClass(spoil)
		class.Name = f.name + "-bad"
		err := f.kube.Create(t.Context(), class)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// "pod Pending, no node": the event names what each pool lacks; the pool that filters everything says so.
func TestInstall_17_PodPendingNoNode(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	label := func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"flow": f.name} }
	none := f.pool("-none", label, onlyTypes("m5.large"), func(p *karpv1.NodePool) {
		withRequirement("karpenter.k8s.aws/instance-category", corev1.NodeSelectorOpIn, "c")(p)
	})
	zone := f.pool("-zone", label, withRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "eu-west-1a"))
	for _, pool := range []*karpv1.NodePool{none, zone} { // events are not repeated for some time
		f.waitForCondition(pool, karpv1.ConditionReady, metav1.ConditionTrue, "")
	}
	f.deploy("inflate", 1, withNodeSelector("flow", f.name, corev1.LabelTopologyZone, "eu-west-1b"))
	f.event("Pod", "inflate", "FailedScheduling", f.name+"-zone")
	f.event("NodePool", none.Name, "NoCompatibleInstanceTypes", "")
	if n := len(f.claims()); n > 0 {
		t.Errorf("%d claims", n)
	}
}

// "node never registers", "node Unauthorized", LC-06, LC-14: the claim says that no node came, and goes after its
// time.
func TestInstall_17_NodeNeverRegisters(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	mend := f.nodeFault(fakenode.Fault{NeverJoin: true})
	f.pool("")
	f.deploy("inflate", 1)
	claim := f.claim("waits for its node", waitsFor(karpv1.ConditionRegistered, "NodeNotFound"))
	f.backdateCondition(claim, karpv1.ConditionRegistered, 16*time.Minute)
	f.waitUntilGone(claim)
	if !f.hasLogged("terminating due to timeout", claim.Name) {
		t.Error("the log does not say that it was a timeout")
	}
	mend()
	f.waitForRunningPods("inflate", 1, later)
}

// "node not initialized", LC-11: it is not Ready, and the claim says so.
func TestInstall_17_NodeNotReady(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	mend := f.nodeFault(fakenode.Fault{NeverReady: true})
	f.pool("")
	f.deploy("inflate", 1)
	f.claim("waits for its node to be Ready", waitsFor(karpv1.ConditionInitialized, "NodeNotReady"))
	mend()
	f.waitForRunningPods("inflate", 1)
}

// "nodes not removed": do-not-disrupt on a pod of a node with nothing else keeps it, and an event says so.
func TestInstall_17_NodesNotRemoved(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", emptyAfter("1s"), func(p *karpv1.NodePool) {
		p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationWhenEmptyOrUnderutilized
	})
	f.deploy("inflate", 1, withAnnotation(karpv1.AnnotationDoNotDisrupt, "true"))
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.event("Node", claim.Status.NodeName, "DisruptionBlocked", "")
}

// S-004, S-042, S-043: no offering of the first request has capacity; the next request is of the same launch. Where
// the pool allows both, spot is requested first, by price and capacity. How soon the next request comes is
// measured by make bench-controller BARS=ice.
func TestS_004_NextOfferingOfTheSameLaunch(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.exhaustOfferings("spot", "c7i.*", "")
	f.pool("", withRequirement(karpv1.LabelCapacityType, corev1.NodeSelectorOpIn, karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand), withRequirement("karpenter.k8s.aws/instance-family", corev1.NodeSelectorOpIn, "c7i"))
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	calls := f.fleetCalls()
	if len(calls) < 2 {
		t.Fatalf("%d calls of CreateFleet, want one for spot and one for on-demand", len(calls))
	}
	for i, want := range []map[string]string{
		{"TargetCapacitySpecification.DefaultTargetCapacityType": "spot", "SpotOptions.AllocationStrategy": "price-capacity-optimized"},
		{"TargetCapacitySpecification.DefaultTargetCapacityType": "on-demand", "OnDemandOptions.AllocationStrategy": "lowest-price"},
	} {
		for name, value := range want {
			if got := calls[i].Parameters[name]; got != value {
				t.Errorf("call %d of CreateFleet has %s %q, want %q", i+1, name, got, value)
			}
		}
	}
	t.Logf("the next offering was requested %s after the first", calls[1].Time.Sub(calls[0].Time))
	if claims := f.claims(); len(claims) != 1 || claims[0].Labels[karpv1.LabelCapacityType] != karpv1.CapacityTypeOnDemand {
		t.Errorf("want the claim for which spot was requested, launched as on-demand: %s", sayConditions(claims))
	}
	if events := f.events("NodeClaim", f.name); slices.ContainsFunc(events, func(e eventsv1.Event) bool { return e.Reason == "InsufficientCapacityError" }) {
		t.Errorf("a claim was given up although the next offering has capacity: %s", sayEvents(events))
	}
}

// S-096, S-095: both labels list the nodes.
func TestS_096_OldAndNewLabel(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	node := f.nodeOf(&f.ready(1)[0])
	if node.Labels[karpv1.LabelProvisionerName] != f.name || node.Labels[karpv1.LabelNodePool] != f.name {
		t.Errorf("labels %v", node.Labels)
	}
	owner := metav1.GetControllerOf(node)
	if owner != nil && owner.Kind != "NodeClaim" {
		t.Errorf("the node belongs to %s %s", owner.Kind, owner.Name)
	}
}
