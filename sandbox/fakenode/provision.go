package fakenode

import (
	"context"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the controllers of Kubernetes and a provisioner communicate by.
const (
	provisionerAnnotation  = "volume.kubernetes.io/storage-provisioner"
	selectedNodeAnnotation = "volume.kubernetes.io/selected-node"
	provisionedAnnotation  = "pv.kubernetes.io/provisioned-by"
)

// syncClaim acts for the CSI provisioner: a claim that the volume controller gave to the driver gets a
// volume in the zone of the node that the scheduler chose, or in any zone if the class does not wait.
func (s *Simulator) syncClaim(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, err
	}
	claim, err := s.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if claim.Annotations[provisionerAnnotation] != ebsDriver || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || claim.Spec.StorageClassName == nil {
		return 0, nil
	}
	class, err := s.classes.Get(*claim.Spec.StorageClassName)
	if err != nil {
		return time.Second, client.IgnoreNotFound(err)
	}
	zone, wait, err := s.zoneFor(ctx, claim, class)
	if err != nil || zone == "" {
		return wait, err
	}
	volume := newVolume(claim, class, zone)
	s.Volumes.Create(s.ebsVolume(volume, class, zone))
	_, err = s.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return 0, nil
	}
	return 0, err
}

// zoneFor is where the volume of a claim goes; empty if that is not known yet.
func (s *Simulator) zoneFor(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (zone string, wait time.Duration, err error) {
	if class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		zones, err := s.zones(class)
		if err != nil || len(zones) == 0 {
			return "", time.Second, err
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(claim.UID))
		return zones[int(h.Sum32())%len(zones)], 0, nil
	}
	selected := claim.Annotations[selectedNodeAnnotation]
	if selected == "" {
		return "", 0, nil // no pod uses it yet
	}
	node, err := s.nodes.Get(selected)
	if err == nil {
		return node.Labels[ebsZoneLabel], 0, nil
	}
	if !apierrors.IsNotFound(err) {
		return "", 0, err
	}
	// The node went before its volume came: the scheduler has to choose again.
	body := patch(map[string]any{"metadata": map[string]any{
		"uid": claim.UID, "annotations": map[string]any{selectedNodeAnnotation: nil},
	}})
	_, err = s.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return "", 0, ignoreNotFound(err)
}

// zones that a class allows, or that have nodes.
func (s *Simulator) zones(class *storagev1.StorageClass) ([]string, error) {
	var list []string
	for _, term := range class.AllowedTopologies {
		for _, e := range term.MatchLabelExpressions {
			if e.Key == ebsZoneLabel || e.Key == corev1.LabelTopologyZone {
				list = append(list, e.Values...)
			}
		}
	}
	if len(list) == 0 {
		nodes, err := s.nodes.List(labels.Everything())
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			if zone := n.Labels[ebsZoneLabel]; zone != "" {
				list = append(list, zone)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

func newVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, zone string) *corev1.PersistentVolume {
	handle := "vol-0" + strings.ReplaceAll(string(claim.UID), "-", "")[:16]
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-" + string(claim.UID), Annotations: map[string]string{provisionedAnnotation: ebsDriver},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode,
			StorageClassName: class.Name, PersistentVolumeReclaimPolicy: reclaim, MountOptions: class.MountOptions,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: ebsDriver, VolumeHandle: handle, FSType: "ext4"},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: ebsZoneLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
			}}}},
		},
	}
}

// ebsVolume is the volume behind one of Kubernetes, with the tags of the driver.
func (s *Simulator) ebsVolume(v *corev1.PersistentVolume, class *storagev1.StorageClass, zone string) Volume {
	kind := class.Parameters["type"]
	if kind == "" {
		kind = "gp3"
	}
	return Volume{
		ID: v.Spec.CSI.VolumeHandle, Zone: zone, Type: kind, Bytes: v.Spec.Capacity.Storage().Value(), Encrypted: class.Parameters["encrypted"] == "true",
		Tags: map[string]string{
			"Name": s.Cluster + "-dynamic-" + v.Name, "CSIVolumeName": v.Name, "ebs.csi.aws.com/cluster": "true",
			"KubernetesCluster": s.Cluster, "kubernetes.io/cluster/" + s.Cluster: "owned",
			"kubernetes.io/created-for/pv/name": v.Name, "kubernetes.io/created-for/pvc/name": v.Spec.ClaimRef.Name,
			"kubernetes.io/created-for/pvc/namespace": v.Spec.ClaimRef.Namespace,
		},
	}
}

// syncVolume deletes a volume made here once its claim is gone and nothing is attached to it any more.
func (s *Simulator) syncVolume(ctx context.Context, name string) (time.Duration, error) {
	v, err := s.volumes.Get(name)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if v.Annotations[provisionedAnnotation] != ebsDriver || v.Status.Phase != corev1.VolumeReleased ||
		v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || v.DeletionTimestamp != nil {
		return 0, nil
	}
	list, err := s.attachments.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	for _, a := range list {
		if a.Spec.Source.PersistentVolumeName != nil && *a.Spec.Source.PersistentVolumeName == name {
			return time.Second, nil
		}
	}
	if v.Spec.CSI != nil {
		s.Volumes.Delete(v.Spec.CSI.VolumeHandle)
	}
	return 0, ignoreNotFound(s.Client.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(v.UID)),
	}))
}
