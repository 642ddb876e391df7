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
	return yield(Doc{NodeCommanded, "is part of a disruption that is under way", "A running command removes the node already.", "Nothing has to be done."}) &&
		yield(Doc{NodeRests, "was to go a moment ago and stayed; it is checked again soon", "A command for the node could not be started, or was undone. So that others have their turn, the node waits for some seconds, and longer each time.", "Nothing has to be done. If it persists, look in the log for why its commands fail."}) &&
		yield(Doc{NodeRebooting, "is being rebooted", "A node that reboots to be repaired is left alone until that is over.", "Nothing has to be done."}) &&
		yield(Doc{NodeStarting, "is not {have} yet", "A node that has not come up is never disrupted.", "Nothing has to be done. If it persists, look at the conditions of the NodeClaim: startup taints or resources may be missing."}) &&
		yield(Doc{NodeNominated, "a pending pod is expected on it", "A pod that waits was planned onto the node.", "Nothing has to be done."}) &&
		yield(Doc{DoNotDisrupt, "{have} carries annotation {want}; remove the annotation to allow its disruption", "The annotation forbids voluntary disruption.", "Remove the annotation, or give it a duration on the pod. With terminationGracePeriod set, drift does not wait for pods that carry it."}) &&
		yield(Doc{LeaderAlone, "the leader of this controller runs on it, and no other replica is ready on another node; give the controller a second replica", "Without a replica that takes over, nothing would finish what removing the node began. Expiration, interruptions and repair do not wait.", "Run two replicas of the controller, on different nodes, and look why the other one is not ready."}) &&
		yield(Doc{PoolLabelAbsent, "has no label {want}; put it back", "Without the label it is not known which NodePool the node belongs to.", "Put the label back on the NodeClaim and the Node."}) &&
		yield(Doc{PoolUnresolved, "the instance types of NodePool {have} cannot be resolved; check that it and its node class are ready", "The NodePool does not exist, or its instance types are not known: nothing is disrupted that could perhaps not be replaced.", "Check that the NodePool and its node class exist and are ready."}) &&
		yield(Doc{EvictionForbidden, "PodDisruptionBudget {have} allows no eviction of pod {want} at present; it does once more of its pods are ready than it requires", "As many pods of the budget are down as it tolerates, or it requires as many as there are.", "Nothing has to be done if pods that are down become ready again; otherwise find out why they do not. If all are ready, scale their workload up or let the budget require fewer."}) &&
		yield(Doc{EvictionImpossible, "PodDisruptionBudget {have} never allows an eviction of pod {want}, as it is written; let it allow one", "maxUnavailable is 0, or minAvailable is 100 %: the node can go only with a terminationGracePeriod, or by hand.", "Let the budget allow at least one eviction."}) &&
		yield(Doc{EvictionAmbiguous, "pod {want} is selected by more than one PodDisruptionBudget, which the eviction API refuses; let only one of these select it: {have}", "A pod that several budgets select cannot be evicted at all.", "Change the selectors so that one budget selects the pod."}) &&
		yield(Doc{ConsolidationOff, "NodePool {have} has consolidateAfter Never: its nodes are not consolidated unless that is set to a time", "Consolidation is switched off for the pool, that of empty nodes included.", "Set consolidateAfter to a time to switch it on."}) &&
		yield(Doc{EmptyOnly, "NodePool {have} has consolidationPolicy WhenEmpty: only empty nodes of it are consolidated; WhenEmptyOrUnderutilized would look at others", "The node still runs pods that would have to move.", "Set consolidationPolicy to WhenEmptyOrUnderutilized or Balanced to have it looked at."}) &&
		yield(Doc{BufferHeld, "carries capacity of a buffer", "The node is empty, but a CapacityBuffer needs its capacity.", "Nothing has to be done; make the buffer smaller to free the node."}) &&
		yield(Doc{TypeUnknown, "its instance type {have} is not among those of its NodePool, so that no move can be priced", "The node's instance type is not among those that its NodePool allows, so no move can be priced.", "Check that the instance type still exists, or remove the node by hand."}) &&
		yield(Doc{LabelAbsent, "has no label {want}; put it back", "Without the label the node cannot be priced.", "Put the label back on the Node."}) &&
		yield(Doc{NodeYoung, "is {have} old; nodes are consolidated from {want} on, see --consolidation-min-node-age", "Nodes are left alone for a while after they were made, so that moves do not follow each other.", "Nothing has to be done. The setting --consolidation-min-node-age says for how long."}) &&
		yield(Doc{BudgetSpent, "the disruption budgets of NodePool {have} leave no room for it (reason {want})", "As many nodes of the pool are disrupted as its budgets allow.", "Nothing has to be done: it is checked again as soon as there is room. Raise spec.disruption.budgets to go faster."}) &&
		yield(Doc{MoveTooLarge, "{have} nodes would go together; {want} is the most", "A move of very many nodes waits for the slowest of all its replacements.", "Nothing has to be done: smaller moves are looked for."}) &&
		yield(Doc{BenefitTooSmall, "the move saves {have}, moving its pods is taken to cost {want}, see --consolidation-pod-cost", "What the move saves over the horizon is less than what its evictions are taken to cost.", "Nothing has to be done. Lower the cost of a pod, or raise the horizon, in the settings to move more."}) &&
		yield(Doc{PromisedBefore, "moves for the same pods brought the cluster to {want} an hour at {have}, and it did not last", "Moves for this very workload were made lately, but the scheduler put the pods elsewhere and another node had to be launched. Repeating them would never end.", "Nothing has to be done: as soon as pods change, moves are looked at as usual. To have the scheduler fill nodes, let it score by MostAllocated."}) &&
		yield(Doc{ScoreTooLow, "policy Balanced: score {have} is below {want}", "The share of the pool's cost that the move saves is too small for the share of its pods that it moves.", "Nothing has to be done. Use consolidationPolicy WhenEmptyOrUnderutilized to make every move that saves."}) &&
		yield(Doc{SpotTypesTooFew, "{have} cheaper spot instance types were found, {want} are needed to replace a spot node", "With few types to choose from, each replacement would be taken back sooner than the last.", "Allow more instance types in the NodePool."}) &&
		yield(Doc{SpotToSpotOff, "a spot node is replaced by a spot node only with feature gate SpotToSpotConsolidation", "The gate is off by default.", "Turn the gate SpotToSpotConsolidation on."}) &&
		yield(Doc{MoveOutdated, "the move depends on others that are not made now", "Moves are planned to follow each other; this one was not looked at again after others were left out.", "Nothing has to be done: the next pass looks at it."}) &&
		yield(Doc{DriftRests, "replacing drifted nodes of NodePool {have} failed; it is tried again after {want}", "A replacement could not be made; other pools have their turn meanwhile.", "Look at the events of the NodeClaims that failed."}) &&
		yield(Doc{ReservationsFull, "NodePool {have} can only launch from reservations, and they are full; enlarge them, or allow on-demand or spot", "A replacement is not available before another node is deleted.", "Enlarge the reservation, allow on-demand or spot, or turn the feature gate TerminateFirstDrift on."}) &&
		yield(Doc{StaticAtLimit, "NodePool {want} has {have} nodes: no replacement fits its limit; raise limits.nodes", "limits.nodes leaves no room for a replacement.", "Raise limits.nodes above replicas, or turn the feature gate TerminateFirstDrift on."}) &&
		yield(Doc{StaticSurplus, "the NodePool has {have} nodes and wants {want}: it shrinks first", "Drifted nodes of a static pool are replaced once it has as many as it wants.", "Nothing has to be done."})
}
