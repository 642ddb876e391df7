package flow_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

// Group B of the failure modes. B01 is LC edge 17, B03 edge 2, B04 edge 3, B09 edge 18, B10 edge 4 in
// lifecycle_test.go. Not tested here: B02 and B13, which need a moment or a kubelet that the sandbox does
// not have, and B05, since emulated addresses are not used again so soon.

// FM B06: the provider id is set late.
func TestFM_B06_ProviderIDComesLate(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.nodeFault(fakenode.Fault{ProviderIDLate: 5 * time.Second})
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.ready(1)
	if n := len(f.allInstances()); n != 1 {
		t.Errorf("%d instances", n)
	}
}

// FM B07, LC-08: a startup taint that its daemon removed does not come back.
func TestFM_B07_StartupTaintDoesNotComeBack(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: "example.com/agent-not-ready", Effect: corev1.TaintEffectNoExecute}}
	})
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	node := f.nodeOf(&f.ready(1)[0])
	f.checkStays(10*time.Second, "no startup taint", func() (bool, string) {
		if err := f.kube.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
			return false, err.Error()
		}
		return !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "example.com/") }), ""
	})
}

// FM B11: a node that flaps is initialized once, and stays so. A pod that waits while it is not ready may
// have a second one, since all taints of an initialized node count.
func TestFM_B11_FlappingNode(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.nodeFault(fakenode.Fault{Flap: 3 * time.Second})
	f.pool("")
	f.deploy("inflate", 1)
	claim := f.claim("is initialized", hasCondition(karpv1.ConditionInitialized))
	f.checkStays(12*time.Second, "initialized", func() (bool, string) {
		now := karpv1.NodeClaim{}
		if err := f.kube.Get(t.Context(), client.ObjectKeyFromObject(claim), &now); err != nil {
			return false, err.Error()
		}
		return hasCondition(karpv1.ConditionInitialized)(&now) && !isDeleting(&now), sayConditions([]karpv1.NodeClaim{now})
	})
}

// FM B14, LC-40: a node has a fifth less memory than planned. The event has the numbers, and later plans know.
func TestFM_B14_LessMemoryThanPlanned(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.nodeFault(fakenode.Fault{MemoryLoss: 0.2})
	f.pool("", onlyTypes("m5.large", "m5.xlarge"))
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.event("NodeClaim", claim.Name, "FailedConsistencyCheck", "memory")
	f.waitForCondition(&claim, karpv1.ConditionConsistentStateFound, metav1.ConditionFalse, "")
}

// FM B15: the spec of a claim cannot be edited.
func TestFM_B15_ClaimsAreImmutable(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	before := claim.DeepCopy()
	claim.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
	if err := f.kube.Patch(t.Context(), &claim, client.MergeFrom(before)); !apierrors.IsInvalid(err) {
		t.Errorf("edited: %v", err)
	}
}

// FM B16: a user removes the label of the pool from a node; the node stays.
func TestFM_B16_PoolLabelIsRemoved(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	patch(f, f.nodeOf(&claim), func(n *corev1.Node) { delete(n.Labels, karpv1.LabelNodePool) })
	f.checkStays(10*time.Second, "the claim", func() (bool, string) {
		c := f.claims()
		return len(c) == 1 && !isDeleting(&c[0]), sayConditions(c)
	})
	patch(f, f.nodeOf(&claim), func(n *corev1.Node) { n.Labels[karpv1.LabelNodePool] = f.name })
}

// FM B17: the kubelet of a node that was deleted registers it again. The claim does not come back to life.
func TestFM_B17_NodeIsDeletedAndRegistersAgain(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.nodeFault(fakenode.Fault{Rejoin: true})
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	f.remove(f.nodeOf(&claim))
	f.waitUntilGone(&claim)
	f.waitForRunningPods("inflate", 1)
}

// FM B12: the volume driver registers late; pods without volumes do not wait for it.
func TestFM_B12_VolumeDriverIsLate(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.nodeFault(fakenode.Fault{CSINodeLate: 10 * time.Second})
	f.pool("")
	f.deploy("inflate", 1)
	f.waitForRunningPods("inflate", 1)
	f.ready(1)
}
