package drain_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

// start is when the node and its claim were deleted.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

func at(d time.Duration) *metav1.Time { return new(metav1.NewTime(after(d))) }

// node is ready, marked and being deleted since start.
func node(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n", DeletionTimestamp: at(0), Finalizers: []string{karpv1.FinalizerTermination},
			Labels: map[string]string{corev1.LabelNodeExcludeBalancers: "karpenter"},
		},
		Spec:   corev1.NodeSpec{ProviderID: "aws:///a/i-1", Taints: []corev1.Taint{karpv1.DisruptedTaint()}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

// claim is being deleted since start and registered.
func claim(change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", DeletionTimestamp: at(0), Finalizers: []string{karpv1.FinalizerTermination}},
		Status: karpv1.NodeClaimStatus{
			ProviderID: "aws:///a/i-1",
			Conditions: []metav1.Condition{{Type: karpv1.ConditionRegistered, Status: metav1.ConditionTrue, LastTransitionTime: *at(-time.Hour)}},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func period(text karpv1.Duration) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) { c.Spec.TerminationGracePeriod = text }
}

func stamped(text string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		c.Annotations = map[string]string{karpv1.AnnotationTerminationTimestamp: text}
	}
}

func with(name string, status metav1.ConditionStatus, reason string, since time.Duration) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: name, Status: status, Reason: reason, LastTransitionTime: *at(since)})
	}
}

// draining is a drain that began at start.
func draining(c *karpv1.NodeClaim) {
	with(karpv1.ConditionDrained, metav1.ConditionUnknown, drain.Draining, 0)(c)
}

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(30))},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, StartTime: at(-time.Hour)},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

func protected(value string) func(*corev1.Pod) {
	return annotated(karpv1.AnnotationDoNotDisrupt, value)
}

func owned(apiVersion, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: apiVersion, Kind: kind})
	}
}

func daemon(p *corev1.Pod) { owned("apps/v1", "DaemonSet")(p) }

func critical(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }

func phase(to corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = to }
}

func grace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// endsAt is a pod that was requested to end.
func endsAt(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = at(d) }
}

func withGrace(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = &seconds }
}

func tolerating(list ...corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = list }
}

func mounting(claims ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, c := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c},
			}})
		}
	}
}

func attachment(name, volume string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n"}}
	if volume != "" {
		a.Spec.Source.PersistentVolumeName = &volume
	}
	return a
}

func names(pods []*corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func requests(cpu, memory string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}}}}
	}
}
