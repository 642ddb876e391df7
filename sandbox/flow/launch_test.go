package flow_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Group A of the failure modes. A01 is in crash_test.go, A02 in lifecycle_test.go (edge 1), A07 there too
// (edge 14), A15 in class_test.go. Not tested here: A04 and A18, since the emulated fleet never responds
// with more, or other, than was requested; A16 and A17, which are races that
// only a unit test can hold still. A13 and A14 are in admission_test.go.

// FM A03: CreateFleet is done and its response lost; the same request comes again and gets the same instance.
func TestFM_A03_AnswerOfCreateFleetIsLost(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.classReady() // else its dry run meets the fault
	f.awsFault(awsemu.Fault{Action: "ec2:CreateFleet", Text: f.name, Count: 1, Drop: awsemu.DropAfter})
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.ready(1)
	if n := len(f.allInstances()); n != 1 {
		t.Errorf("%d instances for one claim", n)
	}
}

// FM A05: one fleet for many claims brings fewer instances than requested. Each claim has its own, and the
// rest are served from what is left.
func TestFM_A05_FleetBringsFewer(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.callControlAPI(http.MethodPost, "ice", `{"capacityType":"on-demand","instanceType":"m6i.large","remaining":6}`)
	f.Cleanup(func() {
		f.callControlAPI(http.MethodDelete, "ice", `{"capacityType":"on-demand","instanceType":"m6i.large"}`)
	})
	f.pool("", onlyTypes("m6i.large", "m6i.xlarge"))
	f.deploy("inflate", 10, onePerNode("inflate"))
	f.waitForRunningPods("inflate", 10, later)
	seen := map[string]string{}
	for _, c := range f.ready(10) {
		if other := seen[c.Status.ProviderID]; other != "" {
			t.Errorf("%s and %s have the same instance", c.Name, other)
		}
		seen[c.Status.ProviderID] = c.Name
	}
}

// FM A06: a user deletes a claim between CreateFleet and the write of its provider id.
func TestFM_A06_DeletedWhileLaunching(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.markDisturbed()
	f.pool("")
	mend := f.proxyFault(apiproxy.Fault{Verb: "patch", Resource: "nodeclaims/status", Name: f.name + "*", Status: http.StatusInternalServerError})
	d := f.deploy("inflate", 1)
	f.waitUntil(soon, "an instance", func() (bool, string) { return len(f.liveInstances()) > 0, "" })
	f.scale(d, 0)
	claim := f.claims()[0]
	f.remove(&claim)
	mend()
	f.waitUntilGone(&claim)
	f.waitUntil(later, "no instance", func() (bool, string) { return len(f.liveInstances()) == 0, fmt.Sprint(len(f.liveInstances())) })
}

// FM A08: the class is deleted while claims launch. It stays until its last claim is gone, and says so.
func TestFM_A08_ClassIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	f.remove(class)
	claim := f.claims()[0]
	f.event("EC2NodeClass", f.name, "WaitingOnNodeClaimTermination", claim.Name)
	f.deploy("more", 1, withRequests("2", "2Gi"))
	f.checkStays(10*time.Second, "no claim of a class that goes", func() (bool, string) { return len(f.claims()) == 1, sayConditions(f.claims()) })
	f.remove(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: f.name}})
	f.waitUntilGone(&claim)
	f.waitUntilGone(class)
}

// FM A09, LC-04: launches fail for another reason than capacity. The claim says why, tries again at a slower and
// slower pace, and gets its instance when that is mended. That it goes after five minutes (LC-13) is counted by
// the controller's own clock, and held by the test of the same name in internal/controller/claims.
func TestFM_A09_LaunchKeepsFailing(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.classReady() // what it finds out with a dry run is kept for a while
	f.markDisturbed()
	mend := f.awsFault(denialFault("ec2:CreateFleet", f.name))
	f.pool("")
	f.deploy("inflate", 1)
	claim := f.claim("is not launched and says why", func(c *karpv1.NodeClaim) bool {
		for _, k := range c.Status.Conditions {
			if k.Type == karpv1.ConditionLaunched && k.Status == metav1.ConditionUnknown && strings.Contains(k.Message, "denied by a policy") {
				return true
			}
		}
		return false
	})
	before := f.countCreateFleet()
	f.checkStays(10*time.Second, "at most twelve calls of CreateFleet", func() (bool, string) {
		n := f.countCreateFleet() - before
		return n <= 12, fmt.Sprint(n)
	})
	mend()
	f.waitForRunningPods("inflate", 1, later)
	if now := f.claim("is launched", func(c *karpv1.NodeClaim) bool { return c.Status.ProviderID != "" }); now.UID != claim.UID {
		f.Errorf("%s was launched instead of %s", now.Name, claim.Name)
	}
}

// FM A10: the launch template is deleted between describe and fleet.
func TestFM_A10_TemplateIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	var removed int
	for _, id := range f.launchTemplateIDs() {
		f.callControlAPI(http.MethodDelete, "launch-templates/"+id, "")
		removed++
	}
	if removed == 0 {
		t.Fatal("no launch template to delete")
	}
	f.deploy("more", 1, withRequests("3", "3Gi"))
	f.waitForRunningPods("more", 1)
}

// FM A11: EC2 does not know the instance profile yet.
func TestFM_A11_ProfileIsNew(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	f.delayVisibility("profiles", 8*time.Second)
	class := f.createClass(func(c *awsv1.EC2NodeClass) { c.Name = f.name + "-late" })
	f.create(class)
	f.Cleanup(func() { f.remove(class) })
	f.pool("", func(p *karpv1.NodePool) { p.Spec.Template.Spec.NodeClassRef.Name = class.Name })
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1, later)
	f.waitForCondition(class, karpv1.ConditionReady, metav1.ConditionTrue, "")
}

// FM A12: the instance is accepted and ends by itself, again and again. Launches are bounded, and when it
// is mended the pod runs.
func TestFM_A12_InstancesEndByThemselves(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.nodeFault(joinLate(time.Hour))
	f.pool("")
	f.deploy("inflate", 1)
	for range 2 {
		claim := f.claim("is launched", func(c *karpv1.NodeClaim) bool { return hasCondition(karpv1.ConditionLaunched)(c) && !isDeleting(c) })
		f.callControlAPI(http.MethodPost, "kill", fmt.Sprintf(`{"instance":%q}`, instanceOf(claim)))
		f.waitUntilGone(claim, later)
	}
	f.world.Nodes.Faults().Clear(f.name)
	f.waitForRunningPods("inflate", 1, later)
	if n := len(f.allInstances()); n > 4 {
		t.Errorf("%d instances for one pod", n)
	}
}

// countCreateFleet is how many calls of CreateFleet there were for the test.
func (f *flow) countCreateFleet() int {
	n := 0
	for _, call := range f.world.AWS.Calls(wire.EC2, "CreateFleet") {
		if strings.Contains(fmt.Sprint(call.Parameters), f.name) {
			n++
		}
	}
	return n
}

// fleetCalls are the calls of CreateFleet for the test, but for dry runs.
func (f *flow) fleetCalls() []awsemu.Call {
	return slices.DeleteFunc(f.world.AWS.Calls(wire.EC2, "CreateFleet"), func(c awsemu.Call) bool {
		return !strings.Contains(fmt.Sprint(c.Parameters), f.name) || c.Parameters["DryRun"] == "true"
	})
}

// oneFleetForMany fails unless the instances of the test came from fleets that exist for one response only, and
// each of these was offered types and zones to choose from: no group stands behind a node (S-002, S-005).
func (f *flow) oneFleetForMany() {
	f.Helper()
	for _, call := range f.fleetCalls() {
		types, subnets := map[string]bool{}, map[string]bool{}
		for name, value := range call.Parameters {
			switch {
			case strings.Contains(name, ".Overrides.") && strings.HasSuffix(name, ".InstanceType"):
				types[value] = true
			case strings.Contains(name, ".Overrides.") && strings.HasSuffix(name, ".SubnetId"):
				subnets[value] = true
			}
		}
		if call.Parameters["Type"] != "instant" || len(types) < 2 || len(subnets) != 3 {
			f.Errorf("a fleet of type %q has %d types in %d subnets", call.Parameters["Type"], len(types), len(subnets))
		}
	}
	for _, i := range f.allInstances() {
		for key := range i.Tags {
			if strings.HasPrefix(key, "aws:autoscaling:") {
				f.Errorf("instance %s belongs to a group: %v", i.ID, i.Tags)
			}
		}
	}
}

// launchTemplateIDs are the ids of the launch templates of the test.
func (f *flow) launchTemplateIDs() []string {
	f.Helper()
	var all map[string]struct {
		Tags map[string]string `json:"tags"`
	}
	f.decodeLoosely(f.callControlAPI(http.MethodGet, "launch-templates", ""), &all)
	var ids []string
	for id, template := range all {
		if strings.HasPrefix(template.Tags[karpv1.LabelNodePool], f.name) || template.Tags["karpenter.k8s.aws/ec2nodeclass"] == f.name {
			ids = append(ids, id)
		}
	}
	return ids
}
