package sim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

const (
	disks       = "ebs.csi.aws.com" // the driver of all volumes
	diskClass   = "disks"
	forceDetach = 6 * time.Minute // Kubernetes waits no longer for a node that is not ready
	bindDone    = "pv.kubernetes.io/bind-completed"
)

// storageClass provisions a volume in the zone of the first pod that needs it.
func storageClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: diskClass}, Provisioner: disks, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

// publish says how many volumes a machine can have.
func (w *World) publish(node *corev1.Node) {
	if !w.stores {
		return
	}
	driver := storagev1.CSINodeDriver{Name: disks, NodeID: node.Name}
	if w.config.Attachable > 0 {
		driver.Allocatable = &storagev1.VolumeNodeResources{Count: new(w.config.Attachable)}
	}
	w.api.put(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver}}})
}

// fillSet keeps the pods of a deployment with volumes, as a StatefulSet does: each has a name and claims
// that its successor has again, and a successor comes when it is gone.
func (w *World) fillSet(d *deployment) {
	for _, p := range w.live(d) {
		if n := 0; scan(p.Name, d.Name, &n) && n >= d.Replicas {
			w.endPod(p, time.Duration(d.Grace)*time.Second)
		}
	}
	for n := range d.Replicas {
		name := fmt.Sprintf("%s-%d", d.Name, n)
		if w.api.pods[name] != nil {
			continue
		}
		p := w.podOf(d)
		p.Name, p.OwnerReferences[0].Kind = name, "StatefulSet"
		for i := range d.Volumes {
			claim := fmt.Sprintf("disk%d-%s", i, name)
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
				Name: fmt.Sprintf("disk%d", i), VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}},
			})
			if stored[*corev1.PersistentVolumeClaim](w.api, claim) == nil {
				w.api.put(&corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim, UID: w.api.uid("pvc")},
					Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: new(diskClass)},
					Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
				})
			}
		}
		d.pods[p.Name] = true
		w.api.put(p)
	}
}

func scan(name, app string, n *int) bool {
	read, err := fmt.Sscanf(name, app+"-%d", n)
	return err == nil && read == 1
}

// claimsOf lists the volume claims of a pod.
func (w *World) claimsOf(p *corev1.Pod) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for _, key := range drain.PodClaims(p) {
		if claim := stored[*corev1.PersistentVolumeClaim](w.api, key.Name); claim != nil {
			out = append(out, claim)
		}
	}
	return out
}

// volumesOf names the volumes of a pod that are made.
func (w *World) volumesOf(p *corev1.Pod) []string {
	var out []string
	for _, claim := range w.claimsOf(p) {
		if claim.Spec.VolumeName != "" {
			out = append(out, claim.Spec.VolumeName)
		}
	}
	return out
}

// zoneOf is where a volume is.
func (w *World) zoneOf(volume string) string {
	return stored[*corev1.PersistentVolume](w.api, volume).Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
}

// reachable reports whether a node can have the volumes of a pod: it is where they are, and has slots left.
func (w *World) reachable(p *corev1.Pod, node *corev1.Node) bool {
	mine := w.claimsOf(p)
	if len(mine) == 0 {
		return true
	}
	for _, volume := range w.volumesOf(p) {
		if w.zoneOf(volume) != node.Labels[corev1.LabelTopologyZone] {
			return false
		}
	}
	if w.config.Attachable == 0 {
		return true
	}
	count := len(mine)
	for name := range w.api.onNode[node.Name] {
		count += len(w.api.pods[name].Spec.Volumes)
	}
	return count <= int(w.config.Attachable)
}

// provide makes the volumes of a pod that is about to be bound and has none yet.
func (w *World) provide(p *corev1.Pod, node string) {
	zone := ""
	if n := w.api.nodes[node]; n != nil {
		zone = n.Labels[corev1.LabelTopologyZone]
	}
	for _, claim := range w.claimsOf(p) {
		if claim.Spec.VolumeName != "" {
			continue
		}
		w.api.put(&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + claim.Name, UID: w.api.uid("pv")},
			Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: disks, VolumeHandle: claim.Name}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: awsv1.LabelEBSZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
				}}}},
			},
		})
		next := claim.DeepCopy()
		next.Spec.VolumeName, next.Status.Phase = "pv-"+claim.Name, corev1.ClaimBound
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, bindDone, "yes")
		w.api.put(next)
	}
}

// mount attaches the volumes of a pod that came to a node, and takes off those of one that is gone.
func (w *World) mount(p *corev1.Pod, before interface{ GetName() string }, gone bool) {
	if p.Spec.NodeName == "" {
		return
	}
	old, _ := before.(*corev1.Pod)
	for _, volume := range w.volumesOf(p) {
		switch {
		case gone:
			w.after(w.between(time.Second, w.config.Detach), func() { w.detach(volume, p.Spec.NodeName, false) })
		case old == nil || old.Spec.NodeName == "":
			w.after(w.between(2*time.Second, 12*time.Second), func() { w.attach(volume, p.Name, p.UID) })
		}
	}
}

func attachment(volume, node string) string { return volume + "@" + node }

// attach puts a volume on the node of a pod, once no other node has it.
func (w *World) attach(volume, pod string, uid types.UID) {
	p := w.api.pods[pod]
	if p == nil || p.UID != uid {
		return
	}
	for _, obj := range w.api.all(attachments) {
		if a := obj.(*storagev1.VolumeAttachment); *a.Spec.Source.PersistentVolumeName == volume {
			if a.Spec.NodeName != p.Spec.NodeName {
				w.after(5*time.Second, func() { w.attach(volume, pod, uid) })
			}
			return
		}
	}
	w.api.put(&storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachment(volume, p.Spec.NodeName)},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: disks, NodeName: p.Spec.NodeName, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
		Status:     storagev1.VolumeAttachmentStatus{Attached: true},
	})
}

// detach detaches a volume from a node without pods that use it.
func (w *World) detach(volume, name string, forced bool) {
	a := stored[*storagev1.VolumeAttachment](w.api, attachment(volume, name))
	if a == nil || slices.ContainsFunc(w.api.podsOn(name), func(p *corev1.Pod) bool { return slices.Contains(w.volumesOf(p), volume) }) {
		return
	}
	node := w.api.nodes[name]
	runs := node != nil && w.market.byID[node.Spec.ProviderID] != nil
	switch until := w.sticking[volume]; {
	case runs && w.now.Before(until):
		w.after(10*time.Second, func() { w.detach(volume, name, forced) })
	case runs && !cluster.NodeReady(node) && !forced:
		w.after(forceDetach, func() { w.detach(volume, name, true) })
	default:
		w.stats.Detached++
		w.api.drop(a)
	}
}

// attached reports whether all volumes of a pod are on its node.
func (w *World) attached(p *corev1.Pod) bool {
	for _, volume := range w.volumesOf(p) {
		if stored[*storagev1.VolumeAttachment](w.api, attachment(volume, p.Spec.NodeName)) == nil {
			return false
		}
	}
	return true
}

// delayDetach has some volume not come off for a while.
func (w *World) delayDetach() {
	if list := w.api.all(attachments); len(list) > 0 {
		volume := *list[w.rnd.IntN(len(list))].(*storagev1.VolumeAttachment).Spec.Source.PersistentVolumeName
		w.logf("fault: volume %s does not come off", volume)
		w.sticking[volume] = w.now.Add(w.between(2*time.Minute, 40*time.Minute))
	}
}
