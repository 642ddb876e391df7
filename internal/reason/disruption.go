package reason

// Codes of disruption: why a node that could go stays. Subjects are "node/NAME"; several nodes that stay
// together have none.
const (
	NodeCommanded   Code = "NodeCommanded"
	NodeRests       Code = "NodeRests"
	NodeRebooting   Code = "NodeRebooting"
	NodeStarting    Code = "NodeStarting" // have: "registered" or "initialized"
	NodeNominated   Code = "NodeNominated"
	DoNotDisrupt    Code = "DoNotDisrupt" // have: what carries the annotation; want: the annotation
	LeaderAlone     Code = "LeaderAlone"
	PoolLabelAbsent Code = "PoolLabelAbsent" // want: the label
	PoolUnresolved  Code = "PoolUnresolved"  // have: the pool

	EvictionForbidden  Code = "EvictionForbidden"  // have: the PodDisruptionBudget; want: the pod
	EvictionImpossible Code = "EvictionImpossible" // have: the PodDisruptionBudget; want: the pod
	EvictionAmbiguous  Code = "EvictionAmbiguous"  // have: the PodDisruptionBudgets; want: the pod

	ConsolidationOff Code = "ConsolidationOff" // have: the pool
	EmptyOnly        Code = "EmptyOnly"        // have: the pool
	BufferHeld       Code = "BufferHeld"
	TypeUnknown      Code = "TypeUnknown"  // have: the instance type
	LabelAbsent      Code = "LabelAbsent"  // want: the label
	NodeYoung        Code = "NodeYoung"    // have: its age; want: the least age
	BudgetSpent      Code = "BudgetSpent"  // have: the pools; want: the reason for which nodes would go
	MoveTooLarge     Code = "MoveTooLarge" // have: number of nodes; want: the most that go together
	BenefitTooSmall  Code = "BenefitTooSmall"
	PromisedBefore   Code = "PromisedBefore" // want: what moves brought the cluster to; have: when
	ScoreTooLow      Code = "ScoreTooLow"    // have: the score and the pool; want: the least score
	SpotTypesTooFew  Code = "SpotTypesTooFew"
	SpotToSpotOff    Code = "SpotToSpotOff"
	MoveOutdated     Code = "MoveOutdated"

	DriftRests       Code = "DriftRests"       // have: the pool; want: until when
	ReservationsFull Code = "ReservationsFull" // have: the pool
	StaticAtLimit    Code = "StaticAtLimit"    // have: claims and limit; want: the pool
	StaticSurplus    Code = "StaticSurplus"    // have: nodes; want: replicas
)

// disruptionCodes documents them.
func disruptionCodes(yield func(Doc) bool) bool {
	return yield(Doc{NodeCommanded, "is part of a disruption in progress", "A running command already removes the node.", "Nothing has to be done."}) &&
		yield(Doc{NodeRests, "was to be removed a moment ago, but the command failed or was rolled back; it is checked again soon", "A command for the node could not be started, or was rolled back. The node then has a back-off of some seconds, which increases each time.", "Nothing has to be done. If it persists, search the log for the reason why its commands fail."}) &&
		yield(Doc{NodeRebooting, "is being rebooted", "A node that is being rebooted for repair is not disrupted until the reboot is over.", "Nothing has to be done."}) &&
		yield(Doc{NodeStarting, "is not {have} yet", "A node that is not initialized is never disrupted.", "Nothing has to be done. If it persists, check the conditions of the NodeClaim: startup taints or resources may be missing."}) &&
		yield(Doc{NodeNominated, "a pending pod is expected on it", "The latest plan places a pending pod on the node.", "Nothing has to be done."}) &&
		yield(Doc{DoNotDisrupt, "{have} carries annotation {want}; remove the annotation to allow its disruption", "The annotation forbids voluntary disruption.", "Remove the annotation, or give it a duration on the pod. With terminationGracePeriod set, drift does not wait for pods that carry it."}) &&
		yield(Doc{LeaderAlone, "the leader of this controller runs on it, and no other replica is ready on another node; give the controller a second replica", "If no replica can take over, the removal of the node would not be completed. Expiration, interruptions and repair do not wait.", "Run two replicas of the controller, on different nodes, and look why the other one is not ready."}) &&
		yield(Doc{PoolLabelAbsent, "has no label {want}; put it back", "Without the label, Dovetail does not know which NodePool the node belongs to.", "Put the label back on the NodeClaim and the Node."}) &&
		yield(Doc{PoolUnresolved, "the instance types of NodePool {have} cannot be resolved; check that it and its node class are ready", "The NodePool does not exist, or its instance types are not known, so Dovetail does not know whether it could replace the node.", "Check that the NodePool and its node class exist and are ready."}) &&
		yield(Doc{EvictionForbidden, "PodDisruptionBudget {have} allows no eviction of pod {want} at present; it does once more of its pods are ready than it requires", "As many pods of the budget are down as it tolerates, or it requires as many as there are.", "Nothing has to be done if pods that are down become ready again; otherwise find out why they do not. If all are ready, scale their workload up or let the budget require fewer."}) &&
		yield(Doc{EvictionImpossible, "PodDisruptionBudget {have} can never allow an eviction of pod {want}; change it to allow at least one", "maxUnavailable is 0, or minAvailable is 100 %: the node can be removed only with a terminationGracePeriod, or manually.", "Change the budget to allow at least one eviction."}) &&
		yield(Doc{EvictionAmbiguous, "pod {want} is selected by more than one PodDisruptionBudget, which the eviction API refuses; let only one of these select it: {have}", "A pod that several budgets select cannot be evicted at all.", "Change the selectors so that one budget selects the pod."}) &&
		yield(Doc{ConsolidationOff, "NodePool {have} has consolidateAfter Never: its nodes are not consolidated unless that is set to a time", "Consolidation is turned off for the pool, including consolidation of empty nodes.", "Set consolidateAfter to a duration to turn it on."}) &&
		yield(Doc{EmptyOnly, "NodePool {have} has consolidationPolicy WhenEmpty: only empty nodes of it are consolidated; WhenEmptyOrUnderutilized also consolidates others", "The node still runs pods that would have to move.", "To consolidate such nodes, set consolidationPolicy to WhenEmptyOrUnderutilized or Balanced."}) &&
		yield(Doc{BufferHeld, "provides capacity for a CapacityBuffer", "The node is empty, but a CapacityBuffer needs its capacity.", "Nothing has to be done; make the buffer smaller to free the node."}) &&
		yield(Doc{TypeUnknown, "its instance type {have} is not among those of its NodePool, so that no move can be priced", "The node's instance type is not among those that its NodePool allows, so no move can be priced.", "Check that the instance type still exists, or remove the node manually."}) &&
		yield(Doc{LabelAbsent, "has no label {want}; put it back", "Without the label, the price of the node cannot be determined.", "Put the label back on the Node."}) &&
		yield(Doc{NodeYoung, "is {have} old; nodes are consolidated from an age of {want} on, see --consolidation-min-node-age", "New nodes are not consolidated for a while, so that pods are not moved again and again.", "Nothing has to be done. The setting --consolidation-min-node-age sets the minimum age."}) &&
		yield(Doc{BudgetSpent, "the disruption budgets of NodePool {have} leave no room for it (reason {want})", "The budgets of the pool allow no more nodes to be disrupted at present.", "Nothing has to be done: Dovetail checks the node again as soon as the budgets allow it. To disrupt more nodes at a time, raise spec.disruption.budgets."}) &&
		yield(Doc{MoveTooLarge, "{have} nodes would be removed together; at most {want} are allowed", "A move of very many nodes waits for the slowest of all its replacements.", "Nothing has to be done: Dovetail searches for smaller moves."}) &&
		yield(Doc{BenefitTooSmall, "the move saves {have}, but moving its pods is assumed to cost {want}; see --consolidation-pod-cost", "The savings of the move over the horizon are less than the assumed cost of its evictions.", "Nothing has to be done. To allow more moves, lower --consolidation-pod-cost or raise --consolidation-horizon."}) &&
		yield(Doc{PromisedBefore, "moves of the same pods reduced the cost of the cluster to {want} an hour at {have}, but not permanently", "Pods of this workload were moved recently, but the scheduler placed them elsewhere, and another node had to be launched. Dovetail does not repeat such a move, because it would have the same result.", "Nothing has to be done: as soon as pods change, moves are looked at as usual. To have the scheduler fill nodes, let it score by MostAllocated."}) &&
		yield(Doc{ScoreTooLow, "policy Balanced: score {have} is below {want}", "The share of the pool's cost that the move saves is too small for the share of its pods that it moves.", "Nothing has to be done. To allow every move that saves money, use consolidationPolicy WhenEmptyOrUnderutilized."}) &&
		yield(Doc{SpotTypesTooFew, "{have} cheaper spot instance types were found, {want} are needed to replace a spot node", "With only a few instance types to choose from, EC2 would reclaim each replacement sooner than the previous node.", "Allow more instance types in the NodePool."}) &&
		yield(Doc{SpotToSpotOff, "a spot node is replaced by a spot node only with feature gate SpotToSpotConsolidation", "The gate is off by default.", "Turn on the feature gate SpotToSpotConsolidation."}) &&
		yield(Doc{MoveOutdated, "the move depends on others that are not made now", "Moves are planned in sequence. Others were left out, and this one was not evaluated again without them.", "Nothing has to be done: the next pass evaluates it."}) &&
		yield(Doc{DriftRests, "replacing drifted nodes of NodePool {have} failed; it is tried again after {want}", "A replacement could not be launched; meanwhile, drifted nodes of other pools are replaced.", "Check the events of the NodeClaims that failed."}) &&
		yield(Doc{ReservationsFull, "NodePool {have} can only launch from reservations, and they are full; enlarge them, or allow on-demand or spot", "A replacement is not available before another node is deleted.", "Enlarge the reservation, allow on-demand or spot, or turn on the feature gate TerminateFirstDrift."}) &&
		yield(Doc{StaticAtLimit, "NodePool {want} has {have} nodes: no replacement fits its limit; raise limits.nodes", "limits.nodes leaves no room for a replacement.", "Raise limits.nodes above replicas, or turn on the feature gate TerminateFirstDrift."}) &&
		yield(Doc{StaticSurplus, "the NodePool has {have} nodes, but spec.replicas is {want}: it is scaled down first", "Drifted nodes of a static pool are replaced once the pool is scaled down to spec.replicas.", "Nothing has to be done."})
}
