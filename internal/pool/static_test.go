package pool_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/pool"
)

var staticNow = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// fixed is a static pool that is ready.
func fixed(replicas int64, limit string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "fixed"}}
	p.Spec.Replicas = &replicas
	if limit != "" {
		p.Spec.Limits = corev1.ResourceList{karpv1.LimitNodes: resource.MustParse(limit)}
	}
	p.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue}}
	return p
}

func launched(name string, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(staticNow.Add(-time.Hour))}}
	c.Status.ProviderID = "aws:///a/" + name
	for _, f := range change {
		f(c)
	}
	return c
}

func unlaunched(c *karpv1.NodeClaim) { c.Status.ProviderID = "" }

func going(c *karpv1.NodeClaim) { c.DeletionTimestamp = new(metav1.NewTime(staticNow)) }

func disrupted(c *karpv1.NodeClaim) {
	c.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue}}
}

func replaces(names string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) { c.Annotations = map[string]string{karpv1.AnnotationReplaces: names} }
}

func reboots(c *karpv1.NodeClaim) {
	disrupted(c)
	c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: karpv1.ConditionRebooting, Status: metav1.ConditionTrue})
}

func notReadyPool(p *karpv1.NodePool) *karpv1.NodePool {
	p.Status.Conditions = nil
	return p
}

func deletingPool(p *karpv1.NodePool) *karpv1.NodePool {
	p.DeletionTimestamp = new(metav1.NewTime(staticNow))
	return p
}

// LC-46, FM M02: how many claims are made, and what keeps them from being made.
func TestLC46_ScaleUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pool   *karpv1.NodePool
		claims []*karpv1.NodeClaim
		held   []string
		want   pool.StaticStep
	}{
		"from nothing":                         {fixed(5, ""), nil, nil, pool.StaticStep{Create: 5, After: time.Minute}},
		"as many as it wants":                  {fixed(1, ""), []*karpv1.NodeClaim{launched("a")}, nil, pool.StaticStep{After: time.Minute}},
		"one is going":                         {fixed(2, ""), []*karpv1.NodeClaim{launched("a"), launched("b", going)}, nil, pool.StaticStep{Create: 1, After: time.Minute}},
		"one is being replaced":                {fixed(2, ""), []*karpv1.NodeClaim{launched("a"), launched("b")}, []string{"b"}, pool.StaticStep{After: time.Minute}},
		"so the claim says, after a restart":   {fixed(2, ""), []*karpv1.NodeClaim{launched("a"), launched("b", disrupted)}, nil, pool.StaticStep{After: time.Minute}},
		"a command has yet to order, it grows": {fixed(3, ""), []*karpv1.NodeClaim{launched("a"), launched("b")}, []string{"b"}, pool.StaticStep{Create: 1, After: time.Minute}},
		"a command has ordered, it grows":      {fixed(5, ""), []*karpv1.NodeClaim{launched("a"), launched("b"), launched("c", replaces("b"))}, []string{"b"}, pool.StaticStep{Create: 3, After: time.Minute}},
		"two nodes, one order so far":          {fixed(5, ""), []*karpv1.NodeClaim{launched("a"), launched("b"), launched("c", replaces("a"))}, []string{"a", "b"}, pool.StaticStep{Create: 3, After: time.Minute}},
		"one order for both":                   {fixed(5, ""), []*karpv1.NodeClaim{launched("a"), launched("b"), launched("c", replaces("a,b"))}, []string{"a", "b"}, pool.StaticStep{Create: 4, After: time.Minute}},
		"the replacement goes":                 {fixed(3, ""), []*karpv1.NodeClaim{launched("a"), launched("b"), launched("c", replaces("b"), going)}, []string{"b"}, pool.StaticStep{Create: 1, After: time.Minute}},
		"there is room for what it lacks":      {fixed(3, "3"), []*karpv1.NodeClaim{launched("a"), launched("b")}, []string{"b"}, pool.StaticStep{Create: 1, After: time.Minute}},
		"one reboots and comes back":           {fixed(3, ""), []*karpv1.NodeClaim{launched("a"), launched("b", reboots)}, nil, pool.StaticStep{Create: 1, After: time.Minute}},
		"the limit leaves room for some":       {fixed(5, "3"), []*karpv1.NodeClaim{launched("a")}, nil, pool.StaticStep{Create: 2, AtLimit: true, After: 30 * time.Second}},
		"those that go still count there":      {fixed(2, "2"), []*karpv1.NodeClaim{launched("a"), launched("b", going)}, nil, pool.StaticStep{AtLimit: true, After: 30 * time.Second}},
		"a limit of zero":                      {fixed(2, "0"), nil, nil, pool.StaticStep{AtLimit: true, After: 30 * time.Second}},
		"not ready":                            {notReadyPool(fixed(2, "")), nil, nil, pool.StaticStep{After: time.Minute}},
		"deleting":                             {deletingPool(fixed(2, "")), nil, nil, pool.StaticStep{After: time.Minute}},
		"not static":                           {&karpv1.NodePool{}, nil, nil, pool.StaticStep{After: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loads := map[string]cluster.ClaimLoad{}
			for _, name := range tc.held {
				loads[name] = cluster.ClaimLoad{Held: true}
			}
			got := pool.Scale(pool.StaticFacts{Pool: tc.pool, Claims: tc.claims, Loads: loads, Now: staticNow})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

// LC-47, LC-48: who goes first when a pool shrinks.
func TestLC47_ScaleDownOrder(t *testing.T) {
	t.Parallel()
	old := func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter = "2h" } // half of its life is over
	claims := []*karpv1.NodeClaim{
		launched("protected-daemon"), launched("busy"), launched("protected"), launched("calm"), launched("old", old), launched("empty"), launched("new", unlaunched),
		launched("going", going), launched("held"),
	}
	loads := map[string]cluster.ClaimLoad{
		"busy": {Pods: true, Cost: 10}, "calm": {Pods: true, Cost: 6}, "old": {Pods: true, Cost: 11},
		"protected": {Pods: true, Protected: true, Cost: 1}, "protected-daemon": {Protected: true}, "held": {Held: true},
	}
	want := []string{"new", "empty", "old", "calm", "busy", "protected-daemon", "protected"}
	for replicas := range int64(len(want) + 2) {
		for range 3 {
			claims = append(claims[1:], claims[0]) // the order in which they are listed does not matter
			step := pool.Scale(pool.StaticFacts{Pool: fixed(replicas, ""), Claims: slices.Clone(claims), Loads: loads, Now: staticNow})
			var got []string
			for _, c := range step.Delete {
				got = append(got, c.Name)
			}
			var expected []string
			if surplus := int64(len(want)) - replicas; surplus > 0 {
				expected = want[:surplus]
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("%d replicas (-want +got):\n%s", replicas, diff)
			}
		}
	}
}

// FM M01, FM F02: nothing is made or removed before the API server was read, nor made while launches are backed off.
func TestFM_M01_GrowAndShrink(t *testing.T) {
	t.Parallel()
	two, three := []*karpv1.NodeClaim{launched("a"), launched("b")}, []*karpv1.NodeClaim{launched("a"), launched("b"), launched("c")}
	for name, tc := range map[string]struct {
		facts        pool.StaticFacts
		grow, shrink pool.StaticStep // Order is compared apart
		ordered      bool
	}{
		"the right size, as the cache has it": {
			facts: pool.StaticFacts{Pool: fixed(2, ""), Claims: two}, grow: pool.StaticStep{After: time.Minute}, shrink: pool.StaticStep{After: time.Minute},
		},
		"too small, as the cache has it": {
			facts: pool.StaticFacts{Pool: fixed(3, ""), Claims: two}, grow: pool.StaticStep{Confirm: true}, shrink: pool.StaticStep{Confirm: true},
		},
		"too small": {
			facts: pool.StaticFacts{Pool: fixed(3, ""), Claims: two, Live: true}, grow: pool.StaticStep{Create: 1, After: time.Minute}, shrink: pool.StaticStep{After: time.Minute}, ordered: true,
		},
		"too small, and launches fail": {
			facts: pool.StaticFacts{Pool: fixed(3, ""), Claims: two, Live: true, BackedOff: true},
			grow:  pool.StaticStep{Paused: true, After: 10 * time.Second}, shrink: pool.StaticStep{After: time.Minute},
		},
		"too large": {
			facts: pool.StaticFacts{Pool: fixed(2, ""), Claims: three, Live: true, BackedOff: true},
			grow:  pool.StaticStep{After: time.Minute}, shrink: pool.StaticStep{Delete: three[:1], After: time.Minute},
		},
		"at its limit": {
			facts: pool.StaticFacts{Pool: fixed(3, "2"), Claims: two, Live: true},
			grow:  pool.StaticStep{AtLimit: true, After: 30 * time.Second}, shrink: pool.StaticStep{AtLimit: true, After: 30 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.facts.Now = staticNow
			grow, shrink := pool.Grow(tc.facts), pool.Shrink(tc.facts)
			if (grow.Order != "") != tc.ordered {
				t.Errorf("the order is %q", grow.Order)
			}
			grow.Order = ""
			if diff := cmp.Diff([]pool.StaticStep{tc.grow, tc.shrink}, []pool.StaticStep{grow, shrink}); diff != "" {
				t.Errorf("steps to grow and to shrink (-want +got):\n%s", diff)
			}
		})
	}
	order := func(claims []*karpv1.NodeClaim) string {
		return pool.Grow(pool.StaticFacts{Pool: fixed(9, ""), Claims: claims, Live: true}).Order
	}
	if backwards := []*karpv1.NodeClaim{two[1], two[0]}; order(two) != order(backwards) || order(two) == order(three) {
		t.Error("orders are not told apart by the claims there are")
	}
}
