package buffer

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// virtualPod is the pod that room is kept for, without a name. Other pods of the buffer differ only in name and UID, so
// they share the spec.
func virtualPod(b *autoscalingv1beta1.CapacityBuffer, template *corev1.PodTemplateSpec, defaults corev1.ResourceList) *corev1.Pod {
	t := template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Labels: t.Labels, CreationTimestamp: b.CreationTimestamp},
		Spec:       t.Spec,
		Status: corev1.PodStatus{
			Phase:      corev1.PodPending,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}},
		},
	}
	pod.Annotations = maps.Clone(t.Annotations)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[autoscalingv1beta1.AnnotationFakePod] = "true"
	pod.Annotations[autoscalingv1beta1.AnnotationBufferName] = b.Name
	pod.Annotations[autoscalingv1beta1.AnnotationBufferNamespace] = b.Namespace
	lowest := int32(math.MinInt32)
	pod.Spec.Priority, pod.Spec.PriorityClassName, pod.Spec.NodeName = &lowest, "", ""
	withoutStorage(&pod.Spec)
	cluster.CompleteRequests(&pod.Spec, defaults)
	return pod
}

// AddOverhead gives a template the overhead of its RuntimeClass, as admission gives it to a pod. of is what pods of a class
// have.
func AddOverhead(spec *corev1.PodSpec, of func(class string) corev1.ResourceList) {
	if spec.RuntimeClassName != nil && *spec.RuntimeClassName != "" && len(spec.Overhead) == 0 {
		spec.Overhead = of(*spec.RuntimeClassName)
	}
}

// withoutStorage removes volumes that belong to one pod, and their mounts: no claim exists for a pod that does not.
func withoutStorage(spec *corev1.PodSpec) {
	removed := map[string]bool{}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool {
		own := v.PersistentVolumeClaim != nil || v.Ephemeral != nil
		if own {
			removed[v.Name] = true
		}
		return own
	})
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			list[i].VolumeMounts = slices.DeleteFunc(list[i].VolumeMounts, func(m corev1.VolumeMount) bool { return removed[m.Name] })
			list[i].VolumeDevices = slices.DeleteFunc(list[i].VolumeDevices, func(d corev1.VolumeDevice) bool { return removed[d.Name] })
		}
	}
}

// numbered returns the pods of a buffer. The same buffer has the same pods at any time, in any process.
func numbered(b *autoscalingv1beta1.CapacityBuffer, one *corev1.Pod, count int64) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, count)
	for n := range count {
		pod := *one // the parts are shared, and nothing changes them
		number := strconv.FormatInt(n, 10)
		pod.Name = "capacity-buffer-" + b.Name + "-" + number
		pod.UID = uid(b, number)
		pods = append(pods, &pod)
	}
	return pods
}

// uid is a UID that depends on the buffer and the number of the pod alone.
func uid(b *autoscalingv1beta1.CapacityBuffer, number string) types.UID {
	sum := sha256.Sum256([]byte(b.Namespace + "/" + b.Name + "/" + string(b.UID) + "/" + number))
	text := hex.EncodeToString(sum[:16])
	return types.UID(text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:])
}
