package event

// Event is what the user learns about an object.
type Event struct {
	Reason Reason
	Text   string
	Key    string // what, besides object and reason, distinguishes two events when repeats are dropped
}

// Reason is the reason of an event. Reasons are API: users alert on them.
type Reason string

// Reasons. What they mean, and where they appear, is in Docs.
const (
	Nominated                              Reason = "Nominated"
	FailedScheduling                       Reason = "FailedScheduling"
	NoCompatibleInstanceTypes              Reason = "NoCompatibleInstanceTypes"
	InsufficientCapacityError              Reason = "InsufficientCapacityError"
	LaunchFailed                           Reason = "LaunchFailed"
	NodeClassNotReady                      Reason = "NodeClassNotReady"
	NodeClassNotFound                      Reason = "NodeClassNotFound"
	UnregisteredTaintMissing               Reason = "UnregisteredTaintMissing"
	FailedConsistencyCheck                 Reason = "FailedConsistencyCheck"
	DisruptionBlocked                      Reason = "DisruptionBlocked"
	Unconsolidatable                       Reason = "Unconsolidatable"
	ConsolidationCandidate                 Reason = "ConsolidationCandidate"
	ConsolidationRejected                  Reason = "ConsolidationRejected"
	ConsolidationApproved                  Reason = "ConsolidationApproved"
	DisruptionLaunching                    Reason = "DisruptionLaunching"
	DisruptionWaitingReadiness             Reason = "DisruptionWaitingReadiness"
	DisruptionTerminating                  Reason = "DisruptionTerminating"
	Evicted                                Reason = "Evicted"
	Disrupted                              Reason = "Disrupted"
	FailedDraining                         Reason = "FailedDraining"
	DrainBlocked                           Reason = "DrainBlocked"
	EvictionImpossible                     Reason = "EvictionImpossible"
	AwaitingVolumeDetachment               Reason = "AwaitingVolumeDetachment"
	TerminationGracePeriodExpiring         Reason = "TerminationGracePeriodExpiring"
	Finalized                              Reason = "Finalized"
	NodeRepairBlocked                      Reason = "NodeRepairBlocked"
	RebootObserved                         Reason = "RebootObserved"
	RebootFailed                           Reason = "RebootFailed"
	DeviceDriverSilent                     Reason = "DeviceDriverSilent"
	InvalidDoNotDisruptAnnotation          Reason = "InvalidDoNotDisruptAnnotation"
	AnnotationDeprecated                   Reason = "AnnotationDeprecated"
	DoNotDisruptUntil                      Reason = "DoNotDisruptUntil"
	DoNotDisruptGracePeriodElapsed         Reason = "DoNotDisruptGracePeriodElapsed"
	SpotInterrupted                        Reason = "SpotInterrupted"
	SpotRebalanceRecommendation            Reason = "SpotRebalanceRecommendation"
	CapacityReservationInstanceInterrupted Reason = "CapacityReservationInstanceInterrupted"
	InstanceStopping                       Reason = "InstanceStopping"
	InstanceTerminating                    Reason = "InstanceTerminating"
	InstanceUnhealthy                      Reason = "InstanceUnhealthy"
	TerminatingOnInterruption              Reason = "TerminatingOnInterruption"
	SpotServiceLinkedRoleMissing           Reason = "SpotServiceLinkedRoleMissing"
	WaitingOnNodeClaimTermination          Reason = "WaitingOnNodeClaimTermination"
	CleanupFailed                          Reason = "CleanupFailed"
	ZonalShiftActive                       Reason = "ZonalShiftActive"
	ZonalShiftCleared                      Reason = "ZonalShiftCleared"
	DefaultAssumed                         Reason = "DefaultAssumed"
)
