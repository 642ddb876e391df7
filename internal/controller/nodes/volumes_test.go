package nodes_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
)

func attached(name string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.VolumeAttachmentSpec{NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv-1")}},
	}
}

// deletions counts what is deleted, by kind and name.
func deletions(counts map[string]int) interceptor.Funcs {
	return interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
		switch obj.(type) {
		case *storagev1.VolumeAttachment:
			counts["attachment"]++
		case *corev1.Pod:
			counts["pod"]++
		}
		return c.Delete(ctx, obj, opts...)
	}}
}

// FM J02: volumes hold the instance until the deadline of the claim. Then it is ended with the volume on it;
// the VolumeAttachment is not ours to delete, also not when the node goes: Kubernetes waits six minutes
// before it attaches the volume elsewhere, and it knows why.
func TestFM_J02_ForcedWithAVolumeOn(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	claim := endClaimObject(func(c *karpv1.NodeClaim) { c.Spec.TerminationGracePeriod = "10m" })
	w := newWorld(t, deletions(counts), endNodeObject(), claim, attached("csi-1"))
	w.delete(endNodeObject())
	w.pass() // deletes the claim
	w.pass()
	for range 9 {
		w.clock = w.clock.Add(time.Minute)
		w.pass()
	}
	if w.cloud.terminated != 0 {
		t.Fatal("the instance was ended before the deadline, with a volume on it")
	}
	w.clock = w.clock.Add(2 * time.Minute)
	w.pass()
	if w.cloud.terminated != 1 {
		t.Fatalf("instance ended %d times after the deadline, want once", w.cloud.terminated)
	}
	w.cloud.alive = false
	for range 5 {
		w.clock = w.clock.Add(10 * time.Second)
		w.pass()
	}
	if w.has("n", &corev1.Node{}) {
		t.Error("the node is still there")
	}
	if !w.has("csi-1", &storagev1.VolumeAttachment{}) || counts["attachment"] > 0 {
		t.Error("the VolumeAttachment was deleted")
	}
}

// FM J04: a pod that has a volume and takes its time to end is waited for, so that no node attaches the volume
// elsewhere meanwhile: it is not deleted a second time or by force, and the instance stays until both are
// gone.
func TestFM_J04_OldPodEndsFirst(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	volume := attached("csi-1")
	old := endPod("db-0", func(p *corev1.Pod) {
		p.Finalizers = []string{"example.com/slow"} // stands for the kubelet that has not said that it is done
		p.Spec.TerminationGracePeriodSeconds = new(int64(600))
		p.DeletionTimestamp = new(metav1.NewTime(time.Now().Add(10 * time.Minute)))
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "db"}}
	})
	w := newWorld(t, deletions(counts), endNodeObject(), endClaimObject(), volume, old)
	w.delete(endNodeObject())
	for range 9 {
		w.pass()
		w.clock = w.clock.Add(time.Minute)
	}
	if !w.has("db-0", &corev1.Pod{}) || counts["pod"] > 0 || w.queue.Len() > 0 {
		t.Errorf("the pod was deleted %d times while it ends, %d are to be evicted; want it left alone", counts["pod"], w.queue.Len())
	}
	if got := w.mark(karpv1.ConditionDrained); got != "Unknown/Draining" || w.cloud.terminated != 0 {
		t.Fatalf("Drained is %s, instance ended %d times; want it to wait", got, w.cloud.terminated)
	}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(old), old); err != nil {
		t.Fatal(err)
	}
	old.Finalizers = nil
	if err := w.client.Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	w.clock = w.clock.Add(5 * time.Second)
	w.pass()
	if got := w.mark(karpv1.ConditionVolumesDetached); got != "Unknown/AwaitingVolumeDetachment" || w.cloud.terminated != 0 {
		t.Fatalf("VolumesDetached is %s, instance ended %d times; want it to wait for the volume", got, w.cloud.terminated)
	}
	w.delete(volume)
	w.clock = w.clock.Add(5 * time.Second)
	w.pass()
	w.pass()
	if w.cloud.terminated != 1 {
		t.Errorf("instance ended %d times after the volume was detached, want once", w.cloud.terminated)
	}
}
