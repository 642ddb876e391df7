package flow_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/reboot"
	"github.com/dovetail-sh/dovetail/sandbox/world"
)

// V15-35 to V15-42: a reboot that was requested is brought to its end, although nodes are not repaired
// now. Its pod leaves, waits, and runs there again: no node is launched meanwhile.
func TestV15_35_ARebootRunsToItsEnd(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"))
	f.deploy("inflate", 1, withRequests("500m", "512Mi"))
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	before := f.nodes()[0].Status.NodeInfo.BootID
	f.requestReboot(&claim)
	f.claim("is rebooted", func(c *karpv1.NodeClaim) bool {
		if c.Name != claim.Name {
			t.Errorf("%s was launched although the node comes back", c.Name)
		}
		found := condition.Find(c.Status.Conditions, karpv1.ConditionRebooting)
		return found != nil && found.Status == metav1.ConditionFalse && found.Reason == reboot.Over
	})
	f.ready(1)
	f.waitForRunningPods("inflate", 1)
	n := f.nodes()[0]
	if n.Status.NodeInfo.BootID == before || n.Labels[karpv1.LabelInitialized] != "true" {
		t.Errorf("boot %s, labels %v", n.Status.NodeInfo.BootID, n.Labels)
	}
	for _, taint := range n.Spec.Taints {
		if taint.Key == karpv1.TaintKeyRebooting {
			t.Error("the taint is still there")
		}
	}
	f.waitUntilReleased()
}

// V15-25, V15-27, V15-29, V15-67, LC-17, LC-41, LC-42, LC-43: while all nodes of a pool are called unhealthy by their monitoring
// agent none is repaired, and that is said. When it is one of two, it is replaced: the new one is up before the old
// one goes. Conditions have to last half an hour, so the nodes are made older than they are.
func TestV15_27_AnUnhealthyNodeIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFlow(t, exclusive)
	f.stopController()
	own, err := f.world.RunController(f.Context(), world.ControllerOptions{
		Binary: binary, Proxied: true, Restart: true, Log: f.name + ".log", Flags: []string{"--log-level=debug", "--feature-gates=NodeRepair=true"},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.own = own
	f.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	f.pool("", onlyTypes("m5.large"))
	f.deploy("inflate", 2, withRequests("1500m", "2Gi"))
	f.waitForRunningPods("inflate", 2)
	both := f.ready(2)
	for i := range both {
		f.setUnhealthyCondition(both[i].Status.NodeName, "KernelReady")
	}
	old, other := both[0], both[1]
	f.event("Node", old.Status.NodeName, "NodeRepairBlocked", "")
	f.event("NodeClaim", old.Name, "NodeRepairBlocked", "")
	f.event("NodePool", f.name, "NodeRepairBlocked", "")
	f.removeNodeCondition(f.nodeOf(&other), "KernelReady")
	f.claim("takes the place of the unhealthy node's", func(c *karpv1.NodeClaim) bool { return c.Name != old.Name && c.Name != other.Name })
	f.waitUntil(soon, "the claim of the unhealthy node is deleted", func() (bool, string) {
		for _, c := range f.claims() {
			if c.Name == old.Name && c.DeletionTimestamp == nil {
				return false, sayConditions([]karpv1.NodeClaim{c})
			}
			if c.Name == old.Name && c.Annotations[karpv1.AnnotationTerminationTimestamp] == "" {
				t.Error("the unhealthy node has no deadline")
			}
		}
		return true, ""
	})
	if !slices.ContainsFunc(f.claims(), func(c karpv1.NodeClaim) bool {
		return c.Name != old.Name && c.Name != other.Name && hasCondition(karpv1.ConditionInitialized)(&c)
	}) {
		t.Error("the unhealthy node went before another was up")
	}
	f.ready(2)
	f.waitForRunningPods("inflate", 2)
	if !f.hasLogged("selected repair policy", "KernelReady") {
		t.Error("the log does not say why")
	}
}

// removeNodeCondition takes a condition of a node away.
func (f *flow) removeNodeCondition(n *corev1.Node, kind corev1.NodeConditionType) {
	f.Helper()
	before := n.DeepCopy()
	n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
	if err := f.kube.Status().Patch(f.Context(), n, client.MergeFrom(before)); err != nil {
		f.Fatal(err)
	}
	f.waitForCache(n)
}

// setUnhealthyCondition gives a node a condition that has been so for an hour, and makes the node older than that.
func (f *flow) setUnhealthyCondition(name string, kind corev1.NodeConditionType) {
	f.Helper()
	info, _ := runtime.SerializerInfoForMediaType(clientgoscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	err := f.world.ControlPlane.Rewrite(f.Context(), "/registry/minions/"+name, func(stored []byte) ([]byte, error) {
		n := &corev1.Node{}
		if _, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(stored, nil, n); err != nil {
			return nil, err
		}
		n.CreationTimestamp = metav1.NewTime(time.Now().Add(-2 * time.Hour))
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: "Sandbox", LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
		})
		return runtime.Encode(clientgoscheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), n)
	})
	if err != nil {
		f.Fatal(err)
	}
}

// requestReboot requests a reboot as repair does.
func (f *flow) requestReboot(claim *karpv1.NodeClaim) {
	f.Helper()
	want, ok := reboot.Request(claim, new(10*time.Second), "Sandbox=True (Asked)", time.Now())
	if !ok {
		f.Fatal("the claim cannot be rebooted")
	}
	patch(f, claim, func(c *karpv1.NodeClaim) { c.Annotations = want.Annotations })
	old := claim.DeepCopy()
	claim.Status.Conditions = want.Status.Conditions
	if err := f.kube.Status().Patch(f.Context(), claim, client.MergeFrom(old)); err != nil {
		f.Fatal(err)
	}
	f.waitForCache(claim)
}
