package world

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// clusterDNS is the tenth address of the Services of the control plane, as everywhere.
const clusterDNS = "10.100.0.10"

// installDNS makes the Service that every cluster of EKS is born with, and that gives a controller the address of the
// cluster DNS. Nothing responds there. One that is there stays as it is: a user may have changed it.
func (w *World) installDNS(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(w.ControlPlane.Config)
	if err != nil {
		return err
	}
	services := client.CoreV1().Services(metav1.NamespaceSystem)
	// Checked first: an address that is in use, if only by the Service itself, is rejected before the name is checked.
	if _, err := services.Get(ctx, "kube-dns", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	port := func(name string, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Protocol: protocol, Port: 53, TargetPort: intstr.FromInt32(53)}
	}
	labels := map[string]string{"k8s-app": "kube-dns"}
	_, err = services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-dns", Labels: labels},
		Spec:       corev1.ServiceSpec{ClusterIP: clusterDNS, Selector: labels, Ports: []corev1.ServicePort{port("dns", corev1.ProtocolUDP), port("dns-tcp", corev1.ProtocolTCP)}},
	}, metav1.CreateOptions{})
	return err
}

// CutDNS ends the DNS of the cluster, as if it ran on nodes that are gone: pods that use it find no name from then on, if
// they start after it. Pods with the DNS of their machine do. Mend brings it back.
func (w *World) CutDNS() (mend func()) {
	w.noDNS.Store(true)
	return func() { w.noDNS.Store(false) }
}

// canResolveAWS reports whether a pod with a DNS policy finds the names of AWS.
func (w *World) canResolveAWS(policy corev1.DNSPolicy) bool {
	return !w.noDNS.Load() || policy == corev1.DNSDefault || policy == corev1.DNSNone
}
