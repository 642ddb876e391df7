package world

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// Names of the add-on for EBS volumes.
const (
	ebsDriver      = "ebs.csi.aws.com"
	driverName     = "ebs-csi-node"
	driverImage    = "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.54.0"
	registrarImage = "public.ecr.aws/csi-components/csi-node-driver-registrar:v2.15.0"
	probeImage     = "public.ecr.aws/csi-components/livenessprobe:v2.17.0"
)

// installDriver makes what the add-on for EBS volumes puts on every node, so that nodes have the overhead of a real
// cluster. Its pods run nothing: the simulated nodes do the work of the driver. What is there stays as it is.
func (w *World) installDriver(ctx context.Context, o Options) error {
	if !o.Driver {
		return nil
	}
	client, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		return err
	}
	var errs []error
	made := func(err error) {
		if !apierrors.IsAlreadyExists(err) {
			errs = append(errs, err)
		}
	}
	_, err = client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: ebsDriver},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: new(true), PodInfoOnMount: new(false)},
	}, metav1.CreateOptions{})
	made(err)
	_, err = client.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: driverName + "-sa"},
	}, metav1.CreateOptions{})
	made(err)
	_, err = client.AppsV1().DaemonSets(metav1.NamespaceSystem).Create(ctx, driverDaemonSet(), metav1.CreateOptions{})
	made(err)
	return errors.Join(errs...)
}

// driverDaemonSet requests what the add-on does, and goes where it goes.
func driverDaemonSet() *appsv1.DaemonSet {
	selector := map[string]string{"app": driverName, "app.kubernetes.io/name": "aws-ebs-csi-driver"}
	container := func(name, image string) corev1.Container {
		return corev1.Container{Name: name, Image: image, Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("40Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		}}
	}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: driverName, Labels: selector},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("10%"))},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec: corev1.PodSpec{
					ServiceAccountName: driverName + "-sa", PriorityClassName: "system-node-critical", TerminationGracePeriodSeconds: new(int64(30)),
					NodeSelector: map[string]string{corev1.LabelOSStable: string(corev1.Linux)},
					Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
						NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
							{Key: "eks.amazonaws.com/compute-type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"fargate", "auto", "hybrid"}},
						}}},
					}}},
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers: []corev1.Container{
						container("ebs-plugin", driverImage), container("node-driver-registrar", registrarImage), container("liveness-probe", probeImage),
					},
				},
			},
		},
	}
}
