package flow_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/sandbox/fakenode"
)

func withExpireAfter(after karpv1.Duration) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) { p.Spec.Template.Spec.ExpireAfter = after }
}

// S-006, S-013, S-025: one pool through all duties of a controller: pods that wait are seen, what they need is read, a type
// is picked and launched, nodes are consolidated, a spot node that is taken back is replaced, and so is one
// that is too old. The pods run after each of them.
func TestS_013_AllDutiesInOnePool(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool := f.pool("", onlyTypes("c6i.large", "c6i.2xlarge"), onlySpot, withBudget("100%", karpv1.ReasonEmpty, karpv1.ReasonUnderutilized), withBudget("0", karpv1.ReasonDrifted))
	zone := withNodeSelector(karpv1.LabelNodePool, f.name, corev1.LabelTopologyZone, "eu-west-1b")

	f.deploy("inflate", 1, zone, withRequests("500m", "512Mi"))
	f.waitForRunningPods("inflate", 1)
	small := f.ready(1)[0]
	large := f.deploy("large", 1, zone, withRequests("6", "8Gi"))
	f.waitForRunningPods("large", 1)
	list := f.ready(2)
	if got := typesOf(list); !slices.Equal(got, []string{"c6i.2xlarge", "c6i.large"}) {
		t.Errorf("the types are %v", got)
	}
	for i := range list { // as many pods as the type has addresses for
		want := map[string]int64{"c6i.large": 29, "c6i.2xlarge": 58}[list[i].Labels[corev1.LabelInstanceTypeStable]]
		if planned, real := list[i].Status.Capacity.Pods().Value(), f.nodeOf(&list[i]).Status.Capacity.Pods().Value(); planned != want || real != want {
			t.Errorf("%s is planned for %d pods and has room for %d, want %d", list[i].Name, planned, real, want)
		}
	}
	for _, c := range list {
		if c.Labels[corev1.LabelTopologyZone] != "eu-west-1b" || c.Labels[karpv1.LabelCapacityType] != karpv1.CapacityTypeSpot {
			t.Errorf("%s is %s in %s", c.Name, c.Labels[karpv1.LabelCapacityType], c.Labels[corev1.LabelTopologyZone])
		}
	}

	f.scale(large, 0)
	f.waitForRunningPods("large", 0)
	f.patchPool(pool, allowConsolidation) // not before, or the pods would share the large node
	one := f.ready(1)[0]
	if one.Name != small.Name {
		t.Errorf("%s is left, want the small one", typesOf(f.claims()))
	}
	f.waitForRunningPods("inflate", 1)

	f.patchPool(pool, withExpireAfter("1h"))
	f.claim("shows that the change was seen", hasCondition(karpv1.ConditionDrifted))
	f.sendSpotNotice(&one, "60s")
	f.waitUntilGone(&one)
	f.waitForRunningPods("inflate", 1)
	old := f.ready(1)[0]
	f.patchPool(pool, withExpireAfter(karpv1.Never))

	f.backdateCreation(&old, 2*time.Hour)
	f.waitUntilGone(&old, later)
	f.waitForRunningPods("inflate", 1)
	if last := f.ready(1)[0]; last.Spec.ExpireAfter != karpv1.Never {
		t.Errorf("the last node expires after %s", last.Spec.ExpireAfter)
	}
}

// FM K05: a node has expired and a budget holds its pod. However often the controller looks at that pod, which
// needs another place, one node is launched for it; and there it runs once the budget lets it go.
func TestFM_K05_OneReplacementForABlockedNode(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	pool := f.pool("", onlyTypes("m5.large"), withExpireAfter("1h"))
	f.deploy("inflate", 1)
	budget := f.createPodDisruptionBudget("inflate", 0)
	patch(f, budget, func(b *policyv1.PodDisruptionBudget) { // one that could allow it, if there were more pods
		b.Spec.MinAvailable, b.Spec.MaxUnavailable = new(intstr.FromInt32(1)), nil
	})
	f.waitForRunningPods("inflate", 1)
	old := f.ready(1)[0]
	f.patchPool(pool, withExpireAfter(karpv1.Never), withBudget("0"))
	f.backdateCreation(&old, 2*time.Hour)
	f.claim("expired", func(c *karpv1.NodeClaim) bool { return c.Name == old.Name && isDeleting(c) })
	next := f.claim("replaces it", func(c *karpv1.NodeClaim) bool {
		return c.Name != old.Name && hasCondition(karpv1.ConditionInitialized)(c)
	})
	for i := range 5 { // each pod that fits nowhere makes the controller plan anew
		name := fmt.Sprintf("nowhere-%d", i)
		f.deploy(name, 1, withRequests("40", "1Gi"))
		f.event("Pod", name, "FailedScheduling", "")
		claims := f.claims()
		if len(claims) != 2 || !slices.ContainsFunc(claims, func(c karpv1.NodeClaim) bool { return c.Name == next.Name }) {
			t.Fatalf("%d claims after %d more plans: %s", len(claims), i+1, sayConditions(claims))
		}
	}
	if state := f.stateOf(instanceOf(&old)); state != "running" {
		t.Errorf("the node that a pod holds is %s", state)
	}
	f.remove(budget)
	f.waitUntilGone(&old)
	if pod := f.waitForRunningPods("inflate", 1)[0]; pod.Spec.NodeName != next.Status.NodeName {
		t.Errorf("the pod runs on %s, not on %s, which was launched for it", pod.Spec.NodeName, next.Status.NodeName)
	}
	if n := len(f.allInstances()); n != 2 {
		t.Errorf("%d instances were launched for one pod", n)
	}
}

// FM K23: nodes of the new template never join. No more of them are launched than the budget lets go at a time,
// the old ones run on with their pods, and once it is mended the pool is brought up to date.
func TestFM_K23_ReplacementsNeverJoin(t *testing.T) {
	t.Parallel()
	f := newFlow(t, disturbsNone)
	const nodes, budget = 4, 2
	pool := f.pool("", onlyTypes("m5.large"), withBudget(fmt.Sprint(budget)))
	f.deploy("inflate", nodes)
	pods := f.waitForRunningPods("inflate", nodes)
	before := f.ready(nodes)
	old := func(c *karpv1.NodeClaim) bool {
		return slices.ContainsFunc(before, func(b karpv1.NodeClaim) bool { return b.UID == c.UID })
	}
	f.nodeFault(fakenode.Fault{NeverJoin: true})
	f.patchPool(pool, func(p *karpv1.NodePool) { p.Spec.Template.ObjectMeta.Labels = map[string]string{"image": "broken"} })

	unharmed := func() (bool, string) {
		claims := f.claims()
		held, more, gone := 0, 0, 0
		for i := range claims {
			switch c := &claims[i]; {
			case !old(c) && isDeleting(c): // given up
				gone++
			case !old(c):
				more++
			case isDeleting(c):
				return false, c.Name + " goes although nothing replaces it"
			case condition.True(c.Status.Conditions, karpv1.ConditionDisruptionReason):
				held++
			}
		}
		now := f.pods("inflate")
		same := !slices.ContainsFunc(pods, func(p corev1.Pod) bool {
			return !slices.ContainsFunc(now, func(n corev1.Pod) bool { return n.UID == p.UID && n.DeletionTimestamp == nil })
		})
		return len(claims)-more-gone == nodes && held <= budget && more <= budget && same, fmt.Sprintf("%d old nodes, %d held, %d new; pods as before: %v", len(claims)-more-gone, held, more, same)
	}
	for range 2 { // replacements that time out are given up, and others tried
		next := f.claim("is bought instead", func(c *karpv1.NodeClaim) bool {
			return !old(c) && !isDeleting(c) && hasCondition(karpv1.ConditionLaunched)(c)
		})
		f.checkStays(5*time.Second, "no more than the budget is in replacement", unharmed)
		f.backdateCondition(next, karpv1.ConditionRegistered, 16*time.Minute)
		f.waitUntil(soon, next.Name+" is given up", func() (bool, string) {
			if ok, now := unharmed(); !ok {
				t.Fatal(now)
			}
			return !slices.ContainsFunc(f.claims(), func(c karpv1.NodeClaim) bool { return c.UID == next.UID }), ""
		})
	}
}
