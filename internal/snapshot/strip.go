package snapshot

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/store"
)

// keep removes from an object what no decision looks at. Beside the rules of internal/store, which save memory, these
// leave out what is nobody's business: a file is sent to others.
func keep(obj client.Object) {
	safe, set := obj.GetAnnotations()[annotationSafeToEvict]
	if _, err := store.Strip(obj); err != nil {
		return // it never fails
	}
	if set {
		obj.SetAnnotations(withValues(obj.GetAnnotations(), map[string]string{annotationSafeToEvict: safe}))
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	obj.SetManagedFields(nil)
	obj.SetFinalizers(nil)
	obj.SetResourceVersion("")
	obj.SetSelfLink("")
	obj.SetGenerateName("")
	obj.SetAnnotations(keptAnnotations(obj.GetAnnotations()))
	switch o := obj.(type) {
	case *corev1.Node:
		o.Spec = corev1.NodeSpec{ProviderID: o.Spec.ProviderID, Unschedulable: o.Spec.Unschedulable, Taints: o.Spec.Taints}
		o.Status = corev1.NodeStatus{Capacity: o.Status.Capacity, Allocatable: o.Status.Allocatable, Conditions: o.Status.Conditions}
	case *corev1.Pod:
		keepPodSpec(&o.Spec)
	case *corev1.PersistentVolume:
		keepVolume(o)
	case *corev1.PersistentVolumeClaim:
		o.Spec = corev1.PersistentVolumeClaimSpec{StorageClassName: o.Spec.StorageClassName, VolumeName: o.Spec.VolumeName}
		o.Status = corev1.PersistentVolumeClaimStatus{Phase: o.Status.Phase}
	case *storagev1.StorageClass:
		o.Parameters, o.MountOptions = nil, nil
	case *corev1.Namespace:
		o.Spec, o.Status.Conditions = corev1.NamespaceSpec{}, nil
	case *appsv1.DaemonSet:
		keepTemplate(&o.Spec.Template)
		o.Status = appsv1.DaemonSetStatus{}
	case *appsv1.ReplicaSet:
		o.Spec.Template, o.Status = corev1.PodTemplateSpec{}, appsv1.ReplicaSetStatus{}
	case *appsv1.StatefulSet:
		o.Spec = appsv1.StatefulSetSpec{Selector: o.Spec.Selector, Replicas: o.Spec.Replicas}
		o.Status = appsv1.StatefulSetStatus{}
	case *corev1.ReplicationController:
		o.Spec.Template, o.Status = nil, corev1.ReplicationControllerStatus{}
	case *corev1.Service:
		o.Spec, o.Status = corev1.ServiceSpec{Selector: o.Spec.Selector}, corev1.ServiceStatus{}
	default:
		keepDevices(obj)
	}
}

// keepDevices leaves out the parameters that only drivers understand.
func keepDevices(obj client.Object) {
	switch o := obj.(type) {
	case *resourcev1.ResourceClaim:
		o.Spec.Devices.Config = nil
		if o.Status.Allocation != nil {
			o.Status.Allocation.Devices.Config = nil
		}
		o.Status.Devices = nil
	case *storagev1.CSINode:
		o.Status = storagev1.CSINodeStatus{}
	case *resourcev1.DeviceClass:
		o.Spec.Config = nil
	case *karpv1.NodePool:
		o.Spec.Template.ObjectMeta.Annotations = keptAnnotations(o.Spec.Template.ObjectMeta.Annotations)
	case *karpv1.NodeClaim:
		o.Status.ImageID = ""
	case *autoscalingv1beta1.CapacityBuffer:
		o.Status = autoscalingv1beta1.CapacityBufferStatus{}
	}
}

// keepPodSpec keeps of volumes which claim they are, as everything else of them is between the pod and its node.
func keepPodSpec(s *corev1.PodSpec) {
	for i := range s.Volumes {
		v := &s.Volumes[i]
		source := corev1.VolumeSource{}
		if v.PersistentVolumeClaim != nil {
			source.PersistentVolumeClaim = v.PersistentVolumeClaim
		} else {
			source.Ephemeral = &corev1.EphemeralVolumeSource{} // the claim has the name of the pod and of the volume
		}
		v.VolumeSource = source
	}
	s.DNSPolicy, s.HostnameOverride = "", nil
}

// keepTemplate keeps of a template of pods what is kept of pods.
func keepTemplate(t *corev1.PodTemplateSpec) {
	p := corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	keep(&p)
	t.ObjectMeta, t.Spec = metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations}, p.Spec
}

// keepVolume keeps where a volume is and which driver attaches it, not how it is reached.
func keepVolume(v *corev1.PersistentVolume) {
	s := &v.Spec
	var source corev1.PersistentVolumeSource
	switch from := s.PersistentVolumeSource; {
	case from.CSI != nil:
		source.CSI = &corev1.CSIPersistentVolumeSource{Driver: from.CSI.Driver, VolumeHandle: from.CSI.VolumeHandle}
	case from.AWSElasticBlockStore != nil:
		source.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: from.AWSElasticBlockStore.VolumeID}
	case from.GCEPersistentDisk != nil:
		source.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: from.GCEPersistentDisk.PDName}
	case from.AzureDisk != nil:
		source.AzureDisk = &corev1.AzureDiskVolumeSource{DiskName: from.AzureDisk.DiskName}
	case from.AzureFile != nil:
		source.AzureFile = &corev1.AzureFilePersistentVolumeSource{ShareName: from.AzureFile.ShareName}
	case from.Cinder != nil:
		source.Cinder = &corev1.CinderPersistentVolumeSource{VolumeID: from.Cinder.VolumeID}
	case from.VsphereVolume != nil:
		source.VsphereVolume = &corev1.VsphereVirtualDiskVolumeSource{VolumePath: from.VsphereVolume.VolumePath}
	case from.PortworxVolume != nil:
		source.PortworxVolume = &corev1.PortworxVolumeSource{VolumeID: from.PortworxVolume.VolumeID}
	case from.Local != nil:
		source.Local = &corev1.LocalVolumeSource{}
	case from.HostPath != nil:
		source.HostPath = &corev1.HostPathVolumeSource{}
	}
	if s.ClaimRef != nil {
		s.ClaimRef = &corev1.ObjectReference{Namespace: s.ClaimRef.Namespace, Name: s.ClaimRef.Name, UID: s.ClaimRef.UID}
	}
	v.Spec = corev1.PersistentVolumeSpec{
		Capacity: s.Capacity, PersistentVolumeSource: source, AccessModes: s.AccessModes, ClaimRef: s.ClaimRef, StorageClassName: s.StorageClassName,
		NodeAffinity: s.NodeAffinity, VolumeMode: s.VolumeMode,
	}
	v.Status.Message, v.Status.Reason = "", ""
}

// keptAnnotations are those that decisions look at. Others can have anything in them.
func keptAnnotations(all map[string]string) map[string]string {
	var kept map[string]string
	// any order: each is looked at by itself
	for key, value := range all {
		if !keepsAnnotation(key) {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
	}
	return kept
}

func keepsAnnotation(key string) bool {
	switch key {
	case corev1.PodDeletionCost, corev1.MirrorPodAnnotationKey, corev1.BetaStorageClassAnnotation, resourcev1.ExtendedResourceClaimAnnotation,
		"pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node", annotationDefaultClass,
		annotationSafeToEvict, annotationNoScaleDown:
		return true
	}
	domain, _, _ := strings.Cut(key, "/")
	return domain == karpv1.Group || domain == karpv1.OwnGroup
}
