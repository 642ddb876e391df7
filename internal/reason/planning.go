package reason

// Codes of planning: why a pod found no place, and why a node stays.
//
// The fields are written the same way everywhere. Of several resources that are short the one with the
// first lane is named, as name:quantity in Want and as a quantity alone in Have: "cpu:4", "2". A
// requirement is key and reqs.Req.String in Want, reqs.Req.String alone in Have. A taint is
// key=value:Effect, a port number/protocol@ip. Subjects are "nodepool/NAME" and "node/NAME"; a reason
// that holds for others as well names one and counts them: "nodepool/NAME and 12 more". Lists of more
// than 25 domains, taints or ids are cut and counted in the same way.
const (
	TaintNotTolerated     Code = "TaintNotTolerated"     // have: the taints
	RequirementConflict   Code = "RequirementConflict"   // want: the requirement; have: what is there
	LabelUnknown          Code = "LabelUnknown"          // want: the key; have: the known key that is alike, or "none"
	VolumeZoneConflict    Code = "VolumeZoneConflict"    // want: the requirements of the volumes; have: what is there
	TopologyUnsatisfiable Code = "TopologyUnsatisfiable" // want: "spread KEY maxSkew N", "affinity KEY SELECTOR", "anti-affinity KEY SELECTOR" or that "of other pods"; have: counts of domains

	NoTypeMeetsRequirements Code = "NoTypeMeetsRequirements" // want: the requirements
	NoTypeFits              Code = "NoTypeFits"              // want: the resource; have: the most any type has of it; if DaemonSets take it all, "0" and a remark
	NoOffering              Code = "NoOffering"              // want: the requirements on offerings
	NoTypeSuits             Code = "NoTypeSuits"             // because: two or three of the codes above
	FittingTypesExcluded    Code = "FittingTypesExcluded"    // want: the requirements
	MatchingTypesTooSmall   Code = "MatchingTypesTooSmall"   // want, have: as of NoTypeFits
	MatchingTypesNotOffered Code = "MatchingTypesNotOffered" // want: the requirements on offerings
	NoTypeMeetsAll          Code = "NoTypeMeetsAll"
	NearestType             Code = "NearestType"    // want: how much more the pod requests; have: the type and " leaves", with a remark if DaemonSets take part
	UnitSuspicious          Code = "UnitSuspicious" // have: the quantity; want: the one probably meant, or "a smaller unit"

	LimitExceeded    Code = "LimitExceeded"    // want: the least any suitable type has of the resource; have: what the limit leaves
	NodeLimitReached Code = "NodeLimitReached" // have: nodes that may be added, usually 0
	PoolFiltered     Code = "PoolFiltered"     // want: the pool's requirements
	CapacityOut      Code = "CapacityOut"      // have: instance types
	ClassUnsuited    Code = "ClassUnsuited"    // have: instance types and what the node class lacks for them
	LimitPlanned     Code = "LimitPlanned"     // have: how much of the limit was left
	PoolSoldOut      Code = "PoolSoldOut"      // want: the pool's requirements
	PoolClosed       Code = "PoolClosed"       // have: whether it is not ready, static or being deleted
	MorePools        Code = "MorePools"        // have: the number of pools that the list leaves out
	NoPool           Code = "NoPool"

	ReservedDeferred Code = "ReservedDeferred" // want: ids of the reservations
	ReservedLost     Code = "ReservedLost"     // have: ids of the reservations

	SpotSpread    Code = "SpotSpread"    // have: what it is narrowed to; want: the share of a workload that one spot pool has at most
	SpotPoolsDear Code = "SpotPoolsDear" // have: the spot pool and its share of a workload; want: what the next costs, and what it may cost

	NodeFull         Code = "NodeFull"         // want: the resource; have: what is left of it
	VolumeLimit      Code = "VolumeLimit"      // want: driver:count; have: driver:limit
	HostPortConflict Code = "HostPortConflict" // want: the port; have: who has it
	NodeDeleting     Code = "NodeDeleting"
	NodeSettling     Code = "NodeSettling"
	NodeUnready      Code = "NodeUnready"

	NodeCameUpSmall Code = "NodeCameUpSmall" // have: the node and what it offers; want: what the pod requests
	RoomTaken       Code = "RoomTaken"       // have: the node
	BoughtInVain    Code = "BoughtInVain"

	PodUnreadable  Code = "PodUnreadable"
	ManagedRefused Code = "ManagedRefused"
	OutOfTime      Code = "OutOfTime"
	PlanRejected   Code = "PlanRejected" // have: the rule that the plan broke

	PodsStranded   Code = "PodsStranded"   // have: number of pods; because: why, one of them
	NothingCheaper Code = "NothingCheaper" // have: price now; want: what its pods are worth at the best prices
	PreferenceKept Code = "PreferenceKept" // have: the pod; want: what it prefers
	PriceUnknown   Code = "PriceUnknown"
)

// planningCodes documents them.
func planningCodes(yield func(Doc) bool) bool {
	return yield(Doc{TaintNotTolerated, "taint {have} is not tolerated", "The pod does not tolerate a taint of the node or of the nodes the pool makes.", "Add a toleration to the pod, or remove the taint."}) &&
		yield(Doc{RequirementConflict, "requires {want}, but it has {have}", "A node selector or node affinity of the pod requires a label value that is not available here.", "Change the selector of the pod, or the requirements or labels of the NodePool."}) &&
		yield(Doc{LabelUnknown, "requires label {want}, which is not defined; alike and known: {have}", "The pod requires a label that the pool does not define and the cloud does not supply.", "Correct the key, or add the label to the requirements or the template labels of the NodePool."}) &&
		yield(Doc{VolumeZoneConflict, "its volumes can only be used at {want}, but it has {have}", "The volumes of the pod exist where no node of this kind can be.", "Allow the zone of the volumes, or move the data."}) &&
		yield(Doc{TopologyUnsatisfiable, "{want} cannot be met: {have}", "A topology spread, pod affinity or pod anti-affinity leaves no domain for the pod.", "Allow more domains, raise maxSkew, or make the constraint a preference."}) &&
		yield(Doc{NoTypeMeetsRequirements, "no instance type meets {want}", "No instance type of the pool has the labels that pool and pod require together.", "Widen the requirements of the pool or of the pod."}) &&
		yield(Doc{NoTypeFits, "no instance type has room for {want}; the largest has {have}", "Every instance type of the pool is too small for the pod and the DaemonSets.", "Lower the requests, or allow larger instance types."}) &&
		yield(Doc{NoOffering, "no instance type is offered with {want}", "No instance type is available in the zones and capacity types that pool and pod leave.", "Allow more zones or capacity types, or wait: Dovetail tries unavailable capacity again after a while."}) &&
		yield(Doc{NoTypeSuits, "several criteria together rule out every instance type", "Each of several criteria rules out every instance type; the causes name them.", "Correct each of the causes."}) &&
		yield(Doc{FittingTypesExcluded, "instance types that are large enough and offered do not meet {want}", "Some types fit and are offered, but none of them meets the requirements.", "Widen the requirements of the pool or of the pod."}) &&
		yield(Doc{MatchingTypesTooSmall, "instance types that meet the requirements and are offered have no room for {want}; the largest has {have}", "Some types meet the requirements and are offered, but all of them are too small.", "Lower the requests, or widen the requirements to larger types."}) &&
		yield(Doc{MatchingTypesNotOffered, "instance types that meet the requirements and are large enough are not offered with {want}", "Some types fit, but none of them is available in the zones and capacity types left.", "Allow more zones, capacity types or instance types."}) &&
		yield(Doc{NoTypeMeetsAll, "some instance types meet any two of requirements, size and offering, but none meets all three", "Each pair of criteria is met by some type; no type meets all three.", "Widen any one of them."}) &&
		yield(Doc{NearestType, "requests {want} more than {have}", "No instance type of the pool has room for the pod; this one is the closest. Only `dovetail explain` names it.", "Lower the requests by as much, or allow larger instance types."}) &&
		yield(Doc{UnitSuspicious, "{have} is more than any machine has; {want} was probably meant", "A request is so large that its unit is probably mistyped: M is a million, m a thousandth.", "Correct the unit of the request."}) &&
		yield(Doc{LimitExceeded, "every suitable instance type exceeds its limits: {want} at least, {have} left", "What is left of the pool's limits is less than any suitable instance type has.", "Raise the limits of the NodePool, or remove nodes."}) &&
		yield(Doc{NodeLimitReached, "its limit of nodes is used up: {have} may be added", "The pool has, or will have after this plan, as many nodes as limits.nodes allows.", "Raise limits.nodes of the NodePool."}) &&
		yield(Doc{PoolFiltered, "no instance type meets its own requirements: {want}", "The requirements of the pool alone rule out every instance type.", "Widen the requirements of the NodePool."}) &&
		yield(Doc{CapacityOut, "suitable instance types are out of capacity at present: {have}; they are tried again in minutes, or allow more instance types, zones or capacity types", "Recent launches of these instance types failed because of insufficient capacity, and no other type of the pool is suitable.", "Wait: Dovetail tries unavailable capacity again after three minutes. Or allow more instance types, zones or capacity types."}) &&
		yield(Doc{ClassUnsuited, "its node class can launch no suitable instance type ({have})", "The instance types exist, but the EC2NodeClass of the pool rules them out: none of its images runs on them, or it requires something that they lack. Waiting does not help.", "Add an image of the architecture to amiSelectorTerms, change the field of the EC2NodeClass that is named, or allow other instance types."}) &&
		yield(Doc{LimitPlanned, "nodes that are planned for other pods use the {have} that are left of the limit", "The limit is not used up yet, but other nodes of the same plan will use it up.", "Raise the limit of the NodePool, or wait until nodes of it are deleted."}) &&
		yield(Doc{PoolSoldOut, "no instance type that meets its requirements is available at present ({want}); it is retried in minutes; or allow more instance types, zones or capacity types", "Every instance type of the pool is out of capacity, or cannot be launched for another temporary reason.", "Wait: Dovetail tries unavailable capacity again after three minutes. Or allow more instance types, zones or capacity types."}) &&
		yield(Doc{PoolClosed, "nothing is launched from it: {have}", "No nodes are launched from this pool at present: it is not ready, static or being deleted.", "Check the conditions of the NodePool."}) &&
		yield(Doc{MorePools, "… and {have} more pools", "Other pools cannot launch a node for the pod either; the pod is even further from meeting their requirements.", "kubectl get nodepools lists all pools."}) &&
		yield(Doc{NoPool, "there is no NodePool to launch nodes from", "No NodePool is ready and dynamic, so only existing nodes were tried.", "Create a NodePool, or check the conditions of the existing NodePools."}) &&
		yield(Doc{ReservedDeferred, "reserved capacity {want} is allocated to other pods of this plan; the pod waits for the next plan", "Reservations are suitable for the pod, but other planned nodes use their free slots.", "Nothing has to be done. If it persists, enlarge the reservation or allow other capacity types."}) &&
		yield(Doc{ReservedLost, "with this pod the node would lose reserved capacity {have}", "The planned node could no longer use any of its reservations.", "Nothing has to be done: the pod gets a node of its own, or waits for the next plan."}) &&
		yield(Doc{NodeFull, "{want} requested, {have} left", "The node does not have enough of a resource left.", "Nothing has to be done if a new node can be launched; otherwise lower the requests."}) &&
		yield(Doc{VolumeLimit, "would attach volumes {want}, but at most {have} are possible", "More volumes of one CSI driver would be attached than the node, or any instance type, allows.", "Spread the pods, or allow instance types that attach more volumes."}) &&
		yield(Doc{HostPortConflict, "host port {want} is taken by {have}", "Two pods require the same port of the node.", "Use different host ports or none."}) &&
		yield(Doc{NodeDeleting, "is terminating", "The node is being deleted; no pod is planned on it.", "Nothing has to be done."}) &&
		yield(Doc{NodeSettling, "changed recently; consolidation leaves it alone until consolidateAfter has passed", "Consolidation moves no pods to a node before the consolidateAfter of its pool has passed.", "Nothing has to be done."}) &&
		yield(Doc{NodeUnready, "is not initialized yet; running pods are moved only to initialized nodes", "Consolidation moves no pods to a node that is not initialized.", "Nothing has to be done: Dovetail checks the node again once it is initialized."}) &&
		yield(Doc{NodeCameUpSmall, "{have}, too little for {want}; no other node is launched for the pod for some minutes", "Nodes that were launched for the pod came up smaller than their instance type, twice. To avoid launching one useless node after another, the pod waits for five minutes, and longer each time.", "Compare status.allocatable of the node with the requests of the pod: a smaller root volume, a kubelet reservation or an image may be the cause. Correct the EC2NodeClass or lower the requests."}) &&
		yield(Doc{RoomTaken, "other pods were scheduled on the nodes that were launched for it, {have} at last; no other node is launched for the pod for some minutes", "The scheduler placed other pods on two nodes that were launched for this pod. The pod waits for five minutes, and longer each time.", "Give the pod a higher priority, or check which other pods are scheduled on new nodes, such as DaemonSets with large requests."}) &&
		yield(Doc{BoughtInVain, "two nodes were launched for it and it is on neither; no other is launched for the pod for some minutes", "Nodes that were launched for the pod are gone or did not come up. The pod waits for five minutes, and longer each time.", "Check the events of the NodeClaims that the pod was nominated to."}) &&
		yield(Doc{SpotSpread, "only {have}: its workloads are spread over spot pools, so that one has at most {want} of a workload", "The node may be launched in one zone and with some types only, since one reclaimed spot pool should not take most of a workload.", "Nothing has to be done. `--spot-pool-share=0` leaves all zones and types open."}) &&
		yield(Doc{SpotPoolsDear, "{have}; {want}", "One spot pool has more than its share of a workload, because other spot pools cost too much or do not exist.", "Allow more instance types, sizes and zones, or let spreading cost more: `--spot-spread-max-cost`."}) &&
		yield(Doc{PodUnreadable, "was not read before planning", "A pod reached planning without having been read; this is a defect of Dovetail.", "Report it, with the recorded problem."}) &&
		yield(Doc{ManagedRefused, "does not accept nodes of a NodePool", "The pod requires that karpenter.sh/nodepool does not exist.", "Nothing has to be done: the pod must fit on a node that Dovetail does not manage."}) &&
		yield(Doc{OutOfTime, "planning ran out of time before it was tried", "Planning was stopped before this pod or node was evaluated.", "Nothing has to be done: the next plan starts with the remaining ones."}) &&
		yield(Doc{PlanRejected, "left out, because a plan with it broke a rule: {have}", "Plans are checked before anything is launched. One with this pod was rejected, so the other pods are planned without it; this is a defect of Dovetail.", "Report it, with the text. It is tried again with every plan."}) &&
		yield(Doc{PodsStranded, "{have} of its pods would fit on no other node", "The node cannot be removed: some of its pods fit neither on other nodes nor on new ones.", "Check the cause; often it is a limit, a taint or a topology constraint."}) &&
		yield(Doc{NothingCheaper, "costs {have}; its pods are worth {want} at the best prices, and no move was found that saves enough", "Removing or replacing the node saves nothing, or too little to justify moving its pods.", "Nothing has to be done."}) &&
		yield(Doc{PreferenceKept, "could be removed, but pod {have} prefers {want}; --preference-policy=Ignore ignores preferences", "Without the node, a new node would have to be launched to meet the preference of the pod, so consolidation keeps it.", "Nothing has to be done if the preference is worth the node. Otherwise remove the preference from the pod, or set --preference-policy=Ignore."}) &&
		yield(Doc{PriceUnknown, "its price is not known", "Without a price, Dovetail cannot tell whether a replacement is cheaper.", "Check that the instance type of the node still exists in the catalogue."})
}
