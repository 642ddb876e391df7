package buffer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// Reasons of condition Provisioning.
const (
	FitsExistingCapacity    = "FitsExistingCapacity"
	RequiresNewCapacity     = "RequiresNewCapacity"
	NotReadyForProvisioning = "NotReadyForProvisioning"
	Empty                   = "BufferEmpty"
)

// Status is the status of a buffer after it was resolved, with what the latest plan means for its pods. placed is nil
// before the first plan. A condition keeps its time while its status is the same.
func Status(b *autoscalingv1beta1.CapacityBuffer, r *Resolution, placed map[cluster.PodKey]Placement, now time.Time) autoscalingv1beta1.CapacityBufferStatus {
	status := *b.Status.DeepCopy()
	status.Replicas, status.PodTemplateRef, status.PodTemplateGeneration, status.ProvisioningStrategy = nil, nil, nil, nil
	strategy := autoscalingv1beta1.StrategyActiveCapacity
	status.ProvisioningStrategy = &strategy
	if r.Ready {
		count := r.Count
		status.Replicas = &count
		if b.Spec.PodTemplateRef != nil {
			ref, generation := *b.Spec.PodTemplateRef, r.target.Generation
			status.PodTemplateRef, status.PodTemplateGeneration = &ref, &generation
		}
	}
	set := func(kind string, is bool, why, message string) {
		value := metav1.ConditionFalse
		if is {
			value = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: why, Message: message, ObservedGeneration: b.Generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
	set(autoscalingv1beta1.ConditionReadyForProvisioning, r.Ready, r.Reason, r.Message)
	if is, why, message, known := provisioning(r, placed); known {
		set(autoscalingv1beta1.ConditionProvisioning, is, why, message)
	}
	return status
}

// Released is the status of a buffer that belongs to another controller: what we wrote when it was ours is removed, and
// anything else stays.
func Released(b *autoscalingv1beta1.CapacityBuffer) autoscalingv1beta1.CapacityBufferStatus {
	status := *b.Status.DeepCopy()
	if status.ProvisioningStrategy == nil || *status.ProvisioningStrategy != autoscalingv1beta1.StrategyActiveCapacity {
		return status
	}
	status.Replicas, status.PodTemplateRef, status.PodTemplateGeneration, status.ProvisioningStrategy = nil, nil, nil, nil
	for _, kind := range []string{autoscalingv1beta1.ConditionReadyForProvisioning, autoscalingv1beta1.ConditionProvisioning} {
		meta.RemoveStatusCondition(&status.Conditions, kind)
	}
	return status
}

// provisioning is condition Provisioning. It is not known until a plan was made for the pods.
func provisioning(r *Resolution, placed map[cluster.PodKey]Placement) (is bool, why, message string, known bool) {
	switch {
	case !r.Ready:
		return false, NotReadyForProvisioning, "No room is kept: " + r.Message, true
	case r.Count == 0:
		return false, Empty, "The buffer requests capacity for no pods; see replicas, percentage and limits of its spec", true
	}
	fits, ordered, unknown, reasons := int64(0), int64(0), 0, map[string]int64{}
	for _, key := range r.Keys() {
		switch p, planned := placed[key]; {
		case !planned:
			unknown++
		case p.Fits:
			fits++
		case p.Ordered:
			ordered++
		default:
			reasons[p.Why]++
		}
	}
	count := int64(r.Count)
	switch {
	case unknown > 0:
		return false, "", "", false
	case fits == count:
		return true, FitsExistingCapacity, "Nodes have room for " + pods(count), true
	}
	parts := []string{fmt.Sprintf("Nodes have room for %d of %s", fits, pods(count))}
	if ordered > 0 {
		parts = append(parts, fmt.Sprintf("new nodes are being launched for %d", ordered))
	}
	var texts []string
	for text := range reasons { // any order: sorted below
		texts = append(texts, text)
	}
	slices.Sort(texts)
	for _, text := range texts {
		parts = append(parts, fmt.Sprintf("no node can take %d: %s", reasons[text], text))
	}
	const longest = 4096 // a message of the API server's may have 32768 bytes
	message = strings.Join(parts, "; ")
	if len(message) > longest {
		message = strings.ToValidUTF8(message[:longest], "") + "…"
	}
	return false, RequiresNewCapacity, message, true
}
