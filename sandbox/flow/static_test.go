package flow_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/sandbox/apiproxy"
)

// staticPools lets pools have a fixed size.
const staticPools = "--feature-gates=StaticCapacity=true"

// withReplicas gives a pool a size and a limit.
func withReplicas(replicas int64, limit string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		p.Spec.Replicas, p.Spec.Limits = &replicas, corev1.ResourceList{karpv1.LimitNodes: resource.MustParse(limit)}
		p.Spec.Disruption = karpv1.Disruption{}
	}
}

func setReplicas(replicas int64) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) { p.Spec.Replicas = &replicas }
}

// LC-46, LC-47, FM M02: a pool of fixed size grows, shrinks and grows again while its nodes drift, and never
// has more claims than its limit.
func TestLC46_APoolOfFixedSize(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	p := f.pool("", onlyTypes("m5.large"), withReplicas(3, "4"))
	within := func() {
		if n := len(f.claims()); n > 4 {
			t.Errorf("%d claims, the limit is 4", n)
		}
	}
	f.ready(3)
	within()
	f.patchPool(p, setReplicas(1), func(p *karpv1.NodePool) {
		p.Spec.Template.ObjectMeta.Labels = map[string]string{"example.com/team": "b"}
	})
	f.waitUntil(soon, "one claim is left, as the template now says", func() (bool, string) {
		within()
		list := f.claims()
		return len(list) == 1 && list[0].Labels["example.com/team"] == "b" && list[0].DeletionTimestamp == nil, sayConditions(list)
	})
	f.patchPool(p, setReplicas(3))
	f.ready(3)
	within()
}

// G13, FM K01: a drain that a budget holds forever says so on the claim and on the node; it goes on when the
// budget is mended.
func TestG13_ADrainThatCannotEndSaysWhy(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	f.pool("", onlyTypes("m5.large"))
	f.deploy("inflate", 1, withRequests("500m", "512Mi"))
	f.waitForRunningPods("inflate", 1)
	claim := f.ready(1)[0]
	budget := f.createPodDisruptionBudget("inflate", 0)
	node := f.nodeOf(&claim)
	f.remove(&claim)
	const want = "can never allow an eviction: maxUnavailable is 0"
	f.claim("says what its drain waits for", func(c *karpv1.NodeClaim) bool {
		d := condition.Find(c.Status.Conditions, karpv1.ConditionDrained)
		return c.Name == claim.Name && d != nil && d.Status == metav1.ConditionUnknown && strings.Contains(d.Message, want)
	})
	f.event("Node", node.Name, "FailedDraining", want, soon)
	f.remove(budget)
	f.waitUntilGone(&claim, 2*time.Minute+soon)
}

// FM M01, crash matrix 19: the controller dies while it makes the claims of a pool; in the end there are
// exactly as many as the pool wants.
func TestFM_M01_CrashWhileAPoolGrows(t *testing.T) {
	t.Parallel()
	f := newFlow(t, killsController)
	fired := f.killAt(apiproxy.Match{Verb: "create", Resource: "nodeclaims", Body: f.name}, apiproxy.BeforeResponse)
	f.pool("", onlyTypes("m5.large"), withReplicas(4, "6"))
	f.waitUntilKilled(fired)
	f.waitUntil(restartLimit, "four claims are ready", func() (bool, string) {
		list := f.claims()
		ready := 0
		for i := range list {
			if hasCondition(karpv1.ConditionInitialized)(&list[i]) {
				ready++
			}
		}
		return ready == 4 && len(list) == 4, sayConditions(list)
	})
}
