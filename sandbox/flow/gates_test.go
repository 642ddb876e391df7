package flow_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// newNeighbour is another flow in the cluster of this one, with its controller.
func (f *flow) newNeighbour(t *testing.T) *flow {
	t.Helper()
	return beginFlow(t, f.cluster, f.own)
}

// TestGates has what is off by default: one controller with all these settings on serves them all, so that it starts once.
func TestGates(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.allowAction("arc-zonal-shift:GetManagedResource", "*")
	f.withRights([]string{"settings.featureGates.podDeletionCostManagement=true"},
		"--preference-policy=Ignore", "--min-values-policy=BestEffort", "--enable-zonal-shift",
		"--feature-gates=SpotToSpotConsolidation=true,StaticCapacity=true,NodeRepair=true,TerminateFirstDrift=true,TerminateFirstRepair=true,PodDeletionCostManagement=true")
	t.Run("together", func(t *testing.T) {
		for name, run := range map[string]func(*flow){
			"SC-12, SC-35: preferences are ignored":                   (*flow).preferencesAreIgnored,
			"SC-43, FM-F12: minValues are lowered":                    (*flow).minValuesAreLowered,
			"FM-P03: spot is replaced by spot":                        (*flow).spotIsReplacedBySpot,
			"V15-47, FM-F11: a full reservation: terminate first":     (*flow).aFullReservationIsLeftFirst,
			"V15-49, FM-M02: a static pool at its limit: the same":    (*flow).aStaticPoolAtItsLimit,
			"V15-47, V15-50: an unhealthy node in a full reservation": (*flow).aFullReservationIsRepaired,
			"V15-49, V15-50: an unhealthy node in a static pool":      (*flow).aStaticPoolAtItsLimitIsRepaired,
			"V15-53, V15-54: scale-down empties the node to go next":  (*flow).scaleDownEmptiesANode,
			"FM-M12, V15-25: a zone fails":                            (*flow).aZoneFails,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(f.newNeighbour(t))
			})
		}
	})
	t.Run("FM-E19: a zonal shift", func(t *testing.T) { f.newNeighbour(t).aZoneIsShiftedAway() }) // which is so for all
}

// preferencesAreIgnored: pods that would rather have a dear type, and a node each, share a cheap one.
func (f *flow) preferencesAreIgnored() {
	f.deploy("inflate", 2, withRequests("500m", "512Mi"), func(p *corev1.PodTemplateSpec) {
		dear := corev1.NodeSelectorRequirement{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m5.2xlarge"}}
		p.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{dear}},
			}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "inflate"}}},
			}}},
		}
	})
	f.waitForUnschedulable(2)
	f.pool("", onlyTypes("m5.large", "m5.2xlarge"))
	f.waitForRunningPods("inflate", 2)
	if got := typesOf(f.ready(1)); !slices.Equal(got, []string{"m5.large"}) {
		f.Errorf("the pods run on %v, want one m5.large", got)
	}
}

// minValuesAreLowered: a pool that requests two families and can have one gets its node, and the claim says so.
func (f *flow) minValuesAreLowered() {
	f.pool("", onlyTypes("m5.large"), withMinValues(2, awsv1.LabelInstanceFamily, "c5", "m5"))
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	if claim := f.ready(1)[0]; claim.Annotations[karpv1.AnnotationMinValuesRelaxed] != "true" {
		f.Errorf("the claim has annotations %v", claim.Annotations)
	}
}

// spotIsReplacedBySpot: a spot node that is too large stays while fewer than fifteen types are cheaper. With more of them
// it is replaced by a node of one of the cheapest fifteen.
func (f *flow) spotIsReplacedBySpot() {
	pool := f.pool("", onlyTypes("m5.2xlarge"), onlySpot)
	old := f.createOversizedNode()
	f.patchPool(pool, allowConsolidation, withRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, "m5.large", "m5.xlarge", "m5.2xlarge", "m5a.large"))
	f.event("Node", old.Status.NodeName, "Unconsolidatable", "15 are needed")
	if list := f.claims(); len(list) != 1 || list[0].UID != old.UID {
		f.Errorf("the node was replaced although three types are cheaper: %s", sayConditions(list))
	}
	f.patchPool(pool, func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Requirements = nil
		onlySpot(p)
		withRequirement(corev1.LabelArchStable, corev1.NodeSelectorOpIn, "amd64")(p)
		withRequirement(awsv1.LabelInstanceCategory, corev1.NodeSelectorOpIn, "c", "m", "r")(p)
		withRequirement(awsv1.LabelInstanceGeneration, corev1.NodeSelectorOpGt, "2")(p)
	})
	f.waitUntilGone(&old, later)
	next := f.ready(1)[0]
	f.waitForRunningPods("inflate", 1)
	if next.Labels[karpv1.LabelCapacityType] != karpv1.CapacityTypeSpot {
		f.Errorf("the successor is %s", next.Labels[karpv1.LabelCapacityType])
	}
	at := slices.IndexFunc(next.Spec.Requirements, func(r karpv1.Requirement) bool { return r.Key == corev1.LabelInstanceTypeStable })
	if at < 0 || len(next.Spec.Requirements[at].Values) != 15 {
		f.Errorf("the successor may be of %v, want the cheapest 15 types", next.Spec.Requirements)
	}
	if got := f.startedCommands(); !slices.Equal(got, []string{"underutilized replace"}) {
		f.Errorf("the commands were %v, want one replacement", got)
	}
}

// withGoldLabel changes the template of a pool, so that its nodes drift.
func withGoldLabel(p *karpv1.NodePool) {
	p.Spec.Template.ObjectMeta.Labels = map[string]string{"tier": "gold"}
}

// aFullReservationIsLeftFirst: the only slot is taken by the node that drifted. It goes first and its successor has the slot.
func (f *flow) aFullReservationIsLeftFirst() {
	id := f.createReservation(1)
	pool := f.pool("", reservedOnly, withBudget("1"))
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	old := f.ready(1)[0]
	f.patchPool(pool, withGoldLabel)
	f.waitUntilGone(&old, later)
	f.waitForRunningPods("inflate", 1)
	if inside, _ := f.splitByReservation(id, f.ready(1)); len(inside) != 1 || inside[0].Labels["tier"] != "gold" {
		f.Errorf("the successor is not in the reservation: %v", inside)
	}
	if got := f.startedCommands(); !slices.Equal(got, []string{"drifted terminate-first"}) {
		f.Errorf("the commands were %v, want drifted terminate-first", got)
	}
	f.slotsAreFree()
}

// aStaticPoolAtItsLimit: there is no room for a second node, so the one that drifted goes first.
func (f *flow) aStaticPoolAtItsLimit() {
	pool := f.pool("", onlyTypes("m5.large"), withReplicas(1, "1"))
	old := f.ready(1)[0]
	f.patchPool(pool, withGoldLabel)
	f.waitUntilTerminatedFirst(&old)
	if got := f.startedCommands(); !slices.Equal(got, []string{"drifted terminate-first"}) {
		f.Errorf("the commands were %v, want drifted terminate-first", got)
	}
}

// waitUntilTerminatedFirst waits until the only node has a successor, and fails if both were there at a time.
func (f *flow) waitUntilTerminatedFirst(old *karpv1.NodeClaim) {
	f.Helper()
	most := 0
	f.waitUntil(later, "the node is replaced", func() (bool, string) {
		list := f.claims()
		most = max(most, len(slices.DeleteFunc(slices.Clone(list), func(c karpv1.NodeClaim) bool { return isDeleting(&c) })))
		return len(list) == 1 && list[0].UID != old.UID && hasCondition(karpv1.ConditionInitialized)(&list[0]), sayConditions(list)
	})
	if most > 1 {
		f.Errorf("%d claims at a time, want 1: the old one goes first", most)
	}
}

// aFullReservationIsRepaired: the node in the only slot is unhealthy. It goes first and its successor has the slot.
func (f *flow) aFullReservationIsRepaired() {
	id := f.createReservation(1)
	f.pool("", reservedOnly)
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	old := f.ready(1)[0]
	f.setUnhealthyCondition(old.Status.NodeName, "KernelReady")
	f.waitUntilTerminatedFirst(&old)
	f.waitForRunningPods("inflate", 1)
	if inside, _ := f.splitByReservation(id, f.ready(1)); len(inside) != 1 {
		f.Errorf("the successor is not in the reservation: %s", sayConditions(f.claims()))
	}
	if got := f.startedCommands(); !slices.Equal(got, []string{"unhealthy terminate-first"}) {
		f.Errorf("the commands were %v, want unhealthy terminate-first", got)
	}
	f.slotsAreFree()
}

// aStaticPoolAtItsLimitIsRepaired: there is no room for a second node, so the unhealthy one goes first.
func (f *flow) aStaticPoolAtItsLimitIsRepaired() {
	f.pool("", onlyTypes("m5.large"), withReplicas(1, "1"))
	old := f.ready(1)[0]
	f.setUnhealthyCondition(old.Status.NodeName, "KernelReady")
	f.waitUntilTerminatedFirst(&old)
	if got := f.startedCommands(); !slices.Equal(got, []string{"unhealthy terminate-first"}) {
		f.Errorf("the commands were %v, want unhealthy terminate-first", got)
	}
}

// aZoneFails: of six nodes the three in one zone are unhealthy. None is repaired, which the pool, the nodes and the claims say, until one
// of them is well again: two are a fifth of six, rounded up.
func (f *flow) aZoneFails() {
	pool := f.pool("", onlyTypes("m5.large"), withBudget("0"))
	inside := f.deploy("inside", 3, withNodeSelector(karpv1.LabelNodePool, f.name, corev1.LabelTopologyZone, "eu-west-1a"), withRequests("1500m", "2Gi"))
	f.deploy("outside", 3, withNodeSelector(karpv1.LabelNodePool, f.name, corev1.LabelTopologyZone, "eu-west-1b"), withRequests("1500m", "2Gi"))
	f.waitForRunningPods(inside.Name, 3)
	f.waitForRunningPods("outside", 3)
	var unhealthy []karpv1.NodeClaim
	for _, c := range f.ready(6) {
		if c.Labels[corev1.LabelTopologyZone] == "eu-west-1a" {
			unhealthy = append(unhealthy, c)
			f.setUnhealthyCondition(c.Status.NodeName, "KernelReady")
		}
	}
	f.event("NodePool", pool.Name, "NodeRepairBlocked", "3 of 6 nodes of NodePool "+pool.Name+" are unhealthy and repair stops above 2")
	f.patchPool(pool, func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = nil }, withBudget("100%")) // it kept the first two until all were unhealthy
	f.checkUndisturbed()
	for _, c := range unhealthy {
		f.event("Node", c.Status.NodeName, "NodeRepairBlocked", "3 of 6")
		f.event("NodeClaim", c.Name, "NodeRepairBlocked", "3 of 6")
	}
	f.removeNodeCondition(f.nodeOf(&unhealthy[0]), "KernelReady")
	for i := range unhealthy[1:] {
		f.waitUntilGone(&unhealthy[1+i], later)
	}
	if list := f.ready(6); !slices.ContainsFunc(list, func(c karpv1.NodeClaim) bool { return c.UID == unhealthy[0].UID }) {
		f.Errorf("the node that is well again was repaired: %s", sayConditions(list))
	}
	f.waitForRunningPods(inside.Name, 3)
	if got := f.startedCommands(); !slices.Equal(got, []string{"unhealthy replace", "unhealthy replace"}) {
		f.Errorf("the commands were %v, want two replacements", got)
	}
}

// scaleDownEmptiesANode: of two nodes with two pods each, the one that consolidation would take first loses both of its
// pods when the Deployment shrinks. Without the gate each node would lose one.
func (f *flow) scaleDownEmptiesANode() {
	d := f.deploy("inflate", 4, withRequests("1500m", "2Gi"))
	f.waitForUnschedulable(4)
	f.pool("", onlyTypes("m5.xlarge"), allowConsolidation, emptyAfter("1h"))
	f.waitForRunningPods("inflate", 4)
	f.ready(2)
	next := ""
	f.waitUntil(later, "the pods of one node have a deletion cost below 0", func() (bool, string) {
		on, said := map[string]int{}, ""
		for _, p := range f.pods("inflate") {
			if cost := p.Annotations[corev1.PodDeletionCost]; strings.HasPrefix(cost, "-") {
				on[p.Spec.NodeName]++
				next = p.Spec.NodeName
			}
			said += fmt.Sprintf(" %s:%s", p.Spec.NodeName, p.Annotations[corev1.PodDeletionCost])
		}
		return len(on) == 1 && on[next] == 2, said
	})
	f.scale(d, 2)
	for _, p := range f.waitForRunningPods("inflate", 2) {
		if p.Spec.NodeName == next {
			f.Errorf("pod %s is left on %s, which consolidation takes next", p.Name, next)
		}
	}
}

// aZoneIsShiftedAway: meanwhile nothing is launched in the zone and nothing ended there, and the other zones go on. When
// the shift is over all that waited is done.
func (f *flow) aZoneIsShiftedAway() {
	const zone = "eu-west-1a"
	pool := f.pool("", onlyTypes("m5.large"), emptyAfter("1s"), withBudget("100%"))
	inside := f.deploy("inside", 1, withNodeSelector(karpv1.LabelNodePool, f.name, corev1.LabelTopologyZone, zone))
	f.waitForRunningPods("inside", 1)
	first := f.ready(1)[0]
	f.callControlAPI(http.MethodPut, "shifts", `{"active":[{"awayFrom":"`+zone+`","for":"1h"}]}`)
	over := func() { f.callControlAPI(http.MethodPut, "shifts", `{"active":[]}`) }
	f.Cleanup(over)
	f.event("NodePool", pool.Name, "ZonalShiftActive", zone)
	f.deploy("waits", 1, withNodeSelector(karpv1.LabelNodePool, f.name, corev1.LabelTopologyZone, zone), withRequests("1500m", "1Gi"))
	others := f.deploy("others", 3, onePerNode("others"), withRequests("1500m", "1Gi"))
	f.waitForRunningPods("others", 3)
	for _, c := range f.claims() {
		if c.UID != first.UID && c.Labels[corev1.LabelTopologyZone] == zone {
			f.Errorf("%s was launched in the zone that is shifted away", c.Name)
		}
	}
	f.event("Pod", "waits", "FailedScheduling", "")
	f.scale(inside, 0)
	f.scale(others, 0)
	f.waitUntil(soon, "the empty nodes of the other zones are gone", func() (bool, string) { return len(f.claims()) <= 1, sayConditions(f.claims()) })
	f.checkStays(10*time.Second, "the instance in the zone runs on", func() (bool, string) {
		return f.stateOf(instanceOf(&first)) == "running", f.stateOf(instanceOf(&first))
	})
	over()
	f.event("NodePool", pool.Name, "ZonalShiftCleared", zone)
	f.waitForRunningPods("waits", 1, later)
}
