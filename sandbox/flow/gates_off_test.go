package flow_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// TestGatesOff has what features mean while they are off. One controller serves them all. Each flow waits until the controller did something
// that it decides together with what it must not do.
func TestGatesOff(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.withFlags("--feature-gates=StaticCapacity=false,NodeRepair=false,ReservedCapacity=false")
	for name, run := range map[string]func(*flow){
		"SC-06, LC-46: a pool with replicas is left alone":   (*flow).aPoolWithReplicasIsLeftAlone,
		"LC-41, V15-33: an unhealthy node stays":             (*flow).anUnhealthyNodeStays,
		"SC-45: a targeted reservation is not used":          (*flow).aTargetedReservationIsNotUsed,
		"SC-45, FM-F10: an open reservation leaves no trace": (*flow).anOpenReservationLeavesNoTrace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(f.newNeighbour(t))
		})
	}
}

// aPoolWithReplicasIsLeftAlone: it is ready and gets no node, neither for its replicas nor for a pod that selects it, which
// is told so. Its other pool gets one.
func (f *flow) aPoolWithReplicasIsLeftAlone() {
	static := f.pool("-static", onlyTypes("m5.large"), withReplicas(2, "3"))
	f.waitForCondition(static, karpv1.ConditionReady, "True", "")
	f.pool("", onlyTypes("m5.large"))
	f.deploy("static", 1, withNodeSelector(karpv1.LabelNodePool, static.Name))
	f.event("Pod", "static", "FailedScheduling", "")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.ready(1)
	f.patchPool(static, setReplicas(3))
	f.waitForObserved(static)
	f.deploy("next", 1, onePerNode("inflate"), withRequests("1500m", "2Gi"))
	f.waitForRunningPods("next", 1)
	f.ready(2)
	if list := f.claims(static.Name); len(list) > 0 {
		f.Errorf("the pool with replicas has claims: %s", sayConditions(list))
	}
}

// waitForObserved waits until the conditions of a pool are about its spec as it is now.
func (f *flow) waitForObserved(pool *karpv1.NodePool) {
	f.Helper()
	f.waitUntil(soon, "the pool "+pool.Name+" is seen as it is now", func() (bool, string) {
		if err := f.kube.Get(f.Context(), keyOf(pool), pool); err != nil {
			return false, err.Error()
		}
		ready := condition.Find(pool.Status.Conditions, karpv1.ConditionReady)
		return ready != nil && ready.ObservedGeneration == pool.Generation, fmt.Sprint(ready)
	})
}

// anUnhealthyNodeStays: one of two nodes is unhealthy for long enough. The other one, which is empty, is removed; the unhealthy one is not, and nothing
// is said of repair.
func (f *flow) anUnhealthyNodeStays() {
	f.pool("", onlyTypes("m5.large"), emptyAfter("1s"), withBudget("100%"))
	f.deploy("inflate", 1, withRequests("1500m", "2Gi"))
	f.waitForRunningPods("inflate", 1)
	unhealthy := f.ready(1)[0]
	goes := f.deploy("goes", 1, withRequests("1500m", "2Gi"))
	f.waitForRunningPods("goes", 1)
	f.ready(2)
	f.setUnhealthyCondition(unhealthy.Status.NodeName, "KernelReady")
	f.scale(goes, 0)
	f.waitUntil(later, "the empty node is gone", func() (bool, string) { return len(f.claims()) == 1, sayConditions(f.claims()) })
	if now := f.ready(1)[0]; now.UID != unhealthy.UID || now.Annotations[karpv1.AnnotationTerminationTimestamp] != "" {
		f.Errorf("the unhealthy node is repaired: %s", sayConditions(f.claims()))
	}
	if got := f.startedCommands(); !slices.Equal(got, []string{"empty delete"}) {
		f.Errorf("the commands were %v, want the empty node to be deleted", got)
	}
	for _, e := range slices.Concat(f.events("Node", unhealthy.Status.NodeName), f.events("NodeClaim", unhealthy.Name), f.events("NodePool", f.name)) {
		if e.Reason == "NodeRepairBlocked" {
			f.Errorf("an event says %s: %s", e.Reason, e.Note)
		}
	}
}

// aTargetedReservationIsNotUsed, although the class selects it and the pool allows it.
func (f *flow) aTargetedReservationIsNotUsed() {
	id := fmt.Sprintf("cr-%x", f.name)
	f.putReservation(&awsemu.CapacityReservation{ID: id, InstanceType: "m5.large", Zone: reservedZone, Total: 2, Available: 2, Tags: map[string]string{"flow": f.name}})
	patch(f, f.classNow(), func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: awsv1.Tags{"flow": f.name}}}
	})
	f.pool("", reservedFirst)
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.checkUnreserved("")
	if now := f.classNow().Status.CapacityReservations; len(now) > 0 {
		f.Errorf("the class lists reservations: %v", now)
	}
}

// anOpenReservationLeavesNoTrace: EC2 launches the instance into it, as into any that is open and fits. The node is on demand like all others,
// and does not drift.
func (f *flow) anOpenReservationLeavesNoTrace() {
	id := fmt.Sprintf("cr-%x", f.name)
	f.putReservation(&awsemu.CapacityReservation{ID: id, InstanceType: "r5dn.large", Zone: reservedZone, Total: 2, Available: 2, Match: "open"})
	pool := f.pool("", onlyTypes("r5dn.large"), withRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, reservedZone))
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.checkUnreserved(id)
	f.patchPool(pool, emptyAfter("1s")) // conditions are decided together
	claim := f.claim("is examined", hasCondition(karpv1.ConditionConsolidatable))
	if drifted := condition.Find(claim.Status.Conditions, karpv1.ConditionDrifted); drifted != nil {
		f.Errorf("the node drifted: %s", drifted.Message)
	}
	f.checkUnreserved(id)
}

// checkUnreserved fails unless the only claim of the test and its Node are on demand and name no reservation, whatever its instance runs in.
func (f *flow) checkUnreserved(reservation string) {
	f.Helper()
	claim := f.ready(1)[0]
	var i awsemu.Instance
	f.decodeLoosely(f.callControlAPI(http.MethodGet, "instances/"+instanceOf(&claim), ""), &i)
	if i.Reservation != reservation {
		f.Errorf("the instance runs in reservation %q, want %q", i.Reservation, reservation)
	}
	for what, labels := range map[string]map[string]string{"NodeClaim": claim.Labels, "Node": f.nodeOf(&claim).Labels} {
		if labels[karpv1.LabelCapacityType] != karpv1.CapacityTypeOnDemand {
			f.Errorf("the %s is %s", what, labels[karpv1.LabelCapacityType])
		}
		for _, key := range []string{awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterrupt} {
			if value, has := labels[key]; has {
				f.Errorf("the %s has label %s=%s", what, key, value)
			}
		}
	}
}
