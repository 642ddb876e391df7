package v1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Labels the controller puts on NodeClaims and Nodes.
const (
	LabelNodePool        = Group + "/nodepool"
	LabelCapacityType    = Group + "/capacity-type"
	LabelRegistered      = Group + "/registered"
	LabelInitialized     = Group + "/initialized"
	LabelDoNotSyncTaints = Group + "/do-not-sync-taints"
	LabelProvisionerName = Group + "/provisioner-name" // old name of LabelNodePool, kept on nodes (L-14)
)

// Values of LabelCapacityType.
const (
	CapacityTypeOnDemand = "on-demand"
	CapacityTypeSpot     = "spot"
	CapacityTypeReserved = "reserved"
)

// Annotations users set.
const (
	AnnotationDoNotDisrupt     = Group + "/do-not-disrupt"
	AnnotationDoNotRepair      = Group + "/do-not-repair"
	AnnotationDisruptionCost   = Group + "/disruption-cost"
	AnnotationDoNotEvict       = Group + "/do-not-evict"       // v1alpha5; read as do-not-disrupt
	AnnotationDoNotConsolidate = Group + "/do-not-consolidate" // v1alpha5; read as do-not-disrupt
)

// Annotations the controller keeps.
const (
	AnnotationNodePoolHash                 = Group + "/nodepool-hash"
	AnnotationNodePoolHashVersion          = Group + "/nodepool-hash-version"
	AnnotationTerminationTimestamp         = Group + "/nodeclaim-termination-timestamp"
	AnnotationMinValuesRelaxed             = Group + "/nodeclaim-min-values-relaxed"
	AnnotationRequestedDRADrivers          = Group + "/requested-dra-drivers"
	AnnotationPriceOverlayApplied          = Group + "/price-overlay-applied"
	AnnotationCapacityOverlayApplied       = Group + "/capacity-overlay-applied"
	AnnotationRebootPreBootID              = Group + "/reboot-pre-boot-id"
	AnnotationRebootTerminationGracePeriod = Group + "/reboot-termination-grace-period"
)

// Annotations of our own, which no user reads or sets: they let a process take over the commands of the
// one before it, and tell which field made a node drift.
const (
	OwnGroup = "dovetail.sh"

	AnnotationReplaces = OwnGroup + "/replaces" // on a replacement: the claims to delete once it is initialized, comma separated
	AnnotationCommand  = OwnGroup + "/command"  // on a replacement: the command that ordered it
	AnnotationOrder    = OwnGroup + "/order"    // on a NodeClaim: a digest of the decision to launch it; names are too short to tell decisions apart
	AnnotationPods     = OwnGroup + "/pods"     // on a NodeClaim: the pods that it was ordered for, as hashes
	AnnotationHeldBy   = OwnGroup + "/held-by"  // on a Node: the command that holds it; on a NodeClaim: that which wrote the end of its drain

	AnnotationNodePoolFields = OwnGroup + "/nodepool-fields" // beside the hash: digests of the single fields
)

// FinalizerTermination holds NodeClaims and Nodes until the instance is gone.
const FinalizerTermination = Group + "/termination"

// Taint keys the controller owns.
const (
	TaintKeyUnregistered = Group + "/unregistered"
	TaintKeyDisrupted    = Group + "/disrupted"
	TaintKeyRebooting    = Group + "/rebooting"
	TaintKeyDisruption   = Group + "/disruption" // v1beta1; removed from adopted nodes
)

// UnregisteredTaint is on a node from its first boot until registration.
func UnregisteredTaint() corev1.Taint {
	return corev1.Taint{Key: TaintKeyUnregistered, Effect: corev1.TaintEffectNoExecute}
}

// DisruptedTaint is on a node while a disruption command or its termination runs.
func DisruptedTaint() corev1.Taint {
	return corev1.Taint{Key: TaintKeyDisrupted, Effect: corev1.TaintEffectNoSchedule}
}

// RebootingTaint is on a node from a reboot request until a new boot is seen.
func RebootingTaint() corev1.Taint {
	return corev1.Taint{Key: TaintKeyRebooting, Effect: corev1.TaintEffectNoSchedule}
}

// IsDisrupted reports whether a taint is DisruptedTaint.
func IsDisrupted(t corev1.Taint) bool {
	return t.Key == TaintKeyDisrupted && t.Effect == corev1.TaintEffectNoSchedule
}

// Disrupted reports whether a node is held by a command, or drained.
func Disrupted(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, IsDisrupted) }
