package store

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Stripped says which fields of each kind are kept in the cache. Objects read from the cache can therefore be used
// for patches only, never for updates.
func Stripped() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:  {Transform: toolscache.TransformFunc(stripPod)},
		&corev1.Node{}: {Transform: toolscache.TransformFunc(stripNode)},
	}
}

// Strip removes unused fields from any object.
func Strip(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
		if a := o.GetAnnotations(); a[corev1.LastAppliedConfigAnnotation] != "" {
			a = maps.Clone(a)
			delete(a, corev1.LastAppliedConfigAnnotation)
			o.SetAnnotations(a)
		}
	}
	return obj, nil
}

func stripNode(obj any) (any, error) {
	if n, ok := obj.(*corev1.Node); ok {
		n.Status.Images, n.Status.VolumesInUse, n.Status.VolumesAttached = nil, nil, nil
		n.Status.Config = nil
	}
	return Strip(obj)
}

// stripPod keeps what scheduling, draining and metrics use: requests of containers, volumes that have a location,
// annotations of this project.
func stripPod(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return Strip(obj)
	}
	p.ManagedFields = nil
	p.Annotations = ourAnnotations(p.Annotations)
	if len(p.Labels) == 0 {
		p.Labels = nil
	}
	s := &p.Spec
	s.Containers, s.InitContainers, s.EphemeralContainers = strippedContainers(s.Containers), strippedContainers(s.InitContainers), nil
	s.Volumes = placedVolumes(s.Volumes)
	s.ImagePullSecrets, s.HostAliases, s.SecurityContext, s.DNSConfig, s.ReadinessGates = nil, nil, nil, nil, nil
	s.ServiceAccountName, s.Hostname, s.Subdomain = "", "", ""

	st := corev1.PodStatus{
		Phase: p.Status.Phase, StartTime: p.Status.StartTime, NominatedNodeName: p.Status.NominatedNodeName,
		Resize: p.Status.Resize, ResourceClaimStatuses: p.Status.ResourceClaimStatuses, ExtendedResourceClaimStatus: p.Status.ExtendedResourceClaimStatus, QOSClass: p.Status.QOSClass,
	}
	for _, c := range p.Status.Conditions {
		c.Message = ""
		st.Conditions = append(st.Conditions, c)
	}
	st.ContainerStatuses = containerStatuses(p.Status.ContainerStatuses)
	st.InitContainerStatuses = containerStatuses(p.Status.InitContainerStatuses)
	p.Status = st
	return p, nil
}

// ourAnnotations keeps the annotations that mean something to us.
func ourAnnotations(all map[string]string) map[string]string {
	var kept map[string]string
	// any order: each is looked at by itself
	for key, value := range all {
		if strings.HasPrefix(key, karpv1.Group+"/") || key == corev1.PodDeletionCost {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

func strippedContainers(list []corev1.Container) []corev1.Container {
	if len(list) == 0 {
		return nil
	}
	out := make([]corev1.Container, 0, len(list))
	for _, c := range list {
		kept := corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy, ResizePolicy: c.ResizePolicy}
		for _, port := range c.Ports {
			if port.HostPort != 0 {
				kept.Ports = append(kept.Ports, port)
			}
		}
		out = append(out, kept)
	}
	return out
}

func placedVolumes(list []corev1.Volume) []corev1.Volume {
	var out []corev1.Volume
	for _, v := range list {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			out = append(out, v)
		}
	}
	return out
}

// containerStatuses keeps what an in-place resize gave to containers, and when they ended.
func containerStatuses(list []corev1.ContainerStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range list {
		kept := corev1.ContainerStatus{Name: c.Name, Resources: c.Resources, AllocatedResources: c.AllocatedResources}
		if end := c.State.Terminated; end != nil {
			kept.State.Terminated = &corev1.ContainerStateTerminated{FinishedAt: end.FinishedAt}
		}
		if c.Resources != nil || len(c.AllocatedResources) > 0 || kept.State.Terminated != nil {
			out = append(out, kept)
		}
	}
	return out
}
