package cluster

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/reason"
)

// Devices is what dynamic resource allocation knows of the cluster. The objects are shared with a cache: no caller
// writes to them.
type Devices struct {
	Claims  []*resourcev1.ResourceClaim `json:"claims,omitempty"`  // by namespace, then name
	Slices  []*resourcev1.ResourceSlice `json:"slices,omitempty"`  // by name
	Classes []*resourcev1.DeviceClass   `json:"classes,omitempty"` // by name
}

// DriverTimeout is how long after its registration a node may be without the devices that its claim was launched for,
// until their driver counts as late.
const DriverTimeout = 15 * time.Minute

// RequestedDrivers returns the drivers whose devices the pods of a claim were planned to use, in order.
func RequestedDrivers(claim *karpv1.NodeClaim) []string {
	var list []string
	for name := range strings.SplitSeq(claim.Annotations[karpv1.AnnotationRequestedDRADrivers], ",") {
		if name = strings.TrimSpace(name); name != "" {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// DriversLate reports whether the node of a claim has waited too long for its drivers, if it waits for them.
func DriversLate(claim *karpv1.NodeClaim, now time.Time) bool {
	registered := condition.Find(claim.Status.Conditions, karpv1.ConditionRegistered)
	return registered != nil && registered.Status == metav1.ConditionTrue && now.Sub(registered.LastTransitionTime.Time) >= DriverTimeout
}

// LateDrivers returns the drivers of a claim whose node is late and not initialized.
func LateDrivers(claim *karpv1.NodeClaim, now time.Time) []string {
	if claim == nil || claim.Annotations[karpv1.AnnotationRequestedDRADrivers] == "" ||
		condition.True(claim.Status.Conditions, karpv1.ConditionInitialized) || !DriversLate(claim, now) {
		return nil
	}
	return RequestedDrivers(claim)
}

// devices reads which ResourceClaims a pod uses. Whether they exist, and what they request, is looked up when the pod
// is planned: claims change without their pods.
func (b *builder) devices() {
	const at = "spec.resourceClaims"
	pod := b.in.pod
	if b.in.extended != "" {
		b.shape.Devices = append(b.shape.Devices, b.in.extended)
	}
	if !usesDevices(&pod.Spec) {
		return
	}
	if b.in.template && len(b.in.examples) > 0 {
		b.shape.Devices = append(b.shape.Devices, b.in.examples...)
		return
	}
	if !b.opts.Devices || b.in.template {
		b.refuse(reason.DevicesUnsupported, at, "the pod", "that is supported with --ignore-dra-requests=false")
		return
	}
	for i := range pod.Spec.ResourceClaims {
		name, state := deviceClaim(pod, &pod.Spec.ResourceClaims[i])
		switch state {
		case claimNamed:
			b.shape.Devices = append(b.shape.Devices, pod.Namespace+"/"+name)
		case claimPending:
			b.refuse(reason.DeviceClaimPending, index(at, i), pod.Spec.ResourceClaims[i].Name, "")
		case claimUnknown:
			b.refuse(reason.DevicesUnsupported, index(at, i), pod.Spec.ResourceClaims[i].Name, "it names neither a claim nor a template")
		case claimNone: // the template gave the pod no claim
		}
	}
}

// daemonClaims returns the claims of a pod of a DaemonSet if all of them were made from templates, so that a pod on
// another node has equal ones. What they request is not known before they exist.
func (r *Reader) daemonClaims(pod *corev1.Pod) []string {
	if !r.opts.Devices {
		return nil
	}
	var keys []string
	for i := range pod.Spec.ResourceClaims {
		name, state := deviceClaim(pod, &pod.Spec.ResourceClaims[i])
		if state != claimNamed || pod.Spec.ResourceClaims[i].ResourceClaimTemplateName == nil {
			return nil
		}
		keys = append(keys, pod.Namespace+"/"+name)
	}
	return keys
}

// claimState is the state of one entry of spec.resourceClaims.
type claimState byte

const (
	claimNamed claimState = iota
	claimPending
	claimNone
	claimUnknown
)

// deviceClaim returns the name of the ResourceClaim of an entry. That of a template is in the status of the pod.
func deviceClaim(pod *corev1.Pod, entry *corev1.PodResourceClaim) (string, claimState) {
	switch {
	case entry.ResourceClaimName != nil:
		return *entry.ResourceClaimName, claimNamed
	case entry.ResourceClaimTemplateName == nil:
		return "", claimUnknown
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		switch {
		case s.Name != entry.Name:
		case s.ResourceClaimName == nil:
			return "", claimNone
		default:
			return *s.ResourceClaimName, claimNamed
		}
	}
	return "", claimPending
}

// devices writes what the ResourceClaims of a pod are read from.
func (d *digest) devices(pod *corev1.Pod, named bool) {
	uses := usesDevices(&pod.Spec)
	d.flag(uses)
	if !uses || !named {
		return
	}
	d.text(pod.Namespace)
	d.number(int64(len(pod.Spec.ResourceClaims)))
	for i := range pod.Spec.ResourceClaims {
		name, state := deviceClaim(pod, &pod.Spec.ResourceClaims[i])
		d.text(pod.Spec.ResourceClaims[i].Name)
		d.text(name)
		d.number(int64(state))
	}
}

// usesDevices reports whether a pod requests devices by resource claim (scheduling 17).
func usesDevices(spec *corev1.PodSpec) bool {
	if len(spec.ResourceClaims) > 0 {
		return true
	}
	for _, containers := range [...][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			if len(containers[i].Resources.Claims) > 0 {
				return true
			}
		}
	}
	return false
}
