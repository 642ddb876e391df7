package command

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// Status returns what a command has to know about a claim; nil: it is deleted.
func Status(claim *karpv1.NodeClaim) disrupt.ClaimStatus {
	if claim == nil {
		return disrupt.ClaimStatus{NotFound: true}
	}
	return disrupt.ClaimStatus{
		Deleting: claim.DeletionTimestamp != nil,
		Launched: condition.True(claim.Status.Conditions, karpv1.ConditionLaunched), Initialized: condition.True(claim.Status.Conditions, karpv1.ConditionInitialized),
	}
}

// The functions below change an object that the caller owns. They report whether it has to be written.

// HoldNode taints a node against new pods, and records the command that holds it.
func HoldNode(node *corev1.Node, token string) (write, tainted bool) {
	if tainted = !karpv1.Disrupted(node); tainted {
		node.Spec.Taints = append(slices.Clone(node.Spec.Taints), karpv1.DisruptedTaint())
	} else if node.Annotations[karpv1.AnnotationHeldBy] == token {
		return false, false
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, karpv1.AnnotationHeldBy, token)
	return true, tainted
}

// CanRelease reports whether the node of a claim can be released. A node that is being deleted keeps its taint.
func CanRelease(claim *karpv1.NodeClaim) bool { return claim == nil || claim.DeletionTimestamp == nil }

// ReleaseNode undoes HoldNode.
func ReleaseNode(node *corev1.Node) (write, untainted bool) {
	_, held := node.Annotations[karpv1.AnnotationHeldBy]
	untainted = karpv1.Disrupted(node)
	if node.DeletionTimestamp != nil || !untainted && !held {
		return false, false
	}
	node.Spec.Taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), karpv1.IsDisrupted)
	delete(node.Annotations, karpv1.AnnotationHeldBy)
	return true, untainted
}

// SetReason sets condition DisruptionReason of a claim.
func SetReason(claim *karpv1.NodeClaim, why karpv1.DisruptionReason, now time.Time) {
	object := condition.Object{Generation: claim.Generation, Created: claim.CreationTimestamp, Deleting: claim.DeletionTimestamp != nil}
	claim.Status.Conditions = lifecycle.Conditions().Apply(claim.Status.Conditions, object, metav1.NewTime(now),
		condition.Change{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: string(why), Message: string(why)})
}

// RemoveReason removes condition DisruptionReason of a claim. A rebooting claim keeps the condition: its reboot
// may have been requested a moment ago.
func RemoveReason(claim *karpv1.NodeClaim) (write bool) {
	if condition.True(claim.Status.Conditions, karpv1.ConditionRebooting) {
		return false
	}
	had := len(claim.Status.Conditions)
	claim.Status.Conditions = condition.Remove(slices.Clone(claim.Status.Conditions), karpv1.ConditionDisruptionReason)
	return len(claim.Status.Conditions) != had
}

// RemoveMarks removes the annotations of its command from a replacement, which is an ordinary node then.
func RemoveMarks(claim *karpv1.NodeClaim) (write bool) {
	_, marked := claim.Annotations[karpv1.AnnotationCommand]
	delete(claim.Annotations, karpv1.AnnotationCommand)
	delete(claim.Annotations, karpv1.AnnotationReplaces)
	return marked
}
