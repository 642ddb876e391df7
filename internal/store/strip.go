package store

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

// Strip removes the fields that no decision uses from an object of the cache. Objects read from the cache can therefore
// be used for patches only, never for updates.
func Strip(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		stripPod(o)
	case *corev1.Node:
		o.Status.Images, o.Status.VolumesInUse, o.Status.VolumesAttached, o.Status.Config = nil, nil, nil, nil
		stripMeta(o)
	case metav1.Object:
		stripMeta(o)
	}
	return obj, nil
}

func stripMeta(o metav1.Object) {
	o.SetManagedFields(nil)
	if a := o.GetAnnotations(); a[corev1.LastAppliedConfigAnnotation] != "" {
		a = maps.Clone(a)
		delete(a, corev1.LastAppliedConfigAnnotation)
		o.SetAnnotations(a)
	}
}

// stripPod keeps what scheduling, draining and metrics use: requests of containers, volumes that have a location,
// annotations of this project.
func stripPod(p *corev1.Pod) {
	p.ManagedFields = nil
	p.Annotations = ourAnnotations(p.Annotations)
	if len(p.Labels) == 0 {
		p.Labels = nil
	}
	StripPodSpec(&p.Spec)

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
}

// StripPodSpec removes the fields that no decision uses from a pod or a template of pods.
func StripPodSpec(s *corev1.PodSpec) {
	s.Containers, s.InitContainers, s.EphemeralContainers = strippedContainers(s.Containers), strippedContainers(s.InitContainers), nil
	s.Volumes = placedVolumes(s.Volumes)
	s.ImagePullSecrets, s.HostAliases, s.SecurityContext, s.DNSConfig, s.ReadinessGates = nil, nil, nil, nil, nil
	s.ServiceAccountName, s.Hostname, s.Subdomain = "", "", ""
}

// ourAnnotations keeps the annotations that mean something to us.
func ourAnnotations(all map[string]string) map[string]string {
	var kept map[string]string
	// any order: each is independent of the others
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
