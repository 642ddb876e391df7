package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

func TestExpiry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text  karpv1.Duration
		want  time.Time
		never bool
	}{
		"LC-16 a time":               {text: "1h30m", want: after(90 * time.Minute)},
		"LC-16 never":                {text: "Never", never: true},
		"LC-16 nothing readable":     {text: "soon", never: true},
		"LC-16 zero, as some set it": {text: "0s", want: created},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fresh()
			c.Spec.ExpireAfter = tc.text
			at, expires := lifecycle.Expiry(c)
			if expires == tc.never || expires && !at.Equal(tc.want) {
				t.Errorf("expires %t at %s, want at %s (never %t)", expires, at, tc.want, tc.never)
			}
		})
	}
}

// LC-16: a claim expires when it has lived as long as it may, unless the clock is off (FM N06).
func TestNextExpiry(t *testing.T) {
	t.Parallel()
	going := func(c *karpv1.NodeClaim) { c.DeletionTimestamp = &metav1.Time{Time: created} }
	for name, tc := range map[string]struct {
		life     karpv1.Duration
		change   func(*karpv1.NodeClaim)
		clockOff bool
		now      time.Time
		want     lifecycle.ExpiryStep
	}{
		"never":                   {life: "Never", now: after(time.Hour)},
		"not readable":            {life: "soon", now: after(time.Hour)},
		"not yet":                 {life: "1h", now: after(20 * time.Minute), want: lifecycle.ExpiryStep{After: 40 * time.Minute}},
		"now":                     {life: "1h", now: after(time.Hour), want: lifecycle.ExpiryStep{Delete: true, Why: "it has lived since " + created.Format(time.RFC3339) + ", and its expireAfter is 1h"}},
		"terminating already":     {life: "1h", change: going, now: after(time.Hour)},
		"FM N06 the clock is off": {life: "1h", clockOff: true, now: after(time.Hour), want: lifecycle.ExpiryStep{After: time.Minute}},
		"the same, not yet":       {life: "1h", clockOff: true, now: after(0), want: lifecycle.ExpiryStep{After: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fresh()
			if c.Spec.ExpireAfter = tc.life; tc.change != nil {
				tc.change(c)
			}
			if got := lifecycle.NextExpiry(c, tc.clockOff, tc.now); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// LC-38: claims are compared with instances every two minutes, and earlier if something is still open.
func TestNextCollection(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		later  time.Duration
		unsure bool
		want   time.Duration
	}{
		"nothing is open":                {want: 2 * time.Minute},
		"a claim is too young":           {later: 75 * time.Second, want: 75 * time.Second},
		"later than the interval":        {later: time.Hour, want: 2 * time.Minute},
		"the cloud could not say":        {unsure: true, want: 10 * time.Second},
		"both, and the claim comes last": {later: time.Minute, unsure: true, want: 10 * time.Second},
		"both, and the claim is first":   {later: time.Second, unsure: true, want: time.Second},
	} {
		if got := lifecycle.NextCollection(tc.later, tc.unsure); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestTerminationMode(t *testing.T) {
	t.Parallel()
	for text, want := range map[karpv1.Duration]string{"": "graceful", "1h": "eventual", "0s": "forceful"} {
		c := fresh()
		c.Spec.TerminationGracePeriod = text
		if got := lifecycle.TerminationMode(c); got != want {
			t.Errorf("LC-19: terminationGracePeriod %q is %s, want %s", text, got, want)
		}
	}
}

func TestBoundedMode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		bound *time.Duration
		want  string
	}{
		"without a bound the claim says it": {want: "graceful"},
		"a bound to come":                   {bound: new(time.Hour), want: "eventual"},
		"a bound that is over":              {bound: new(time.Duration(0)), want: "forceful"},
	} {
		if got := lifecycle.BoundedMode(fresh(), tc.bound); got != tc.want {
			t.Errorf("V15-32: %s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestCollectable(t *testing.T) {
	t.Parallel()
	unhealthy := usable()
	unhealthy.Status.Conditions[0].Status = corev1.ConditionUnknown
	deleting := registered()
	deleting.DeletionTimestamp = new(metav1.NewTime(created))
	for name, tc := range map[string]struct {
		claim     *karpv1.NodeClaim
		instances []cloud.Instance
		nodes     []*corev1.Node
		want      bool
	}{
		"LC-38 the instance is there":                   {claim: registered(), instances: []cloud.Instance{{ID: id}}},
		"LC-38 gone, and no node":                       {claim: registered(), want: true},
		"LC-38 gone, and the node is not ready":         {claim: registered(), nodes: []*corev1.Node{unhealthy}, want: true},
		"LC-38 gone, but the node is ready":             {claim: registered(), nodes: []*corev1.Node{usable()}},
		"LC-38 an instance that ends does not count":    {claim: registered(), instances: []cloud.Instance{{ID: id, Terminating: true}}, want: true},
		"LC-38 not registered is left to its timeout":   {claim: launched()},
		"LC-38 a claim that goes is left to its ending": {claim: deleting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := lifecycle.Missing([]*karpv1.NodeClaim{tc.claim}, tc.instances, func(string) []*corev1.Node { return tc.nodes }, created.Add(time.Hour))
			if (len(got) == 1) != tc.want {
				t.Errorf("collected %d, want %t", len(got), tc.want)
			}
		})
	}
}

func TestConsistency(t *testing.T) {
	t.Parallel()
	initialized := func() *karpv1.NodeClaim {
		c := with(registered(), after(time.Minute), yes(karpv1.ConditionInitialized))
		c.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi")}
		c.Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"), "x.io/gpu": resource.MustParse("1")}
		return c
	}
	for name, tc := range map[string]struct {
		claim  *karpv1.NodeClaim
		memory string
		want   string
		text   string
	}{
		"LC-40 as expected":                  {claim: initialized(), memory: "8Gi", want: "True/ConsistentStateFound"},
		"LC-40 exactly 90 percent":           {claim: initialized(), memory: "7730941133", want: "True/ConsistentStateFound"},
		"LC-40, FM B14 20 percent too small": {claim: initialized(), memory: "6553Mi", want: "False/ConsistencyCheckFailed", text: "expected 8Gi of memory, found 6553Mi (80.0%)"},
		"LC-40 not initialized":              {claim: registered(), memory: "1Gi", want: "absent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := usable()
			n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse(tc.memory)}
			list, events := lifecycle.Consistent(tc.claim, n, after(time.Hour))
			tc.claim.Status.Conditions = list
			if have := state(tc.claim, karpv1.ConditionConsistentStateFound); have != tc.want {
				t.Errorf("ConsistentStateFound is %s, want %s", have, tc.want)
			}
			if (len(events) == 1) != (tc.text != "") {
				t.Fatalf("events %v", events)
			}
			if tc.text != "" && (events[0].Reason != event.FailedConsistencyCheck || !strings.Contains(events[0].Text, tc.text)) {
				t.Errorf("event %v, want %q in it", events[0], tc.text)
			}
			again, _ := lifecycle.Consistent(tc.claim, n, after(2*time.Hour))
			if diff := cmp.Diff(list, again); diff != "" {
				t.Errorf("FM C07: a second scan writes again:\n%s", diff)
			}
		})
	}
}

func TestHydration(t *testing.T) {
	t.Parallel()
	c := registered()
	if diff := cmp.Diff(map[string]string{"g/k": "class"}, lifecycle.HydrateClaim(c)); diff != "" {
		t.Errorf("LC-44 claim (-want +got):\n%s", diff)
	}
	c.Labels["g/k"] = "class"
	if got := lifecycle.HydrateClaim(c); got != nil {
		t.Errorf("LC-44: %v is there already", got)
	}
	n := usable()
	n.Spec.Taints = []corev1.Taint{{Key: karpv1.TaintKeyDisruption, Effect: "NoSchedule"}, {Key: "own", Effect: "NoSchedule"}}
	got := lifecycle.HydrateNode(n, c)
	wantLabels := map[string]string{karpv1.LabelRegistered: "true", "g/k": "class", karpv1.LabelNodePool: "p", karpv1.LabelProvisionerName: "p"}
	if diff := cmp.Diff(wantLabels, got.Labels); diff != "" {
		t.Errorf("LC-44, FM B16 node (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"own:NoSchedule"}, taints(got)); diff != "" {
		t.Errorf("LC-62 taints (-want +got):\n%s", diff)
	}
	if second := lifecycle.HydrateNode(got, c); second != nil {
		t.Errorf("a second time: %v", second)
	}
	n.DeletionTimestamp = new(metav1.NewTime(created))
	if got := taints(lifecycle.HydrateNode(n, c)); len(got) != 2 {
		t.Errorf("LC-62: a terminating node has taints %v, want both kept", got)
	}
	if got := lifecycle.HydrateNode(joined("n"), c); got != nil {
		t.Errorf("LC-44: a node that is not registered is hydrated: %v", got.Labels)
	}
}

func TestPodEvents(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(after(d)) }
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(0)}}
		p.Spec.NodeName = "n"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "True", LastTransitionTime: at(time.Minute)}}
		change(p)
		return p
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want time.Time
	}{
		"LC-56 bound":       {pod: pod(func(*corev1.Pod) {}), want: after(time.Minute)},
		"LC-56 not bound":   {pod: pod(func(p *corev1.Pod) { p.Spec.NodeName = "" })},
		"LC-56 never bound": {pod: pod(func(p *corev1.Pod) { p.Status.Conditions = nil }), want: created},
		"LC-56 of a DaemonSet": {pod: pod(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet"}}
		})},
		"LC-56 ready is no news": {pod: pod(func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, LastTransitionTime: at(time.Hour)})
		}), want: after(time.Minute)},
		"LC-56 ended": {
			pod: pod(func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodSucceeded
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(2 * time.Minute)}}}}
			}),
			want: after(2 * time.Minute),
		},
		"LC-56 began to end": {
			pod: pod(func(p *corev1.Pod) {
				p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(at(5*time.Minute)), new(int64(60))
			}),
			want: after(4 * time.Minute),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := lifecycle.PodEvent(tc.pod); !got.Equal(tc.want) {
				t.Errorf("event at %s, want %s", got, tc.want)
			}
		})
	}
}

func TestPodRemoved(t *testing.T) {
	t.Parallel()
	now := after(time.Hour)
	running := func(change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}, Spec: corev1.PodSpec{NodeName: "n"}}
		for _, f := range change {
			f(p)
		}
		return p
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want time.Time
	}{
		"deleted without grace":  {pod: running(), want: now},
		"deletion was requested": {pod: running(func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(after(time.Minute))) }), want: after(time.Minute)},
		"it ended before":        {pod: running(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), want: created},
		"it was never on a node": {pod: running(func(p *corev1.Pod) { p.Spec.NodeName = "" })},
		"a DaemonSet pod": {pod: running(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet"}}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := lifecycle.PodRemoved(tc.pod, now); !got.Equal(tc.want) {
				t.Errorf("PodRemoved() = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestLosesNomination(t *testing.T) {
	t.Parallel()
	pod := func(nominated, node string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{NominatedNodeName: nominated}}
	}
	for name, tc := range map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"taken back":          {before: pod("n", ""), after: pod("", ""), want: true},
		"bound":               {before: pod("n", ""), after: pod("", "n")},
		"nominated elsewhere": {before: pod("n", ""), after: pod("m", "")},
		"never nominated":     {before: pod("", ""), after: pod("", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := lifecycle.LosesNomination(tc.before, tc.after); got != tc.want {
				t.Errorf("LosesNomination() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestFM_L12_NodeMissing(t *testing.T) {
	t.Parallel()
	named := func(c *karpv1.NodeClaim) *karpv1.NodeClaim {
		c.Status.NodeName, c.Status.ProviderID = "n", "i"
		return c
	}
	for name, tc := range map[string]struct {
		claim  *karpv1.NodeClaim
		cached []*corev1.Node
		want   bool
	}{
		"the cache has no Node":      {claim: named(registered()), want: true},
		"the cache has it":           {claim: named(registered()), cached: []*corev1.Node{joined("n")}},
		"the claim did not register": {claim: named(launched())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := lifecycle.NodeMissing(tc.claim, tc.cached); got != tc.want {
				t.Errorf("NodeMissing() = %t, want %t", got, tc.want)
			}
		})
	}
	for id, want := range map[string]bool{"i": false, "another": true} {
		if got := lifecycle.NodeReplaced(named(registered()), &corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}}); got != want {
			t.Errorf("NodeReplaced() of %s = %t, want %t", id, got, want)
		}
	}
}

func TestPodEventDue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		last, written, event time.Time
		want                 bool
		wantAt               time.Time
	}{
		"LC-56 written, and the cache lacks it":  {last: after(0), written: after(time.Minute), event: after(time.Minute + 9*time.Second)},
		"LC-56 ten seconds after what it lacks":  {last: after(0), written: after(time.Minute), event: after(70 * time.Second), want: true, wantAt: after(70 * time.Second)},
		"LC-56 the first":                        {event: after(0), want: true, wantAt: after(0)},
		"LC-56, FM N14 within ten seconds":       {last: after(0), event: after(9 * time.Second)},
		"LC-56 after ten seconds":                {last: after(0), event: after(10 * time.Second), want: true, wantAt: after(10 * time.Second)},
		"FM C08 seen again after a restart":      {last: after(5 * time.Minute), event: after(5 * time.Minute)},
		"a clock that is ahead":                  {event: after(2 * time.Hour), want: true, wantAt: after(time.Hour)},
		"no event at all":                        {},
		"FM C08 what happened between two looks": {last: after(0), event: after(30 * time.Minute), want: true, wantAt: after(30 * time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fresh()
			c.Status.LastPodEventTime = metav1.NewTime(tc.last)
			var events lifecycle.PodEvents
			events.Record("other", after(0))
			events.Written("n", tc.written)
			if later := events.Record("n", tc.event); later == tc.event.IsZero() || events.Record("n", tc.event) {
				t.Errorf("later %v, and later than itself", later)
			}
			at, due := events.Due("n", c, after(time.Hour))
			if due != tc.want || due && !at.Equal(tc.wantAt) {
				t.Errorf("due %t at %s, want %t at %s", due, at, tc.want, tc.wantAt)
			}
			if events.Drop("n"); !tc.event.IsZero() && !events.Record("n", tc.event) {
				t.Error("a node of the same name has the events of one that is gone")
			}
		})
	}
}

// The conditions of other controllers survive.
func TestOtherConditionsStay(t *testing.T) {
	t.Parallel()
	c := with(registered(), after(time.Hour), yes(karpv1.ConditionDrifted), yes(karpv1.ConditionConsolidatable))
	step := lifecycle.Next(lifecycle.Facts{Claim: c, Nodes: []*corev1.Node{usable()}, Now: after(2 * time.Hour)})
	for _, name := range []string{karpv1.ConditionDrifted, karpv1.ConditionConsolidatable} {
		if !condition.True(step.Claim.Status.Conditions, name) {
			t.Errorf("%s is %s", name, state(step.Claim, name))
		}
	}
}
