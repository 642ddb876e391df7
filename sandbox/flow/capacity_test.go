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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// exhaustOfferings takes the capacity of offerings away, until the test ends. What one test finds out of capacity is out for all
// that share its controller, so a test that must find it out by itself takes a type so expensive that no other requests it.
func (f *flow) exhaustOfferings(capacityType, instanceType, zone string) {
	f.Helper()
	pool := fmt.Sprintf(`{"capacityType":%q,"instanceType":%q,"zone":%q}`, capacityType, instanceType, zone)
	f.callControlAPI(http.MethodPost, "ice", pool)
	f.Cleanup(func() { f.callControlAPI(http.MethodDelete, "ice", pool) })
}

// S-004, FM F01: the first choice has no capacity; the next is requested at once, and the pod runs.
func TestS_004_NoCapacityForTheFirstChoice(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.exhaustOfferings("spot", "c6a.large", "")
	f.pool("", onlyTypes("c6a.large", "c6a.xlarge"), func(p *karpv1.NodePool) {
		withRequirement(karpv1.LabelCapacityType, corev1.NodeSelectorOpIn, karpv1.CapacityTypeSpot)(p)
	})
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	if events := f.events("NodeClaim", f.name); slices.ContainsFunc(events, func(e eventsv1.Event) bool { return e.Reason == "InsufficientCapacityError" }) {
		t.Errorf("a claim was given up although the next choice has capacity: %s", sayEvents(events))
	}
	for _, i := range f.allInstances() {
		if i.Type != "c6a.xlarge" {
			t.Errorf("instance of type %s", i.Type)
		}
	}
}

// FM F02, LC edge 16, LC-04: no offering of the first pool has capacity. Its claims fail at a bounded rate, and
// the next pool is used.
func TestLC_15_16_TheNextPoolWhenTheFirstHasNoCapacity(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.exhaustOfferings("on-demand", "x1e.xlarge", "")
	label := func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"flow": f.name} }
	first := f.pool("-first", label, onlyTypes("x1e.xlarge"), func(p *karpv1.NodePool) { p.Spec.Weight = new(int32(90)) })
	f.waitForCondition(first, karpv1.ConditionReady, metav1.ConditionTrue, "") // else the pod is served before
	f.pool("-next", label, onlyTypes("m6a.large"))
	f.deploy("inflate", 1, withNodeSelector("flow", f.name))
	f.event("NodeClaim", f.name+"-first", "InsufficientCapacityError", "")
	f.waitForRunningPods("inflate", 1)
	if n := f.sumMetric("karpenter_nodeclaims_disrupted_total", `reason="insufficient_capacity"`); n < 1 {
		t.Errorf("%v claims are counted as removed for want of capacity", n)
	}
	if n := len(f.claims(f.name + "-next")); n != 1 {
		t.Errorf("%d claims of the next pool", n)
	}
}

// FM F02: nothing has capacity. Claims come and go, ten a minute at most, and the pod says so.
func TestFM_F02_NoCapacityAtAll(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.exhaustOfferings("on-demand", "x2iedn.xlarge", "")
	f.pool("", onlyTypes("x2iedn.xlarge"))
	f.deploy("inflate", 1)
	f.event("NodeClaim", f.name, "InsufficientCapacityError", "")
	seen := map[string]bool{}
	f.checkStays(60*time.Second, "at most ten claims a minute", func() (bool, string) {
		for _, c := range f.claims() {
			seen[c.Name] = true
		}
		return len(seen) <= 10, fmt.Sprintf("%d claims", len(seen))
	})
	if len(f.allInstances()) > 0 {
		t.Error("an instance without capacity")
	}
}

// "spot role missing" of install 17, FM F03, F05: there is no role for spot, and later its quota is used
// up. The event names the code, and on-demand is used where the pool allows it.
func TestFM_F03_F05_SpotIsNotToBeHad(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsAll)
	f.pool("", onlyTypes("m5.large"), withRequirement(karpv1.LabelCapacityType, corev1.NodeSelectorOpIn, karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand)) // holds one of these pods
	f.Cleanup(f.killController)                                                                                                                                 // what it knows of spot is not true for the next test
	role := `{"capacityType":"spot","code":"AuthFailure.ServiceLinkedRoleCreationNotPermitted","message":"The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances."}`
	f.callControlAPI(http.MethodPost, "ice", role)
	f.Cleanup(func() { f.callControlAPI(http.MethodDelete, "ice", "") })
	f.deploy("role", 1)
	f.waitUntil(soon, "an event that names ServiceLinkedRoleCreationNotPermitted", func() (bool, string) {
		list := f.events("NodeClaim", f.name)
		for _, e := range list {
			if strings.Contains(e.Note, "ServiceLinkedRoleCreationNotPermitted") || e.Reason == "SpotServiceLinkedRoleMissing" {
				return true, ""
			}
		}
		return false, sayEvents(list)
	})
	f.waitForRunningPods("role", 1)
	f.callControlAPI(http.MethodDelete, "ice", "")
	f.killController()
	f.callControlAPI(http.MethodPut, "quota", `{"spotVCPU":0}`)
	f.Cleanup(func() { f.callControlAPI(http.MethodPut, "quota", `{"spotVCPU":null}`) })
	f.deploy("quota", 1)
	f.waitForRunningPods("quota", 1)
	for _, c := range f.ready(2) {
		if got := c.Labels[karpv1.LabelCapacityType]; got != karpv1.CapacityTypeOnDemand {
			t.Errorf("claim %s is %s", c.Name, got)
		}
	}
}
