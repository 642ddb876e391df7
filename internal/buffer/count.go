package buffer

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// unlimited is the count that limits allow if they share no resource with the pod.
const unlimited = int64(math.MaxInt64)

// Count is for how many pods a buffer keeps room: the larger of replicas and percentage, but no more than its limits
// allow, or all that they allow if neither is set. workload is the number of replicas of the workload that percentage is
// a share of; nil if the buffer names a PodTemplate. pod is one pod of the buffer.
func Count(spec *autoscalingv1beta1.CapacityBufferSpec, workload *int32, pod *corev1.Pod) int64 {
	bound := withinLimits(spec.Limits, pod)
	wanted, set := int64(0), false
	if spec.Replicas != nil {
		wanted, set = max(int64(*spec.Replicas), 0), true
	}
	if spec.Percentage != nil && workload != nil {
		const whole = 100
		share := (max(int64(*workload), 0)*max(int64(*spec.Percentage), 0) + whole - 1) / whole
		wanted, set = max(wanted, share), true
	}
	switch {
	case set:
		return min(wanted, bound)
	case bound == unlimited: // nothing says how many
		return 0
	}
	return bound
}

// withinLimits is how many pods fit the limits. Resources that the pod does not request do not count.
func withinLimits(limits corev1.ResourceList, pod *corev1.Pod) int64 {
	names := resources.Names(limits)
	table := resources.Table{}.Extend(names...)
	requests, allowed := table.PodRequests(pod), table.Capacity(limits)
	most := unlimited
	for _, name := range names {
		lane, known := table.Lane(name)
		if !known || requests.At(lane) <= 0 {
			continue
		}
		most = min(most, max(allowed.At(lane), 0)/requests.At(lane))
	}
	return most
}
