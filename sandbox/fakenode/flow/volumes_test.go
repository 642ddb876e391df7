package flow_test

import (
	"context"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

func storageClass(t *testing.T, name string, mode storagev1.VolumeBindingMode) {
	t.Helper()
	_, err := client.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: &mode,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.StorageV1().StorageClasses().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
	})
}

func claimOf(class string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// attachmentTo returns the name of what attaches a volume to a node.
func attachmentTo(t *testing.T, node, volume string) string {
	t.Helper()
	list, err := client.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list.Items {
		if a.Spec.NodeName == node && *a.Spec.Source.PersistentVolumeName == volume && a.Status.Attached {
			return a.Name
		}
	}
	t.Fatalf("no attachment of %s to %s in %v", volume, node, list.Items)
	return ""
}

// A StatefulSet gets a volume in the zone of its node, keeps it when the pod moves, and leaves none
// behind. Detaching takes as long as the fault says.
func TestTrust_D03_DynamicVolume(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "dynamic")
	storageClass(t, ns, storagev1.VolumeBindingWaitForFirstConsumer)
	i := aws.newRunningInstance("dynamic")
	i.Zone = "us-east-1b"
	launch(t, i)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), ServiceName: "db", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "dynamic"}},
			Template: podTemplate("dynamic", map[string]string{fakenode.StopAfterAnnotation: "0s"}), VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claimOf(ns)},
		},
	}
	if _, err := client.AppsV1().StatefulSets(ns).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := pod(t, ns, "db-0", "ready", ready)
	claim := waitForObject(t, client.CoreV1().RESTClient(), &corev1.PersistentVolumeClaim{}, "persistentvolumeclaims", ns, "data-db-0", "bound",
		func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound })
	volume, err := client.CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	term := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	if term.Key != "topology.ebs.csi.aws.com/zone" || term.Values[0] != "us-east-1b" || volume.Spec.CSI.Driver != "ebs.csi.aws.com" {
		t.Errorf("the volume is for %v", term)
	}
	attachment := attachmentTo(t, i.PrivateDNS, volume.Name)

	// J01: the pod moves, and waits for the volume that is slow to detach.
	injectFault(t, i, fakenode.Fault{DetachLate: time.Hour})
	other := aws.newRunningInstance("dynamic")
	other.Zone = "us-east-1b"
	launch(t, other)
	node(t, other, "usable", isUsable)
	elsewhere := aws.newRunningInstance("dynamic") // in another zone, where the volume cannot go
	launch(t, elsewhere)
	node(t, elsewhere, "usable", isUsable)
	cordonNode(t, i)
	if err := client.CoreV1().Pods(ns).Delete(t.Context(), "db-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	pod(t, ns, "db-0", "on the other node", func(n *corev1.Pod) bool { return n.UID != p.UID && n.Spec.NodeName == other.PrivateDNS })
	waitForObject(t, client.StorageV1().RESTClient(), &storagev1.VolumeAttachment{}, "volumeattachments", "", attachment, "being detached",
		func(a *storagev1.VolumeAttachment) bool { return a.DeletionTimestamp != nil })
	if n, err := client.CoreV1().Pods(ns).Get(t.Context(), "db-0", metav1.GetOptions{}); err != nil || ready(n) {
		t.Errorf("it runs before its volume is there, or: %v", err)
	}
	simulator.Faults().Clear(t.Name())
	waitUntilGone(t, client.StorageV1().RESTClient(), &storagev1.VolumeAttachment{}, "volumeattachments", "", attachment)
	pod(t, ns, "db-0", "ready on the other node", ready)

	if err := client.AppsV1().StatefulSets(ns).Delete(t.Context(), "db", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitUntilGone(t, client.CoreV1().RESTClient(), &corev1.Pod{}, "pods", ns, "db-0")
	if err := client.CoreV1().PersistentVolumeClaims(ns).Delete(t.Context(), "data-db-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitUntilGone(t, client.CoreV1().RESTClient(), &corev1.PersistentVolume{}, "persistentvolumes", "", volume.Name)
	want := []string{"create us-east-1b 1 for data-db-0", "attach " + i.ID, "detach", "attach " + other.ID, "delete"}
	if got := disks.callsOfVolume(volume.Spec.CSI.VolumeHandle); !slices.Equal(got, want) {
		t.Errorf("the driver requested %q of the cloud, want %q", got, want)
	}
}

func cordonNode(t *testing.T, i fakenode.Instance) {
	t.Helper()
	n, err := client.CoreV1().Nodes().Get(t.Context(), i.PrivateDNS, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Spec.Unschedulable = true
	if _, err := client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A class that does not wait gets its volume before there is a pod.
func TestImmediateVolume(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "immediate")
	storageClass(t, ns, storagev1.VolumeBindingImmediate)
	claim := claimOf(ns)
	if _, err := client.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), &claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForObject(t, client.CoreV1().RESTClient(), &corev1.PersistentVolumeClaim{}, "persistentvolumeclaims", ns, "data", "bound",
		func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound })
}

// J02: a kubelet that is dead never says that it is done with a volume, and the volume stays attached.
func TestVolumeOfDeadKubelet(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t, "stuck")
	storageClass(t, ns, storagev1.VolumeBindingWaitForFirstConsumer)
	i := launch(t, aws.newRunningInstance("stuck"))
	claim := claimOf(ns)
	if _, err := client.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), &claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	createPod(t, ns, "db", "stuck", nil, func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	})
	pod(t, ns, "db", "ready", ready)
	bound, err := client.CoreV1().PersistentVolumeClaims(ns).Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	attachment := attachmentTo(t, i.PrivateDNS, bound.Spec.VolumeName)
	node(t, i, "with a volume in use", func(n *corev1.Node) bool { return len(n.Status.VolumesInUse) == 1 })
	injectFault(t, i, fakenode.Fault{Dead: true})
	waitWhy(t, i)
	if err := client.CoreV1().Pods(ns).Delete(t.Context(), "db", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	waitUntilGone(t, client.CoreV1().RESTClient(), &corev1.Pod{}, "pods", ns, "db")
	later := launch(t, aws.newRunningInstance("stuck")) // some seconds pass
	node(t, later, "usable", isUsable)
	if a, err := client.StorageV1().VolumeAttachments().Get(t.Context(), attachment, metav1.GetOptions{}); err != nil || a.DeletionTimestamp != nil {
		t.Errorf("the volume is detached: %v", err)
	}
	simulator.Faults().Clear(t.Name())
	waitUntilGone(t, client.StorageV1().RESTClient(), &storagev1.VolumeAttachment{}, "volumeattachments", "", attachment)
}
