package flow_test

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

const unregistered = "{key: karpenter.sh/unregistered, effect: NoExecute}"

func TestInstanceBecomesNode(t *testing.T) {
	t.Parallel()
	i := aws.newRunningInstance("joins", unregistered)
	i.State, i.Running = "pending", time.Time{}
	launch(t, i)
	i.State, i.Running = "running", time.Now()
	launch(t, i)
	n := node(t, i, "usable", isUsable)
	if took := n.CreationTimestamp.Sub(i.Running); took < bootTime-time.Second {
		t.Errorf("it registered %s after the instance ran", took)
	}
	if want := "aws:///us-east-1a/" + i.ID; n.Spec.ProviderID != want {
		t.Errorf("provider id %s, want %s", n.Spec.ProviderID, want)
	}
	for key, want := range map[string]string{
		corev1.LabelHostname: i.PrivateDNS, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
		corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelTopologyZone: "us-east-1a", corev1.LabelTopologyRegion: "us-east-1",
		"topology.k8s.aws/zone-id": "use1-az1", "karpenter.sh/nodepool": "default", "test": "joins",
	} {
		if got := n.Labels[key]; got != want {
			t.Errorf("label %s is %q, want %q", key, got, want)
		}
	}
	if !hasTaint(n, "karpenter.sh/unregistered") || len(n.Spec.Taints) != 1 {
		t.Errorf("taints %v", n.Spec.Taints)
	}
	for name, want := range map[corev1.ResourceName]string{
		"cpu": "1930m", "memory": "7530659Ki", "pods": "50", "ephemeral-storage": "17Gi", "nvidia.com/gpu": "1",
	} {
		if got := n.Status.Allocatable[name]; got.String() != want {
			t.Errorf("allocatable %s is %s, want %s", name, got.String(), want)
		}
	}
	if n.Status.NodeInfo.BootID == "" || len(n.Status.NodeInfo.BootID) != 36 {
		t.Errorf("boot id %q", n.Status.NodeInfo.BootID)
	}
	if why := simulator.Why(i.ID); why != "" {
		t.Errorf("why is %q for a node that is Ready", why)
	}
	first := waitForLease(t, i, "there", func(*coordinationv1.Lease) bool { return true })
	waitForLease(t, i, "renewed", func(l *coordinationv1.Lease) bool { return l.Spec.RenewTime.After(first.Spec.RenewTime.Time) })
	csi, err := client.StorageV1().CSINodes().Get(t.Context(), n.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d := csi.Spec.Drivers; len(d) != 1 || d[0].Name != "ebs.csi.aws.com" || d[0].NodeID != i.ID || *d[0].Allocatable.Count != 25 {
		t.Errorf("CSI drivers %v", d)
	}
}

func waitForLease(t *testing.T, i fakenode.Instance, what string, holds func(*coordinationv1.Lease) bool) *coordinationv1.Lease {
	t.Helper()
	return waitForObject(t, client.CoordinationV1().RESTClient(), &coordinationv1.Lease{}, "leases", corev1.NamespaceNodeLease, i.PrivateDNS, what, holds)
}

func TestBootstrapNodes(t *testing.T) {
	t.Parallel()
	for _, s := range fakenode.Bootstrap(2, "us-east-1") {
		n := node(t, s.Instance, "usable", isUsable)
		if n.Labels["eks.amazonaws.com/nodegroup"] != "bootstrap" || !hasTaint(n, "CriticalAddonsOnly") {
			t.Errorf("labels %v, taints %v", n.Labels, n.Spec.Taints)
		}
	}
}

// A terminated instance takes its Node with it; so does one that is not listed any more.
func TestTermination(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(fakenode.Instance){
		"terminated": func(i fakenode.Instance) { i.State = "terminated"; aws.instances[i.ID] = i },
		"not listed": func(i fakenode.Instance) { delete(aws.instances, i.ID) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := launch(t, aws.newRunningInstance("terminates"))
			node(t, i, "usable", isUsable)
			aws.editInstances(func() { end(i) })
			waitUntilGone(t, client.CoreV1().RESTClient(), &corev1.Node{}, "nodes", "", i.PrivateDNS)
		})
	}
}

// A kubelet registers once: a Node deleted by hand does not come back.
func TestNodeDeletedByHand(t *testing.T) {
	t.Parallel()
	i := launch(t, aws.newRunningInstance("by-hand"))
	node(t, i, "usable", isUsable)
	if err := client.CoreV1().Nodes().Delete(t.Context(), i.PrivateDNS, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	later := launch(t, aws.newRunningInstance("by-hand"))
	node(t, later, "usable", isUsable)
	checkAbsent(t, i, "its Node was deleted")
}

// checkAbsent checks that an instance has no Node, and why.
func checkAbsent(t *testing.T, i fakenode.Instance, why string) {
	t.Helper()
	if _, err := client.CoreV1().Nodes().Get(t.Context(), i.PrivateDNS, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Node is there, or: %v", err)
	}
	if got := simulator.Why(i.ID); !strings.Contains(got, why) {
		t.Errorf("why is %q, want %q in it", got, why)
	}
}

// What keeps an instance from joining is reported, while one launched later joins.
func TestNeverJoins(t *testing.T) {
	t.Parallel()
	garbage, stranger, faulty, refused := aws.newRunningInstance("never"), aws.newRunningInstance("never"), aws.newRunningInstance("never"), aws.newRunningInstance("never")
	garbage.UserData = []byte("garbage")
	stranger.UserData = []byte("#!/bin/sh\n/etc/eks/bootstrap.sh other")
	refused.Profile = "unknown"
	aws.editInstances(func() { aws.refused["unknown"] = true })
	injectFault(t, faulty, fakenode.Fault{NeverJoin: true})
	for _, i := range []fakenode.Instance{garbage, stranger, faulty, refused} {
		launch(t, i)
	}
	node(t, launch(t, aws.newRunningInstance("never")), "usable", isUsable)
	checkAbsent(t, garbage, "as TOML: line 1")
	checkAbsent(t, stranger, `names the cluster "other", not "demo"`)
	checkAbsent(t, faulty, "fault")
	checkAbsent(t, refused, `no access entry for instance profile "unknown"`)

	aws.editInstances(func() { aws.refused["unknown"] = false })
	node(t, refused, "usable once it is admitted", isUsable)
	simulator.Faults().Clear(t.Name())
	node(t, faulty, "usable once the fault is over", isUsable)
}

func TestFaultJoinLate(t *testing.T) {
	t.Parallel()
	i := aws.newRunningInstance("late")
	injectFault(t, i, fakenode.Fault{JoinLate: 3 * time.Second})
	launch(t, i)
	n := node(t, i, "usable", isUsable)
	if took := n.CreationTimestamp.Sub(i.Running); took < 2*time.Second {
		t.Errorf("it registered %s after the instance ran", took)
	}
}

func TestFaultFlap(t *testing.T) {
	t.Parallel()
	i := launch(t, aws.newRunningInstance("flaps"))
	node(t, i, "usable", isUsable)
	injectFault(t, i, fakenode.Fault{Flap: time.Second})
	for range 2 {
		node(t, i, "not Ready", func(n *corev1.Node) bool { return status(n) == corev1.ConditionFalse })
		node(t, i, "Ready again", func(n *corev1.Node) bool { return status(n) == corev1.ConditionTrue })
	}
}

func TestFaultLessMemoryAndMissingResource(t *testing.T) {
	t.Parallel()
	i := aws.newRunningInstance("less")
	injectFault(t, i, fakenode.Fault{MemoryLoss: 0.08, Without: []corev1.ResourceName{"nvidia.com/gpu"}})
	launch(t, i)
	n := node(t, i, "usable", isUsable)
	if got := n.Status.Capacity.Memory().Value(); got != 8<<30*9/10/1024*1024 {
		t.Errorf("memory is %d", got)
	}
	if _, there := n.Status.Allocatable["nvidia.com/gpu"]; there {
		t.Error("the resource is there")
	}
	simulator.Faults().Clear(t.Name())
	node(t, i, "complete", func(n *corev1.Node) bool {
		gpu := n.Status.Capacity["nvidia.com/gpu"]
		return gpu.Value() == 1 && n.Status.Allocatable.Memory().String() == "7530659Ki"
	})
}

func TestFaultTaints(t *testing.T) {
	t.Parallel()
	const agent = "ebs.csi.aws.com/agent-not-ready"
	i := aws.newRunningInstance("taints", unregistered, "{key: "+agent+", effect: NoExecute}")
	injectFault(t, i, fakenode.Fault{NoUnregisteredTaint: true, StartupTaintsLate: time.Hour})
	launch(t, i)
	n := node(t, i, "usable", isUsable)
	if hasTaint(n, "karpenter.sh/unregistered") || !hasTaint(n, agent) {
		t.Errorf("taints %v", n.Spec.Taints)
	}
	simulator.Faults().Clear(t.Name())
	node(t, i, "without the startup taint", func(n *corev1.Node) bool { return !hasTaint(n, agent) })
}

func TestFaultNeverReady(t *testing.T) {
	t.Parallel()
	i := aws.newRunningInstance("unready")
	injectFault(t, i, fakenode.Fault{NeverReady: true})
	launch(t, i)
	n := node(t, i, "there", func(*corev1.Node) bool { return true })
	if status(n) != corev1.ConditionFalse || !hasTaint(n, corev1.TaintNodeNotReady) {
		t.Errorf("Ready is %s, taints %v", status(n), n.Spec.Taints)
	}
	simulator.Faults().Clear(t.Name())
	node(t, i, "usable", isUsable)
}

// The node lifecycle controller finds a kubelet that is silent, and sees it come back.
func TestFaultDeadKubelet(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the node lifecycle controller waits for most of a minute")
	}
	i := launch(t, aws.newRunningInstance("dead"))
	node(t, i, "usable", isUsable)
	injectFault(t, i, fakenode.Fault{Dead: true})
	node(t, i, "unreachable", func(n *corev1.Node) bool {
		return status(n) == corev1.ConditionUnknown && hasTaint(n, corev1.TaintNodeUnreachable)
	})
	simulator.Faults().Clear(t.Name())
	node(t, i, "usable again", func(n *corev1.Node) bool { return isUsable(n) && !hasTaint(n, corev1.TaintNodeUnreachable) })
}
