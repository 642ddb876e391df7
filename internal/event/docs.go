package event

import (
	"slices"
	"time"
)

// Doc is what there is to know about a reason.
type Doc struct {
	Reason    Reason
	Warning   bool
	On        []string      // kinds of objects
	When      string        // in one sentence
	Every     time.Duration // repeats within this time are dropped
	PerSecond float64       // over all pods; other objects are few. 0: no limit
	Burst     int
}

const (
	often  = 2 * time.Minute  // unless noted
	seldom = 15 * time.Minute // what lasts, and is said again for as long as it does
)

// How many events an object gets at most, so that a cluster of thousands of nodes does not drown in them. A
// node is its Node and its NodeClaim together. A repeat is emitted again every 15 minutes: four times an hour,
// on both objects.
const (
	NodeUp   = 4  // from its order until it runs pods
	NodeHour = 8  // while it runs, for each thing that keeps it
	NodeDown = 14 // from the decision to remove it until it is gone, in the first quarter of an hour
	PodHour  = 4  // while it waits for a node that was ordered
	PodMoved = 1  // each time that it is evicted
)

// Docs lists every reason, in the order of the documentation.
func Docs() []Doc {
	claim, node, pod, pool, class := "NodeClaim", "Node", "Pod", "NodePool", "EC2NodeClass"
	docs := []Doc{
		{Reason: Nominated, On: []string{pod}, When: "the pod fits on an existing node or on one that was ordered", Every: seldom, PerSecond: 5, Burst: 10},
		{Reason: FailedScheduling, Warning: true, On: []string{pod}, When: "no node, existing or new, can take the pod; the text says why, pool by pool", Every: 5 * time.Minute, PerSecond: 50, Burst: 500},
		{Reason: NoCompatibleInstanceTypes, Warning: true, On: []string{pool}, When: "the requirements of the pool, or their minValues, leave no instance type", Every: time.Minute},
		{Reason: InsufficientCapacityError, Warning: true, On: []string{claim, pod}, When: "the cloud has nothing of what the claim allows; the claim is deleted and its pods are planned anew", PerSecond: 5, Burst: 10},
		{Reason: LaunchFailed, Warning: true, On: []string{claim, pod}, When: "the cloud denies the launch of a claim for a reason that a person has to change; the text has its response", Every: 5 * time.Minute, PerSecond: 5, Burst: 10},
		{Reason: NodeClassNotReady, Warning: true, On: []string{claim}, When: "the node class is not ready; the claim is deleted"},
		{Reason: NodeClassNotFound, Warning: true, On: []string{pool, claim}, When: "the node class does not exist or is being deleted"},
		{Reason: UnregisteredTaintMissing, Warning: true, On: []string{claim}, When: "a node joined without the taint karpenter.sh/unregistered", Every: seldom},
		{Reason: FailedConsistencyCheck, Warning: true, On: []string{claim}, When: "a node has less than 90 % of what was expected of a resource", Every: seldom},
		{Reason: DisruptionBlocked, On: []string{node, claim, pool}, When: "something keeps a node from being disrupted", Every: seldom},
		{Reason: Unconsolidatable, On: []string{node, claim}, When: "a node cannot be consolidated", Every: seldom},
		{Reason: ConsolidationCandidate, On: []string{node, claim}, When: "a move was found for the node", Every: seldom},
		{Reason: ConsolidationRejected, On: []string{node, claim}, When: "a move did not hold when it was checked again", Every: seldom},
		{Reason: ConsolidationApproved, On: []string{node, claim, pool}, When: "the policy Balanced approved a move"},
		{Reason: DisruptionLaunching, On: []string{claim}, When: "a replacement is being launched", Every: seldom},
		{Reason: DisruptionWaitingReadiness, On: []string{claim}, When: "a replacement is not ready yet", Every: seldom},
		{Reason: DisruptionTerminating, On: []string{node, claim}, When: "a node is removed: by a disruption, because it expired, because it is unhealthy for too long, because its instance no longer exists, because its static pool shrinks, or because its capacity block ends; the text says why", Every: seldom},
		{Reason: Evicted, On: []string{pod}, When: "the pod was evicted from a terminating node"},
		{Reason: Disrupted, On: []string{pod}, When: "the pod was deleted with a shorter grace period than it requests, because the deadline of its node passed"},
		{Reason: FailedDraining, Warning: true, On: []string{node}, When: "pods block a terminating node; the text says which, and what blocks them", Every: seldom},
		{Reason: DrainBlocked, Warning: true, On: []string{node, claim}, When: "a terminating node has waited for five minutes; the text says for what, since when, and what would end the wait", Every: seldom},
		{Reason: EvictionImpossible, Warning: true, On: []string{"PodDisruptionBudget"}, When: "the budget allows no eviction however healthy its pods are, and holds pods on nodes of a NodePool", Every: 12 * time.Hour},
		{Reason: AwaitingVolumeDetachment, On: []string{node}, When: "volumes are still attached to a drained node", Every: seldom},
		{Reason: TerminationGracePeriodExpiring, Warning: true, On: []string{node, claim}, When: "a terminating node has a deadline", Every: seldom},
		{Reason: Finalized, On: []string{node, claim}, When: "the last finalizer was removed"},
		{Reason: NodeRepairBlocked, Warning: true, On: []string{node, claim, pool}, When: "too many nodes are unhealthy for one to be repaired", Every: seldom},
		{Reason: RebootObserved, On: []string{claim}, When: "a node came back from a reboot", Every: 30 * time.Minute},
		{Reason: RebootFailed, Warning: true, On: []string{claim}, When: "a reboot did not end well", Every: 30 * time.Minute},
		{Reason: DeviceDriverSilent, Warning: true, On: []string{claim}, When: "a DRA driver has published no devices for a node 15 minutes after it registered; the text names it", Every: seldom},
		{Reason: InvalidDoNotDisruptAnnotation, Warning: true, On: []string{pod}, When: "the annotation karpenter.sh/do-not-disrupt is neither true nor a duration, and so has no effect"},
		{Reason: AnnotationDeprecated, Warning: true, On: []string{pod, node, pool}, When: "an annotation of an old API version protects the object; it is honoured, and the text names the one to use", Every: 12 * time.Hour, PerSecond: 5, Burst: 10},
		{Reason: DoNotDisruptUntil, On: []string{pod}, When: "the pod is protected for a limited time"},
		{Reason: DoNotDisruptGracePeriodElapsed, On: []string{pod}, When: "the time for which the pod was protected is over"},
		{Reason: SpotInterrupted, Warning: true, On: []string{claim, node}, When: "the cloud takes the spot instance back in two minutes"},
		{Reason: SpotRebalanceRecommendation, On: []string{claim, node}, When: "the cloud sees a higher risk of interruption; nothing is done"},
		{Reason: CapacityReservationInstanceInterrupted, Warning: true, On: []string{claim, node}, When: "the cloud takes an instance of an interruptible reservation back"},
		{Reason: InstanceStopping, Warning: true, On: []string{claim, node}, When: "the instance is stopping or stopped"},
		{Reason: InstanceTerminating, On: []string{claim, node}, When: "the instance is ending or has ended"},
		{Reason: InstanceUnhealthy, Warning: true, On: []string{claim, node}, When: "the cloud plans maintenance of the instance, or it fails its status checks"},
		{Reason: TerminatingOnInterruption, Warning: true, On: []string{claim, node}, When: "the claim is deleted because of an interruption"},
		{Reason: SpotServiceLinkedRoleMissing, Warning: true, On: []string{claim}, When: "the account lacks the service-linked role for spot and it cannot be created; spot is not used for a while"},
		{Reason: WaitingOnNodeClaimTermination, On: []string{class}, When: "the class is being deleted and waits for its last NodeClaims"},
		{Reason: CleanupFailed, Warning: true, On: []string{class}, When: "the class is being deleted and the cloud does not delete what was made for it, often for want of a right; the text names it", Every: seldom},
		{Reason: ZonalShiftActive, Warning: true, On: []string{pool}, When: "a zone of the pool is shifted away"},
		{Reason: ZonalShiftCleared, On: []string{pool}, When: "a shift away from a zone of the pool ended"},
		{Reason: DefaultAssumed, On: []string{pool, class, pod}, When: "something was read into a manifest that is not strict v1, or a pod has more preferences than planning considers; the text says what"},
	}
	for i := range docs {
		if docs[i].Every == 0 {
			docs[i].Every = often
		}
	}
	return docs
}

// Lookup returns the documentation of a reason. Reasons that are not listed, such as the names of
// conditions that changed, are ordinary news.
func Lookup(reason Reason) Doc {
	docs := Docs()
	if i := slices.IndexFunc(docs, func(d Doc) bool { return d.Reason == reason }); i >= 0 {
		return docs[i]
	}
	return Doc{Reason: reason, Every: often}
}
