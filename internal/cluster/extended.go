package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/resources"
)

// ExtendedResources returns the DeviceClass that stands for each extended resource: the one that names it, of several
// the newest, as kube-scheduler does, and for the name that every class has by itself that class.
func ExtendedResources(classes []*resourcev1.DeviceClass) map[corev1.ResourceName]string {
	names := map[corev1.ResourceName]*resourcev1.DeviceClass{}
	for _, c := range classes {
		names[corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+c.Name)] = c
		if c.Spec.ExtendedResourceName == nil {
			continue
		}
		name := corev1.ResourceName(*c.Spec.ExtendedResourceName)
		old := names[name]
		if old == nil || old.CreationTimestamp.Before(&c.CreationTimestamp) || old.CreationTimestamp.Equal(&c.CreationTimestamp) && c.Name < old.Name {
			names[name] = c
		}
	}
	out := make(map[corev1.ResourceName]string, len(names))
	// any order: each name has its own class
	for name, c := range names {
		out[name] = c.Name
	}
	return out
}

// extendedClaim is what the name of a claim begins with that kube-scheduler would make for the extended resources of a
// pod. It is no legal name, and what it requests follows the name of the pod.
const extendedClaim = "extended resources of pod "

// claimOfResources takes the resources that DeviceClasses stand for out of the requests of a pod, and returns the key of
// the claim that kube-scheduler makes for them. Empty: there are none.
func (r *Reader) claimOfResources(p *corev1.Pod, requests *resources.Vec) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.opts.Extended)) {
		lane, known := r.table.Lane(name)
		if n := requests.At(lane); known && n > 0 {
			*requests = resources.With(*requests, lane, 0)
			parts = append(parts, r.opts.Extended[name]+"="+strconv.FormatInt(n, 10))
		}
	}
	switch made := p.Status.ExtendedResourceClaimStatus; {
	case len(parts) == 0:
		return ""
	case made != nil && p.Spec.NodeName != "": // before, kube-scheduler may have deleted it again
		return p.Namespace + "/" + made.ResourceClaimName
	}
	return p.Namespace + "/" + extendedClaim + p.Name + ": " + strings.Join(parts, ",")
}

// ExtendedClaims returns the allocated claims that kube-scheduler has made for extended resources, by the beginning of
// the key for them: their pods are bound next.
func ExtendedClaims(list []*resourcev1.ResourceClaim) map[string]*resourcev1.ResourceClaim {
	made := map[string]*resourcev1.ResourceClaim{}
	for _, c := range list {
		if c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" || c.DeletionTimestamp != nil || c.Status.Allocation == nil {
			continue
		}
		if owner := metav1.GetControllerOfNoCopy(c); owner != nil {
			made[c.Namespace+"/"+extendedClaim+owner.Name] = c
		}
	}
	return made
}

// ExtendedClaim returns the claim for extended resources that a key stands for, before kube-scheduler has made it, and
// what it requests as text. It is nil for keys of other claims. made are those of ExtendedClaims.
func ExtendedClaim(key string, made map[string]*resourcev1.ResourceClaim) (claim *resourcev1.ResourceClaim, requests string) {
	namespace, name, _ := strings.Cut(key, "/")
	if !strings.HasPrefix(name, extendedClaim) {
		return nil, ""
	}
	name, requests, _ = strings.Cut(name, ": ")
	if c := made[namespace+"/"+name]; c != nil {
		return c, requests
	}
	claim = &resourcev1.ResourceClaim{}
	claim.Namespace, claim.Name = namespace, name
	for i, part := range strings.Split(requests, ",") {
		class, count, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil { // cannot happen: it was written above
			return nil, ""
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourcev1.DeviceRequest{
			Name:    "request-" + strconv.Itoa(i),
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n},
		})
	}
	return claim, requests
}
