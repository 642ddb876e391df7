package fakenode

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Keys of the queue for storage: a kind, then the name.
const (
	attachmentKey = "attachment/"
	claimKey      = "claim/"
	volumeKey     = "volume/"
)

// syncStorage looks at one object of storage.
func (s *Simulator) syncStorage(ctx context.Context, key string) (time.Duration, error) {
	kind, name, _ := strings.Cut(key, "/")
	switch kind + "/" {
	case attachmentKey:
		return s.syncAttachment(ctx, name)
	case claimKey:
		return s.syncClaim(ctx, name)
	}
	return s.syncVolume(ctx, name)
}

// syncAttachment acts for the CSI attacher: a VolumeAttachment to a running instance is attached at
// once, and when the attach-detach controller deletes it, which it does after the last pod with the
// volume, it is detached. That controller waits for volumesInUse, which the node reports, and writes
// volumesAttached itself.
func (s *Simulator) syncAttachment(ctx context.Context, name string) (time.Duration, error) {
	a, err := s.attachments.Get(name)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	m, known := s.machineOfNode(a.Spec.NodeName)
	if a.DeletionTimestamp != nil {
		return s.detach(ctx, a, m)
	}
	switch {
	case a.Status.Attached:
		return 0, nil
	case !known:
		return 5 * time.Second, nil // not of ours, or not known yet
	case !m.present || m.instance.State != stateRunning:
		return time.Second, nil
	}
	if finalizer := attacherFinalizer(a); !slices.Contains(a.Finalizers, finalizer) {
		return 0, s.setFinalizers(ctx, a, append(slices.Clip(a.Finalizers), finalizer)) // the change comes back
	}
	if handle, err := s.handleOf(a); err != nil {
		return 0, err
	} else if handle != "" {
		s.Volumes.Attach(handle, m.instance.ID)
	}
	body := patch(map[string]any{
		"metadata": map[string]any{"uid": a.UID},
		"status":   map[string]any{"attached": true, "attachError": nil},
	})
	_, err = s.Client.StorageV1().VolumeAttachments().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	return 0, ignoreNotFound(err)
}

// handleOf is the id of the EBS volume of an attachment, or empty for that of another driver.
func (s *Simulator) handleOf(a *storagev1.VolumeAttachment) (string, error) {
	if a.Spec.Attacher != ebsDriver || a.Spec.Source.PersistentVolumeName == nil {
		return "", nil
	}
	v, err := s.volumes.Get(*a.Spec.Source.PersistentVolumeName)
	if err != nil || v.Spec.CSI == nil {
		return "", client.IgnoreNotFound(err)
	}
	return v.Spec.CSI.VolumeHandle, nil
}

// attacherFinalizer is what an attacher holds an attachment with until the volume is detached.
func attacherFinalizer(a *storagev1.VolumeAttachment) string {
	return "external-attacher/" + strings.ReplaceAll(a.Spec.Attacher, ".", "-")
}

// detach lets an attachment go when the time of the fault is over. Nothing is attached to an instance
// that is gone.
func (s *Simulator) detach(ctx context.Context, a *storagev1.VolumeAttachment, m machine) (time.Duration, error) {
	if m.present && m.instance.State != stateTerminated {
		fault, _ := s.Options.Faults.faultsOfInstance(m.instance, m.config)
		if wait := time.Until(a.DeletionTimestamp.Add(fault.DetachLate)); wait > 0 {
			return wait, nil
		}
	}
	finalizer := attacherFinalizer(a)
	if !slices.Contains(a.Finalizers, finalizer) {
		return 0, nil
	}
	if handle, err := s.handleOf(a); err != nil {
		return 0, err
	} else if handle != "" {
		s.Volumes.Detach(handle)
	}
	left := slices.DeleteFunc(slices.Clone(a.Finalizers), func(f string) bool { return f == finalizer })
	return 0, s.setFinalizers(ctx, a, left)
}

func (s *Simulator) setFinalizers(ctx context.Context, a *storagev1.VolumeAttachment, list []string) error {
	body := patch(map[string]any{"metadata": map[string]any{
		"resourceVersion": a.ResourceVersion, "finalizers": list, // the list is replaced as a whole
	}})
	_, err := s.Client.StorageV1().VolumeAttachments().Patch(ctx, a.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return ignoreNotFound(err)
}

// claimNames are the claims of a pod.
func claimNames(p *corev1.Pod) []string {
	var list []string
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			list = append(list, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			list = append(list, p.Name+"-"+v.Name)
		}
	}
	return list
}

// volumesOf returns the CSI volumes of a pod; the others, such as a folder of the host, need nothing
// done. It is not complete as long as a claim has no volume.
func (s *Simulator) volumesOf(p *corev1.Pod) (list []*corev1.PersistentVolume, complete bool, err error) {
	for _, name := range claimNames(p) {
		claim, err := s.claims.PersistentVolumeClaims(p.Namespace).Get(name)
		if err != nil || claim.Spec.VolumeName == "" {
			return list, false, client.IgnoreNotFound(err) // it is on its way
		}
		volume, err := s.volumes.Get(claim.Spec.VolumeName)
		if err != nil {
			return list, false, client.IgnoreNotFound(err)
		}
		if volume.Spec.CSI != nil {
			list = append(list, volume)
		}
	}
	return list, true, nil
}

// volumesAttached says whether all CSI volumes of a pod are attached to its node, as a kubelet waits for.
func (s *Simulator) volumesAttached(p *corev1.Pod) (bool, error) {
	volumes, complete, err := s.volumesOf(p)
	if err != nil || !complete {
		return false, err
	}
	for _, volume := range volumes {
		there, err := s.isAttached(volume.Name, p.Spec.NodeName)
		if err != nil || !there {
			return false, err
		}
	}
	return true, nil
}

// volumesInUse are those of the pods that run on a node. They hold up a detach as long as the kubelet
// does not say that it is done with them, for six minutes if it never does.
func (s *Simulator) volumesInUse(node string) ([]corev1.UniqueVolumeName, error) {
	objects, err := s.podIndex.ByIndex(podsByNode, node)
	if err != nil {
		return nil, err
	}
	var list []corev1.UniqueVolumeName
	for _, o := range objects {
		p, ok := o.(*corev1.Pod)
		if !ok || p.Status.Phase != corev1.PodRunning {
			continue
		}
		volumes, _, err := s.volumesOf(p)
		if err != nil {
			return nil, err
		}
		for _, v := range volumes {
			list = append(list, corev1.UniqueVolumeName("kubernetes.io/csi/"+v.Spec.CSI.Driver+"^"+v.Spec.CSI.VolumeHandle))
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

func (s *Simulator) isAttached(volume, node string) (bool, error) {
	list, err := s.attachments.List(labels.Everything())
	if err != nil {
		return false, err
	}
	matches := func(a *storagev1.VolumeAttachment) bool {
		return a.Spec.NodeName == node && a.Spec.Source.PersistentVolumeName != nil && *a.Spec.Source.PersistentVolumeName == volume
	}
	for _, a := range list {
		if matches(a) && a.Status.Attached {
			return true, nil
		}
	}
	return false, nil
}
