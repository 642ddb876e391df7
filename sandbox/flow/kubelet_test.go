package flow_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// C01: a user who may edit a NodePool cannot run arbitrary code on its nodes. The pool says which field it is and launches
// nothing; with the field gone it works, and what is left of the block reaches the node.
func TestTrust_C01_AKubeletBlockThatRunsPodsBuysNothing(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	block := func(text string) func(*karpv1.NodePool) {
		return func(p *karpv1.NodePool) { p.Spec.Template.Spec.Kubelet = &runtime.RawExtension{Raw: []byte(text)} }
	}
	pool := f.pool("", block(`{"maxPods": 20, "staticPodURL": "http://example.com/pod"}`))
	f.deploy("inflate", 1)
	f.waitUntil(soon, "the pool names the field", func() (bool, string) {
		if err := f.kube.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
			return false, err.Error()
		}
		c := condition.Find(pool.Status.Conditions, karpv1.ConditionValidationSucceeded)
		if c == nil {
			return false, "no condition"
		}
		return c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "staticPodURL"), c.Message
	})
	if n := len(f.claims()) + len(f.allInstances()); n != 0 {
		t.Errorf("%d NodeClaims and instances", n)
	}

	patch(f, pool, block(`{"maxPods": 20, "staticPodURL": null}`))
	f.waitForRunningPods("inflate", 1)
	if n := f.nodes()[0].Status.Capacity.Pods().Value(); n != 20 {
		t.Errorf("a node has room for %d pods, want 20", n)
	}
}
