package fakenode

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// syncAttachment acts for the CSI attacher: a VolumeAttachment to a running instance is attached at
// once. It has no finalizer, so the attach-detach controller that made it removes it by deleting it,
// when the last pod with the volume is gone: nodes report no volumesInUse that would hold it up, and
// volumesAttached is written by that controller.
func (s *Simulator) syncAttachment(ctx context.Context, name string) (time.Duration, error) {
	a, err := s.attachments.Get(name)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if a.DeletionTimestamp != nil || a.Status.Attached {
		return 0, nil
	}
	m, ok := s.kubelet(a.Spec.NodeName)
	if !ok {
		return 5 * time.Second, nil // not of ours, or not known yet
	}
	if !m.present || m.instance.State != stateRunning {
		return time.Second, nil
	}
	body := patch(map[string]any{
		"metadata": map[string]any{"uid": a.UID},
		"status":   map[string]any{"attached": true, "attachError": nil},
	})
	_, err = s.Client.StorageV1().VolumeAttachments().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	return 0, ignoreNotFound(err)
}

// attached says whether all CSI volumes of a pod are attached to its node, as a kubelet waits for.
func (s *Simulator) attached(ctx context.Context, p *corev1.Pod) (bool, error) {
	for _, v := range p.Spec.Volumes {
		claim := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			claim = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			claim = p.Name + "-" + v.Name
		default:
			continue
		}
		pvc, err := s.Client.CoreV1().PersistentVolumeClaims(p.Namespace).Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if pvc.Spec.VolumeName == "" {
			return false, nil
		}
		pv, err := s.Client.CoreV1().PersistentVolumes().Get(ctx, pvc.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if pv.Spec.CSI == nil {
			continue // such as a folder of the host: nothing to attach
		}
		there, err := s.attachment(pv.Name, p.Spec.NodeName)
		if err != nil || !there {
			return false, err
		}
	}
	return true, nil
}

func (s *Simulator) attachment(volume, node string) (bool, error) {
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
