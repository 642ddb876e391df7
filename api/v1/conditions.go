package v1

// ConditionReady is the root condition of every kind.
const ConditionReady = "Ready"

// Conditions of a NodePool. The first two decide Ready.
const (
	ConditionValidationSucceeded     = "ValidationSucceeded"
	ConditionNodeClassReady          = "NodeClassReady"
	ConditionNodeRegistrationHealthy = "NodeRegistrationHealthy"
)

// Conditions of a NodeClaim. The first three decide Ready.
const (
	ConditionLaunched             = "Launched"
	ConditionRegistered           = "Registered"
	ConditionInitialized          = "Initialized"
	ConditionConsolidatable       = "Consolidatable"
	ConditionDrifted              = "Drifted"
	ConditionDisruptionReason     = "DisruptionReason"
	ConditionDisruptionBlocked    = "DisruptionBlocked" // of our own: what keeps the node until a user acts
	ConditionConsistentStateFound = "ConsistentStateFound"
	ConditionDrained              = "Drained"
	ConditionVolumesDetached      = "VolumesDetached"
	ConditionInstanceTerminating  = "InstanceTerminating"
	ConditionRebooting            = "Rebooting"
)
