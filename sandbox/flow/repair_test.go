package flow_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/reboot"
)

// V15-35 to V15-42: a reboot that was asked for is brought to its end, although nodes are not repaired
// now. Its pod leaves, waits, and runs there again: no node is bought meanwhile.
func TestV15_35_ARebootRunsToItsEnd(t *testing.T) {
	t.Parallel()
	f := newFlow(t, calm)
	f.pool("", types("m5.large"))
	f.deploy("inflate", 1, requests("500m", "512Mi"))
	f.running("inflate", 1)
	claim := f.ready(1)[0]
	before := f.nodes()[0].Status.NodeInfo.BootID
	f.requestReboot(&claim)
	f.claim("is rebooted", func(c *karpv1.NodeClaim) bool {
		if c.Name != claim.Name {
			t.Errorf("%s was bought although the node comes back", c.Name)
		}
		found := condition.Find(c.Status.Conditions, karpv1.ConditionRebooting)
		return found != nil && found.Status == metav1.ConditionFalse && found.Reason == reboot.Over
	})
	f.ready(1)
	f.running("inflate", 1)
	n := f.nodes()[0]
	if n.Status.NodeInfo.BootID == before || n.Labels[karpv1.LabelInitialized] != "true" {
		t.Errorf("boot %s, labels %v", n.Status.NodeInfo.BootID, n.Labels)
	}
	for _, taint := range n.Spec.Taints {
		if taint.Key == karpv1.TaintKeyRebooting {
			t.Error("the taint is still there")
		}
	}
	f.unheld()
}

// requestReboot asks for a reboot as repair does.
func (f *flow) requestReboot(claim *karpv1.NodeClaim) {
	f.Helper()
	want, ok := reboot.Request(claim, new(10*time.Second), "Sandbox=True (Asked)", time.Now())
	if !ok {
		f.Fatal("the claim cannot be rebooted")
	}
	patch(f, claim, func(c *karpv1.NodeClaim) { c.Annotations = want.Annotations })
	old := claim.DeepCopy()
	claim.Status.Conditions = want.Status.Conditions
	if err := kube.Status().Patch(f.Context(), claim, client.MergeFrom(old)); err != nil {
		f.Fatal(err)
	}
}
