package world_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// volumeDriver has a pod with a claim run on a node, and looks at the volume from both sides.
func volumeDriver(t *testing.T, w *world.World, kube kubernetes.Interface, cloud *account, node, instance string) {
	t.Helper()
	awaitCall(t, w, func() bool {
		set, err := kube.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(t.Context(), "ebs-csi-node", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return set.Status.NumberReady == 3 // with the two of the bootstrap group
	})
	claims, pods := kube.CoreV1().PersistentVolumeClaims("default"), kube.CoreV1().Pods("default")
	_, err := claims.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Annotations: map[string]string{"sandbox.dovetail.sh/stop-after": "0s"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "main", Image: "pause"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volumes := func() []ec2types.Volume {
		out, err := cloud.ec2.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{Filters: []ec2types.Filter{
			{Name: new("tag:kubernetes.io/created-for/pvc/name"), Values: []string{"data"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Volumes
	}
	awaitCall(t, w, func() bool {
		list := volumes()
		return len(list) == 1 && *list[0].Size == 3 && len(list[0].Attachments) == 1 && *list[0].Attachments[0].InstanceId == instance
	})
	if err := pods.Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := claims.Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitCall(t, w, func() bool { return len(volumes()) == 0 })
}
