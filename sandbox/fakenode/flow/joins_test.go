package flow_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

// B04: two Nodes carry one provider id. The second goes when the fault ends.
func TestFaultJoinTwice(t *testing.T) {
	t.Parallel()
	i := aws.newRunningInstance("twice")
	injectFault(t, i, fakenode.Fault{JoinTwice: true})
	launch(t, i)
	duplicate := i
	duplicate.PrivateDNS = "twin-" + i.PrivateDNS
	first, second := node(t, i, "usable", isUsable), node(t, duplicate, "usable", isUsable)
	if first.Spec.ProviderID != second.Spec.ProviderID || second.Labels["karpenter.sh/nodepool"] != "default" {
		t.Errorf("provider ids %s and %s, labels %v", first.Spec.ProviderID, second.Spec.ProviderID, second.Labels)
	}
	waitForLease(t, duplicate, "there", func(*coordinationv1.Lease) bool { return true })
	simulator.Faults().Clear(t.Name())
	waitUntilGone(t, client.CoreV1().RESTClient(), &corev1.Node{}, "nodes", "", duplicate.PrivateDNS)
	node(t, i, "still usable", isUsable)
}

// Both Nodes of an instance go with it.
func TestBothNodesGo(t *testing.T) {
	t.Parallel()
	i := aws.newRunningInstance("both")
	injectFault(t, i, fakenode.Fault{JoinTwice: true})
	launch(t, i)
	duplicate := i
	duplicate.PrivateDNS = "twin-" + i.PrivateDNS
	node(t, duplicate, "usable", isUsable)
	aws.editInstances(func() { delete(aws.instances, i.ID) })
	waitUntilGone(t, client.CoreV1().RESTClient(), &corev1.Node{}, "nodes", "", i.PrivateDNS)
	waitUntilGone(t, client.CoreV1().RESTClient(), &corev1.Node{}, "nodes", "", duplicate.PrivateDNS)
}

// B17: a Node that was deleted while its instance runs comes back, with all that belongs to it.
func TestFaultRejoin(t *testing.T) {
	t.Parallel()
	i := aws.newRunningInstance("again")
	injectFault(t, i, fakenode.Fault{Rejoin: true})
	launch(t, i)
	first := node(t, i, "usable", isUsable)
	if err := client.CoreV1().Nodes().Delete(t.Context(), i.PrivateDNS, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second := node(t, i, "another one, and usable", func(n *corev1.Node) bool { return n.UID != first.UID && isUsable(n) })
	waitForObject(t, client.StorageV1().RESTClient(), &storagev1.CSINode{}, "csinodes", "", i.PrivateDNS, "that of the new Node",
		func(c *storagev1.CSINode) bool { return c.OwnerReferences[0].UID == second.UID })
}

// B06: the provider id comes later than the Node.
func TestFaultProviderIDLate(t *testing.T) {
	t.Parallel()
	i := aws.newRunningInstance("nameless")
	injectFault(t, i, fakenode.Fault{ProviderIDLate: time.Hour})
	launch(t, i)
	n := node(t, i, "usable", isUsable)
	if n.Spec.ProviderID != "" {
		t.Errorf("provider id %q", n.Spec.ProviderID)
	}
	simulator.Faults().Clear(t.Name())
	node(t, i, "known by its provider id", func(n *corev1.Node) bool { return n.Spec.ProviderID == "aws:///us-east-1a/"+i.ID })
}

// B12: the volume driver registers later than the node.
func TestFaultCSINodeLate(t *testing.T) {
	t.Parallel()
	i := aws.newRunningInstance("driverless")
	injectFault(t, i, fakenode.Fault{CSINodeLate: time.Hour})
	launch(t, i)
	node(t, i, "usable", isUsable)
	if c, err := client.StorageV1().CSINodes().Get(t.Context(), i.PrivateDNS, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the CSINode is there, %v, or: %v", c.Spec, err)
	}
	simulator.Faults().Clear(t.Name())
	waitForObject(t, client.StorageV1().RESTClient(), &storagev1.CSINode{}, "csinodes", "", i.PrivateDNS, "there",
		func(c *storagev1.CSINode) bool { return len(c.Spec.Drivers) == 1 })
}

// B10 and node repair: a resource with the count 0, and conditions of a monitoring agent.
func TestFaultZeroAndConditions(t *testing.T) {
	t.Parallel()
	i := launch(t, aws.newRunningInstance("zero"))
	before := node(t, i, "usable", isUsable)
	condition := func(n *corev1.Node, kind corev1.NodeConditionType) (found corev1.NodeCondition) {
		for _, c := range n.Status.Conditions {
			if c.Type == kind {
				found = c
			}
		}
		return found
	}
	injectFault(t, i, fakenode.Fault{
		Zero:       []corev1.ResourceName{"nvidia.com/gpu"},
		Conditions: map[corev1.NodeConditionType]corev1.ConditionStatus{"KernelReady": corev1.ConditionFalse, corev1.NodeDiskPressure: corev1.ConditionTrue},
	})
	n := node(t, i, "broken", func(n *corev1.Node) bool {
		gpu, there := n.Status.Allocatable["nvidia.com/gpu"]
		return there && gpu.IsZero() && condition(n, "KernelReady").Status == corev1.ConditionFalse && condition(n, corev1.NodeDiskPressure).Status == corev1.ConditionTrue
	})
	if was, is := condition(before, corev1.NodeReady), condition(n, corev1.NodeReady); is.Status != corev1.ConditionTrue || !is.LastTransitionTime.Equal(&was.LastTransitionTime) {
		t.Errorf("Ready was %v and is %v", was, is)
	}
	simulator.Faults().Clear(t.Name())
	node(t, i, "whole again", func(n *corev1.Node) bool {
		gpu := n.Status.Allocatable["nvidia.com/gpu"]
		return gpu.Value() == 1 && condition(n, "KernelReady").Type == "" && condition(n, corev1.NodeDiskPressure).Status == corev1.ConditionFalse
	})
}
