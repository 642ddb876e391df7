package buffer

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// Reasons of condition ReadyForProvisioning.
const (
	Resolved            = "Resolved"
	PodTemplateNotFound = "PodTemplateNotFound"
	ScalableRefNotFound = "ScalableRefNotFound"
	ResolutionFailed    = "ResolutionFailed"
)

const (
	// MaxPods is for how many pods one buffer can keep room. A mistyped number must not take the memory and the time that
	// planning for real pods needs.
	MaxPods = 10_000
	// MaxTotal is for how many pods all buffers together can keep room.
	MaxTotal = 30_000
)

// Target is what a buffer refers to: a PodTemplate or a workload.
type Target struct {
	Template   corev1.PodTemplateSpec
	Generation int64  // of the PodTemplate
	Replicas   *int32 // of the workload; nil: not set, which is one
}

// Resolution is what a buffer requests.
type Resolution struct {
	Pods    []*corev1.Pod
	Count   int32
	Ready   bool
	Reason  string // of condition ReadyForProvisioning
	Message string
	target  *Target
}

// Keys are the keys of the pods.
func (r *Resolution) Keys() []cluster.PodKey {
	keys := make([]cluster.PodKey, len(r.Pods))
	for i, p := range r.Pods {
		keys[i] = cluster.PodKey{Namespace: p.Namespace, Name: p.Name}
	}
	return keys
}

// Ours reports whether a buffer has our provisioning strategy. One with another belongs to another controller.
func Ours(spec *autoscalingv1beta1.CapacityBufferSpec) bool {
	return spec.ProvisioningStrategy == nil || *spec.ProvisioningStrategy == "" || *spec.ProvisioningStrategy == autoscalingv1beta1.StrategyActiveCapacity
}

// Resolve decides what a buffer that is ours requests. target is what it refers to; nil with err nil: that does not exist. defaults are
// the requests that LimitRanges give to containers of its namespace. left is how many pods all buffers may still request.
func Resolve(b *autoscalingv1beta1.CapacityBuffer, target *Target, err error, defaults corev1.ResourceList, left int) Resolution {
	spec := &b.Spec
	switch {
	case (spec.PodTemplateRef == nil) == (spec.ScalableRef == nil):
		return failed(ResolutionFailed, "set exactly one of spec.podTemplateRef and spec.scalableRef")
	case err != nil:
		return failed(ResolutionFailed, fmt.Sprintf("cannot read %s of namespace %s: %s", Reference(spec), b.Namespace, err.Error()))
	case target == nil && spec.PodTemplateRef != nil:
		return failed(PodTemplateNotFound, fmt.Sprintf("%s does not exist in namespace %s; create it, or change spec.podTemplateRef", Reference(spec), b.Namespace))
	case target == nil:
		return failed(ScalableRefNotFound, fmt.Sprintf("%s does not exist in namespace %s; create it, or change spec.scalableRef", Reference(spec), b.Namespace))
	case len(target.Template.Spec.Containers) == 0:
		return failed(ResolutionFailed, Reference(spec)+" has no container; add one to its template")
	}
	workload := (*int32)(nil)
	if spec.ScalableRef != nil {
		one := int32(1)
		if workload = target.Replicas; workload == nil {
			workload = &one
		}
	}
	pod := virtualPod(b, &target.Template, defaults)
	wanted := Count(spec, workload, pod)
	count := min(wanted, MaxPods, int64(max(left, 0)))
	out := Resolution{Pods: numbered(b, pod, count), Count: int32(count), Ready: true, Reason: Resolved, target: target}
	out.Message = "Room is kept for " + pods(count) + " like those of " + Reference(spec)
	switch {
	case wanted > count && count == MaxPods:
		out.Message += fmt.Sprintf("; the buffer requests %d, but one buffer can have at most %d", wanted, MaxPods)
	case wanted > count:
		out.Message += fmt.Sprintf("; the buffer requests %d, but all buffers of the cluster together can have at most %d", wanted, MaxTotal)
	}
	return out
}

func failed(why, message string) Resolution { return Resolution{Reason: why, Message: message} }

// Reference names what a buffer refers to.
func Reference(spec *autoscalingv1beta1.CapacityBufferSpec) string {
	switch {
	case spec.PodTemplateRef != nil:
		return "PodTemplate " + spec.PodTemplateRef.Name
	case spec.ScalableRef != nil:
		return spec.ScalableRef.Kind + " " + spec.ScalableRef.Name
	}
	return "nothing"
}

func pods(n int64) string {
	if n == 1 {
		return "1 pod"
	}
	return strconv.FormatInt(n, 10) + " pods"
}
