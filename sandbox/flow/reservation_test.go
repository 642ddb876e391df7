package flow_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu"
)

// Capacity that is paid for already: reservations of one type in one zone, those that are lent and can be taken back,
// and capacity blocks, which end.

const reservedZone = "eu-west-1a"

// createReservation gives the account a reservation of m5.large that only the class of the test selects.
func (f *flow) createReservation(slots int, change ...func(*awsemu.CapacityReservation)) string {
	f.Helper()
	r := &awsemu.CapacityReservation{
		ID: fmt.Sprintf("cr-%x", f.name), InstanceType: "m5.large", Zone: reservedZone, Total: slots, Available: slots, Tags: map[string]string{"flow": f.name},
	}
	for _, do := range change {
		do(r)
	}
	f.putReservation(r)
	patch(f, f.classNow(), func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: awsv1.Tags{"flow": f.name}}}
	})
	f.waitUntil(soon, "the class shows the reservation", func() (bool, string) {
		found := f.classNow().Status.CapacityReservations
		return len(found) == 1 && found[0].ID == r.ID, fmt.Sprint(found)
	})
	f.classReady()
	return r.ID
}

func (f *flow) classNow() *awsv1.EC2NodeClass {
	f.Helper()
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	if err := f.kube.Get(f.Context(), keyOf(class), class); err != nil {
		f.Fatal(err)
	}
	return class
}

func (f *flow) putReservation(r *awsemu.CapacityReservation) {
	f.Helper()
	body, err := json.Marshal([]*awsemu.CapacityReservation{r})
	if err != nil {
		f.Fatal(err)
	}
	f.callControlAPI(http.MethodPut, "reservations", string(body))
}

// reservationEnds says when a reservation of the test is over.
func (f *flow) reservationEnds(id string, in time.Duration) {
	f.Helper()
	f.callControlAPI(http.MethodPut, "reservations", fmt.Sprintf(`[{"id":%q,"end":%q}]`, id, time.Now().Add(in).UTC().Format(time.RFC3339)))
}

// mayUse lets a pool have m5.large of some capacity types.
func mayUse(capacityTypes ...string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		onlyTypes("m5.large")(p)
		withRequirement(karpv1.LabelCapacityType, corev1.NodeSelectorOpIn, capacityTypes...)(p)
	}
}

var (
	reservedFirst = mayUse(karpv1.CapacityTypeReserved, karpv1.CapacityTypeOnDemand)
	reservedOnly  = mayUse(karpv1.CapacityTypeReserved)
)

// splitByReservation returns the claims that run in a reservation, and the others. It fails if a claim, its Node and its instance do
// not say the same.
func (f *flow) splitByReservation(id string, claims []karpv1.NodeClaim) (inside, outside []karpv1.NodeClaim) {
	f.Helper()
	for _, c := range claims {
		var i awsemu.Instance
		f.decodeLoosely(f.callControlAPI(http.MethodGet, "instances/"+instanceOf(&c), ""), &i)
		want := karpv1.CapacityTypeOnDemand
		if i.Reservation == id {
			want = karpv1.CapacityTypeReserved
			inside = append(inside, c)
		} else {
			outside = append(outside, c)
		}
		node := f.nodeOf(&c)
		for what, labels := range map[string]map[string]string{"NodeClaim": c.Labels, "Node": node.Labels} {
			if labels[karpv1.LabelCapacityType] != want || labels[awsv1.LabelCapacityReservationID] != i.Reservation {
				f.Errorf("%s of %s is %s of reservation %q, its instance is %s of %q", what, c.Name,
					labels[karpv1.LabelCapacityType], labels[awsv1.LabelCapacityReservationID], i.CapacityType, i.Reservation)
			}
		}
	}
	return inside, outside
}

// slotsAreFree fails if a launch of the test wanted a slot that was not free: such a claim is given up.
func (f *flow) slotsAreFree() {
	f.Helper()
	for _, e := range f.events("NodeClaim", f.name) {
		if e.Reason == "InsufficientCapacityError" {
			f.Errorf("a launch wanted a slot that was not free: %s", e.Note)
		}
	}
}

// SC-45, SC-47, S-046, FM F09: three pods that need a node each have a reservation of two slots and get two reserved
// nodes and one on demand. The pool allows no spot. When the reservation is over the nodes stay: they are relabelled.
func TestSC_47_AReservationIsUsedFirst(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	id := f.createReservation(2)
	f.deploy("inflate", 3, onePerNode("inflate"))
	f.waitForUnschedulable(3)
	f.pool("", reservedFirst, withBudget("0"))
	f.waitForRunningPods("inflate", 3)
	before := f.ready(3)
	inside, outside := f.splitByReservation(id, before)
	if len(inside) != 2 || len(outside) != 1 {
		t.Errorf("%d nodes run in the reservation of two slots and %d outside, want 2 and 1", len(inside), len(outside))
	}
	for _, c := range inside {
		for key, want := range map[string]string{
			awsv1.LabelCapacityReservationType: "default", awsv1.LabelCapacityReservationInterrupt: "false", corev1.LabelTopologyZone: reservedZone,
		} {
			if c.Labels[key] != want {
				t.Errorf("label %s of %s is %q, want %q", key, c.Name, c.Labels[key], want)
			}
		}
	}
	f.slotsAreFree()

	f.reservationEnds(id, -time.Second)
	f.waitUntil(later, "all claims and nodes are on-demand and of no reservation", func() (bool, string) {
		for _, c := range f.claims() {
			for _, labels := range []map[string]string{c.Labels, f.nodeOf(&c).Labels} {
				if labels[karpv1.LabelCapacityType] != karpv1.CapacityTypeOnDemand || labels[awsv1.LabelCapacityReservationID] != "" {
					return false, fmt.Sprint(labels)
				}
			}
		}
		return true, ""
	})
	for _, c := range f.ready(3) {
		if !slices.ContainsFunc(before, func(b karpv1.NodeClaim) bool { return b.UID == c.UID }) {
			t.Errorf("%s is new, although no node had to go", c.Name)
		}
	}
}

// V15-45: a reservation that is full, next to nothing else, leaves a pod pending without a claim. A slot that becomes
// free is used.
func TestV15_45_APodWaitsForASlot(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	id := f.createReservation(1)
	f.pool("", reservedOnly, emptyAfter("1s"))
	first := f.deploy("first", 1)
	f.waitForRunningPods("first", 1)
	f.ready(1)
	f.deploy("second", 1, func(p *corev1.PodTemplateSpec) { // whose node is no use to the first
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "first"}},
		}}}}
	})
	f.waitForUnschedulable(1)
	f.checkStays(15*time.Second, "the pod waits, and no claim is made for it", func() (bool, string) { return len(f.claims()) == 1, sayConditions(f.claims()) })
	f.scale(first, 0)
	f.waitForRunningPods("second", 1, later)
	f.claim("has the slot", func(c *karpv1.NodeClaim) bool {
		return c.DeletionTimestamp == nil && c.Labels[awsv1.LabelCapacityReservationID] == id
	})
	f.slotsAreFree()
}

// FM F11: the node in the only slot of a reservation drifts, and no other capacity may be used. It is not removed first,
// its pod keeps running, and an event says what is missing. With a second slot it is replaced.
func TestFM_F11_AFullReservationBlocksDrift(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	id := f.createReservation(1)
	pool := f.pool("", reservedOnly, withBudget("1"))
	f.deploy("inflate", 1)
	pod := f.waitForRunningPods("inflate", 1)[0]
	old := f.ready(1)[0]
	f.patchPool(pool, withGoldLabel)
	f.claim("is drifted", hasCondition(karpv1.ConditionDrifted))
	f.event("NodeClaim", old.Name, "DisruptionBlocked", "")
	if now := f.waitForRunningPods("inflate", 1)[0]; now.UID != pod.UID || len(f.claims()) != 1 {
		t.Errorf("the node was disrupted although nothing can replace it: %s", sayConditions(f.claims()))
	}
	f.callControlAPI(http.MethodPut, "reservations", fmt.Sprintf(`[{"id":%q,"total":2,"available":1}]`, id))
	f.waitUntilGone(&old, later)
	f.waitForRunningPods("inflate", 1)
	f.slotsAreFree()
}

// FM F08, SC-45: the only slot of a reservation is gone when the launch for it comes to EC2, right before it requests the instance. The launch
// is refused and its claim given up; the pod runs on demand after one launch more, and the reservation is not tried again.
func TestFM_F08_AReservationShrinksBeforeTheLaunch(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	id := f.createReservation(1)
	gone, cancel := f.world.AWS.Once(awsemu.Trigger{Action: "ec2:CreateLaunchTemplate", Text: id, Moment: awsemu.BeforeCall, Run: func(awsemu.Call) {
		if _, err := f.server.Control(t.Context(), http.MethodPut, "reservations", fmt.Sprintf(`[{"id":%q,"total":0,"available":0}]`, id)); err != nil {
			t.Error(err)
		}
	}})
	f.Cleanup(cancel)
	f.pool("", reservedFirst, withRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, reservedZone))
	f.deploy("inflate", 1)
	f.event("NodeClaim", f.name, "InsufficientCapacityError", "")
	f.waitForRunningPods("inflate", 1)
	select {
	case <-gone:
	default:
		t.Error("nothing was launched for the slot")
	}
	if inside, outside := f.splitByReservation(id, f.ready(1)); len(inside) != 0 || len(outside) != 1 {
		t.Errorf("%d nodes in the reservation and %d on demand, want one on demand", len(inside), len(outside))
	}
	if n := len(f.fleetCalls()); n != 2 {
		t.Errorf("%d launches, want one that was refused and one on demand", n)
	}
}

// S-047: a reservation that is lent to the account is taken back. The claim is deleted, the reservation is not used
// again, and the pod runs on demand.
func TestS_047_AnInterruptibleReservationIsTakenBack(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	id := f.createReservation(2, func(r *awsemu.CapacityReservation) { r.Interruptible, r.Source = true, "cr-0123456789" })
	f.pool("", reservedFirst)
	f.deploy("inflate", 1, stopsAfter(1))
	f.waitForRunningPods("inflate", 1)
	old := f.ready(1)[0]
	if inside, _ := f.splitByReservation(id, []karpv1.NodeClaim{old}); len(inside) != 1 || old.Labels[awsv1.LabelCapacityReservationInterrupt] != "true" {
		t.Errorf("%s has labels %v, want a node of the reservation that can be interrupted", old.Name, old.Labels)
	}
	f.callControlAPI(http.MethodPost, "reservation-interrupt", fmt.Sprintf(`{"instance":%q,"notice":"60s"}`, instanceOf(&old)))
	f.event("NodeClaim", old.Name, "CapacityReservationInstanceInterrupted", "")
	f.waitUntilGone(&old)
	f.waitForRunningPods("inflate", 1)
	if next := f.ready(1)[0]; next.Labels[karpv1.LabelCapacityType] != karpv1.CapacityTypeOnDemand {
		t.Errorf("the successor is %s, want on-demand: the reservation is being taken back", next.Labels[karpv1.LabelCapacityType])
	}
}

// FM F09: a capacity block ends in half an hour. Its node is drained before EC2 takes the instance, and the pod runs on
// demand.
func TestFM_F09_ACapacityBlockIsLeftBeforeItEnds(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	id := f.createReservation(2, func(r *awsemu.CapacityReservation) { r.Type, r.End = "capacity-block", time.Now().Add(24*time.Hour) })
	f.pool("", reservedFirst)
	f.deploy("inflate", 1, stopsAfter(1))
	pod := f.waitForRunningPods("inflate", 1)[0]
	old := f.ready(1)[0]
	if inside, _ := f.splitByReservation(id, []karpv1.NodeClaim{old}); len(inside) != 1 || old.Labels[awsv1.LabelCapacityReservationType] != "capacity-block" {
		t.Errorf("%s has labels %v, want a node of the capacity block", old.Name, old.Labels)
	}
	f.reservationEnds(id, 35*time.Minute)
	f.event("NodeClaim", old.Name, "DisruptionTerminating", "CapacityBlockExpired: capacity block "+id, later)
	f.event("Pod", pod.Name, "Evicted", "")
	f.waitUntilGone(&old)
	f.waitForRunningPods("inflate", 1)
	next := f.ready(1)[0]
	if _, outside := f.splitByReservation(id, []karpv1.NodeClaim{next}); len(outside) != 1 {
		t.Errorf("%s was launched into the capacity block that ends", next.Name)
	}
}

// SC-45, V15-45, V15-46: pods that wait and nodes that drifted want the only free slot of a reservation at one time.
// Provisioning and disruption never both take it: no launch is refused for want of a slot.
func TestSC_45_ProvisioningAndDisruptionTakeNoSlotTwice(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	id := f.createReservation(3)
	pool := f.pool("", reservedFirst, withBudget("100%"))
	d := f.deploy("inflate", 2, onePerNode("inflate"))
	f.waitForRunningPods("inflate", 2)
	before := f.ready(2)
	f.patchPool(pool, func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"tier": "gold"} })
	patch(f, d, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(4)) })
	for i := range before {
		f.waitUntilGone(&before[i], later)
	}
	f.waitForRunningPods("inflate", 4, later)
	inside, _ := f.splitByReservation(id, f.ready(4))
	if len(inside) > 3 {
		t.Errorf("%d nodes run in a reservation of three slots", len(inside))
	}
	f.slotsAreFree()
}

// LC-46, FM M02: a static pool grows while all its nodes drift. Both loops make claims, and there is never one more
// than the limit allows.
func TestFM_M02_AStaticPoolGrowsWhileItDrifts(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	p := f.pool("", onlyTypes("m5.large"), withReplicas(2, "4"), withBudget("100%"))
	f.ready(2)
	f.patchPool(p, setReplicas(3), func(p *karpv1.NodePool) {
		p.Spec.Template.ObjectMeta.Labels = map[string]string{"example.com/team": "b"}
	})
	most := 0
	f.waitUntil(later, "three claims are ready, all as the template now says", func() (bool, string) {
		list := f.claims()
		most = max(most, len(list))
		done := len(list) == 3 && !slices.ContainsFunc(list, func(c karpv1.NodeClaim) bool {
			return c.Labels["example.com/team"] != "b" || c.DeletionTimestamp != nil || !hasCondition(karpv1.ConditionInitialized)(&c)
		})
		return done, sayConditions(list)
	})
	if most > 4 {
		t.Errorf("%d claims at a time, the limit is 4", most)
	}
}
