package reboot_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/reboot"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
)

// start is when the reboot was requested.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const because = "DiskReady=False (ReadErrors)"

// claim is initialized, and a reboot was requested at start.
func claim(change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid", Annotations: map[string]string{"a": "b"}}}
	c.Status.ProviderID = "aws:///z/i-1"
	set(c, -time.Hour, condition.Change{Type: karpv1.ConditionLaunched, Status: metav1.ConditionTrue},
		condition.Change{Type: karpv1.ConditionRegistered, Status: metav1.ConditionTrue}, condition.Change{Type: karpv1.ConditionInitialized, Status: metav1.ConditionTrue})
	set(c, 0, condition.Change{Type: karpv1.ConditionRebooting, Status: metav1.ConditionTrue, Reason: cluster.RebootRequested, Message: because})
	for _, f := range change {
		f(c)
	}
	return c
}

func set(c *karpv1.NodeClaim, at time.Duration, changes ...condition.Change) {
	c.Status.Conditions = lifecycle.Conditions().Apply(c.Status.Conditions, condition.Object{}, metav1.NewTime(start.Add(at)), changes...)
}

func annotated(key, value string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) { c.Annotations[key] = value }
}

func bound(text string) func(*karpv1.NodeClaim) {
	return annotated(karpv1.AnnotationRebootTerminationGracePeriod, text)
}

func marked(c *karpv1.NodeClaim) { annotated(karpv1.AnnotationRebootPreBootID, "old")(c) }

// issued one minute after the request.
func issued(c *karpv1.NodeClaim) {
	marked(c)
	set(c, time.Minute, condition.Change{Type: karpv1.ConditionRebooting, Status: metav1.ConditionTrue, Reason: reboot.Issued, Message: because},
		condition.Change{Type: karpv1.ConditionInitialized, Status: metav1.ConditionUnknown, Reason: reboot.Rebooting, Message: because})
}

func node(boot string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{karpv1.LabelInitialized: "true"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}, karpv1.RebootingTaint()}},
	}
	n.Status.NodeInfo.BootID = boot
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, f := range change {
		f(n)
	}
	return n
}

func untainted(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:1] }

func unlabelled(n *corev1.Node) { n.Labels = nil }

func unready(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: name, UID: types.UID(name)}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, f := range change {
		f(p)
	}
	return p
}

func tolerating(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
}

// words describes a step in a line.
func words(s reboot.Step) string {
	var out []string
	if s.Node != nil {
		text := "node"
		if slices.ContainsFunc(s.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyRebooting }) {
			text += " tainted"
		}
		if s.Node.Labels[karpv1.LabelInitialized] != "" {
			text += " initialized"
		}
		out = append(out, text)
	}
	for _, p := range s.Pods.Evict {
		out = append(out, "evict "+p.Name)
	}
	if s.Claim != nil {
		text := "claim"
		for _, name := range []string{karpv1.ConditionRebooting, karpv1.ConditionInitialized} {
			c := condition.Find(s.Claim.Status.Conditions, name)
			text += " " + name + "=" + string(c.Status) + "/" + c.Reason
		}
		if at := s.Claim.Annotations[karpv1.AnnotationTerminationTimestamp]; at != "" {
			text += " ends " + at
		}
		if boot, marked := s.Claim.Annotations[karpv1.AnnotationRebootPreBootID]; marked {
			text += " boot " + boot
		}
		out = append(out, text)
	}
	for _, part := range []struct {
		is   bool
		text string
	}{{s.Call != "", "call"}, {s.Again, "again"}, {s.Retry, "retry"}, {s.Delete, "delete"}} {
		if part.is {
			out = append(out, part.text)
		}
	}
	if s.End != nil {
		out = append(out, s.End.Result+" in "+s.End.Took.String())
	}
	for _, e := range s.Events {
		out = append(out, string(e.Reason))
	}
	if s.After > 0 {
		out = append(out, "after "+s.After.String())
	}
	return strings.Join(out, "; ")
}

const (
	both        = "claim Rebooting=True/RebootRequested Initialized=True/Initialized"
	accepted    = "claim Rebooting=True/RebootIssued Initialized=Unknown/Rebooting boot old; again"
	errorEnding = "provider_error in "
)

func TestNext(t *testing.T) {
	t.Parallel()
	web := []*corev1.Pod{pod("web")}
	unsure, denied := &reboot.Response{Err: errors.New("odd")}, &reboot.Response{Err: &cloud.Error{Kind: cloud.Denied, Message: "no"}}
	for name, tc := range map[string]struct {
		facts reboot.Facts
		now   time.Duration
		want  string
	}{
		"V15-35 a claim that goes is left to its termination": {facts: reboot.Facts{Claim: claim(func(c *karpv1.NodeClaim) { c.DeletionTimestamp = new(metav1.NewTime(start)) }), Node: node("old", untainted)}},
		"no reboot": {facts: reboot.Facts{Claim: claim(func(c *karpv1.NodeClaim) {
			c.Status.Conditions = condition.Remove(c.Status.Conditions, karpv1.ConditionRebooting)
		}), Node: node("old", untainted)}},
		"what a process that died left is taken away": {
			facts: reboot.Facts{Claim: claim(marked, func(c *karpv1.NodeClaim) {
				set(c, time.Minute, condition.Change{Type: karpv1.ConditionRebooting, Status: metav1.ConditionFalse, Reason: reboot.Over})
			}), Node: node("old")},
			want: "claim Rebooting=False/RebootSucceeded Initialized=True/Initialized",
		},
		"V15-36 the taint comes first": {facts: reboot.Facts{Claim: claim(), Node: node("old", untainted), Pods: web}, want: "node tainted initialized; evict web; after 5s"},
		"V15-37 five seconds pass even with no pod to evict": {
			facts: reboot.Facts{Claim: claim(), Node: node("old", untainted)}, now: 2 * time.Second, want: "node tainted initialized; after 3s",
		},
		"V15-36 then the boot is noted, then the cloud is called": {facts: reboot.Facts{Claim: claim(), Node: node("old")}, now: 5 * time.Second, want: both + " boot old; call"},
		"V15-37 no bound: the drain takes as long as it needs": {
			facts: reboot.Facts{Claim: claim(), Node: node("old"), Pods: web}, now: 48 * time.Hour, want: "evict web; after 5s",
		},
		"V15-37 bound 0: no drain at all":           {facts: reboot.Facts{Claim: claim(bound("0s")), Node: node("old"), Pods: web}, want: both + " boot old; call"},
		"V15-37 before the bound":                   {facts: reboot.Facts{Claim: claim(bound("1m")), Node: node("old"), Pods: web}, now: 58 * time.Second, want: "evict web; after 2s"},
		"V15-37 at the bound pods ride through":     {facts: reboot.Facts{Claim: claim(bound("1m")), Node: node("old"), Pods: web}, now: time.Minute, want: both + " boot old; call"},
		"V15-37 a bound of less than five seconds":  {facts: reboot.Facts{Claim: claim(bound("1s")), Node: node("old"), Pods: web}, now: 4 * time.Second, want: "evict web; after 1s"},
		"V15-37 who tolerates the reboot stays":     {facts: reboot.Facts{Claim: claim(), Node: node("old"), Pods: []*corev1.Pod{pod("a", tolerating(karpv1.TaintKeyRebooting))}}, now: time.Minute, want: both + " boot old; call"},
		"V15-37 who tolerates any disruption does":  {facts: reboot.Facts{Claim: claim(), Node: node("old"), Pods: []*corev1.Pod{pod("a", tolerating(karpv1.TaintKeyDisrupted))}}, now: time.Minute, want: both + " boot old; call"},
		"V15-36 an unreadable bound":                {facts: reboot.Facts{Claim: claim(bound("soon")), Node: node("old")}, now: time.Second, want: "node initialized; claim Rebooting=False/RebootFailed Initialized=True/Initialized; invalid_request in 1s; RebootFailed"},
		"V15-36 a negative bound":                   {facts: reboot.Facts{Claim: claim(bound("-1s")), Node: node("old", untainted)}, want: "claim Rebooting=False/RebootFailed Initialized=True/Initialized; invalid_request in 0s; RebootFailed"},
		"V15-36 already booted: it is not repeated": {facts: reboot.Facts{Claim: claim(marked), Node: node("new")}, want: accepted},
		"a restart after the call: called again, not drained again": {
			facts: reboot.Facts{Claim: claim(marked), Node: node("old"), Pods: web}, now: time.Minute, want: "call",
		},
		"V15-38 accepted": {facts: reboot.Facts{Claim: claim(marked), Node: node("old"), Response: &reboot.Response{}}, now: time.Minute, want: accepted},
		"V15-38 denied for good": {
			facts: reboot.Facts{Claim: claim(marked), Node: node("old"), Response: denied}, now: time.Minute, want: "node initialized; delete; " + errorEnding + "1m0s; RebootFailed",
		},
		"V15-41 the bound counts from the failure": {
			facts: reboot.Facts{Claim: claim(marked, bound("10m")), Node: node("old"), Response: denied}, now: time.Minute,
			want: "node initialized; " + both + " ends 2026-03-01T12:11:00Z boot old; delete; " + errorEnding + "1m0s; RebootFailed",
		},
		"V15-26 V15-41 the claim allows less than the bound": {
			facts: reboot.Facts{Claim: claim(marked, bound("10m"), func(c *karpv1.NodeClaim) { c.Spec.TerminationGracePeriod = "2m" }), Node: node("old"), Response: denied}, now: time.Minute,
			want: "node initialized; " + both + " ends 2026-03-01T12:03:00Z boot old; delete; " + errorEnding + "1m0s; RebootFailed",
		},
		"V15-41 an earlier end is kept": {
			facts: reboot.Facts{Claim: claim(marked, bound("10m"), annotated(karpv1.AnnotationTerminationTimestamp, "2026-03-01T12:05:00Z")), Node: node("old"), Response: denied}, now: time.Minute,
			want: "node initialized; delete; " + errorEnding + "1m0s; RebootFailed",
		},
		"V15-38 unsure":                             {facts: reboot.Facts{Claim: claim(marked), Node: node("old"), Response: unsure, FirstCall: start}, now: 5*time.Minute - 1, want: "retry"},
		"V15-38 unsure for five minutes":            {facts: reboot.Facts{Claim: claim(marked), Node: node("old"), Response: unsure, FirstCall: start.Add(time.Hour)}, now: 65 * time.Minute, want: "node initialized; delete; " + errorEnding + "1h5m0s; RebootFailed"},
		"V15-38 no node":                            {facts: reboot.Facts{Claim: claim()}, now: time.Minute, want: "after 15s"},
		"V15-38 no node for long":                   {facts: reboot.Facts{Claim: claim()}, now: 5 * time.Minute, want: "delete; " + errorEnding + "5m0s; RebootFailed"},
		"V15-38 no node since the cloud was called": {facts: reboot.Facts{Claim: claim(marked), FirstCall: start.Add(4 * time.Minute)}, now: 6 * time.Minute, want: "after 15s"},
		"V15-39 the label goes":                     {facts: reboot.Facts{Claim: claim(issued), Node: node("old")}, now: 2 * time.Minute, want: "node tainted; after 15s"},
		"V15-39 the taint comes back":               {facts: reboot.Facts{Claim: claim(issued), Node: node("old", untainted, unlabelled)}, now: 2 * time.Minute, want: "node tainted; after 15s"},
		"V15-39 down":                               {facts: reboot.Facts{Claim: claim(issued), Node: node("old", unlabelled, unready)}, now: 2 * time.Minute, want: "after 15s"},
		"V15-39 a new boot":                         {facts: reboot.Facts{Claim: claim(issued), Node: node("new", unlabelled, unready)}, now: 2 * time.Minute, want: "node; RebootObserved; after 15s"},
		"V15-40 a new boot, and ready":              {facts: reboot.Facts{Claim: claim(issued), Node: node("new", unlabelled)}, now: 3 * time.Minute, want: "node; claim Rebooting=False/RebootSucceeded Initialized=Unknown/Rebooting; succeeded in 3m0s; RebootObserved"},
		"V15-40 ready, but the boot is the old one": {facts: reboot.Facts{Claim: claim(issued), Node: node("old", unlabelled)}, now: 3 * time.Minute, want: "after 15s"},
		"V15-39 the last look before the limit":     {facts: reboot.Facts{Claim: claim(issued), Node: node("old", unlabelled)}, now: 21*time.Minute - time.Second, want: "after 1s"},
		"V15-39 not back in time":                   {facts: reboot.Facts{Claim: claim(issued), Node: node("old", unlabelled)}, now: 21 * time.Minute, want: "node; delete; recovery_timeout in 21m0s; RebootFailed"},
		"V15-39 no node in time":                    {facts: reboot.Facts{Claim: claim(issued)}, now: 21 * time.Minute, want: "delete; recovery_timeout in 21m0s; RebootFailed"},
		"V15-39 no node yet":                        {facts: reboot.Facts{Claim: claim(issued)}, now: 20 * time.Minute, want: "after 15s"},
		"V15-39 Initialized was set meanwhile": {facts: reboot.Facts{Claim: claim(issued, func(c *karpv1.NodeClaim) {
			set(c, time.Minute, condition.Change{Type: karpv1.ConditionInitialized, Status: metav1.ConditionTrue})
		}), Node: node("old", unlabelled)}, now: 2 * time.Minute, want: "claim Rebooting=True/RebootIssued Initialized=Unknown/Rebooting boot old; after 15s"},
		"V15-39 a boot id that is not told is no new": {facts: reboot.Facts{Claim: claim(issued), Node: node("", unlabelled)}, now: 2 * time.Minute, want: "after 15s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.facts.Now = start.Add(tc.now)
			before := tc.facts.Claim.DeepCopy()
			got := reboot.Next(tc.facts)
			if diff := cmp.Diff(tc.want, words(got)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, tc.facts.Claim); diff != "" {
				t.Errorf("the claim was changed: %s", diff)
			}
			if got.Call != "" && got.Delete || got.End != nil && got.After > 0 {
				t.Errorf("the step contradicts itself: %+v", got)
			}
		})
	}
}

// V15-39: a claim that never was initialized has as much time to come back.
func TestTheTimeToComeBackRunsFromTheCall(t *testing.T) {
	t.Parallel()
	c := claim(marked)
	set(c, -2*time.Hour, condition.Change{Type: karpv1.ConditionInitialized, Status: metav1.ConditionUnknown, Reason: "NodeNotReady"})
	at := start.Add(30 * time.Minute)
	step := reboot.Next(reboot.Facts{Claim: c, Node: node("old"), Response: &reboot.Response{}, Now: at})
	if step.Claim == nil {
		t.Fatal("nothing is written")
	}
	later := reboot.Next(reboot.Facts{Claim: step.Claim, Node: node("old"), Now: at.Add(19 * time.Minute)})
	if later.Delete {
		t.Error("given up too early")
	}
}

// V15-36: the operation is that of one request, for one boot.
func TestOperationIsStable(t *testing.T) {
	t.Parallel()
	call := func(c *karpv1.NodeClaim, now time.Duration) string {
		return reboot.Next(reboot.Facts{Claim: c, Node: node("old"), Now: start.Add(now)}).Call
	}
	first := call(claim(), 10*time.Second)
	if first == "" || call(claim(marked), time.Minute) != first {
		t.Errorf("operation %q is not repeated", first)
	}
	others := map[string]*karpv1.NodeClaim{
		"of another claim": claim(marked, func(c *karpv1.NodeClaim) { c.UID = "other" }),
		"of another request": claim(marked, func(c *karpv1.NodeClaim) {
			c.Status.Conditions = condition.Remove(c.Status.Conditions, karpv1.ConditionRebooting)
			set(c, time.Second, condition.Change{Type: karpv1.ConditionRebooting, Status: metav1.ConditionTrue, Reason: cluster.RebootRequested})
		}),
	}
	for name, c := range others {
		if got := call(c, time.Minute); got == first || got == "" {
			t.Errorf("operation %s: %q", name, got)
		}
	}
}

// V15-38: what the cloud says for good.
func TestFinal(t *testing.T) {
	t.Parallel()
	for kind, want := range map[cloud.Kind]bool{
		cloud.Unknown: false, cloud.Throttled: false, cloud.NotReady: false, cloud.NoCapacity: false,
		cloud.NotFound: true, cloud.Denied: true, cloud.Invalid: true, cloud.Unsupported: true,
	} {
		if got := reboot.Final(&cloud.Error{Kind: kind}); got != want {
			t.Errorf("kind %d: %v", kind, got)
		}
	}
	if reboot.Final(errors.New("odd")) {
		t.Error("an error of others is final")
	}
}

// V15-34: how a reboot begins.
func TestRequest(t *testing.T) {
	t.Parallel()
	plain := func(change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
		return claim(append([]func(*karpv1.NodeClaim){func(c *karpv1.NodeClaim) {
			c.Status.Conditions = condition.Remove(c.Status.Conditions, karpv1.ConditionRebooting)
		}}, change...)...)
	}
	period := func(c *karpv1.NodeClaim) { c.Spec.TerminationGracePeriod = "1h" }
	for name, tc := range map[string]struct {
		claim *karpv1.NodeClaim
		bound *time.Duration
		ok    bool
		want  string // the bound that is written
	}{
		"a bound":                          {claim: plain(period), bound: new(90 * time.Second), ok: true, want: "1m30s"},
		"a bound of nothing":               {claim: plain(), bound: new(time.Duration(0)), ok: true, want: "0s"},
		"the claim's own period":           {claim: plain(period), ok: true, want: "1h"},
		"none: a stale one goes":           {claim: plain(bound("5m")), ok: true},
		"what an earlier reboot left goes": {claim: plain(marked), ok: true},
		"it reboots already":               {claim: claim()},
		"it goes":                          {claim: plain(func(c *karpv1.NodeClaim) { c.DeletionTimestamp = new(metav1.NewTime(start)) })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := reboot.Request(tc.claim, tc.bound, because, start)
			if ok != tc.ok {
				t.Fatalf("ok = %v", ok)
			}
			if !ok {
				return
			}
			if text := got.Annotations[karpv1.AnnotationRebootTerminationGracePeriod]; text != tc.want {
				t.Errorf("bound %q, want %q", text, tc.want)
			}
			if _, left := got.Annotations[karpv1.AnnotationRebootPreBootID]; left {
				t.Error("the boot of an earlier reboot is still there: this one would not be made")
			}
			for name, reason := range map[string]string{karpv1.ConditionRebooting: cluster.RebootRequested, karpv1.ConditionDisruptionReason: "Unhealthy"} {
				if c := condition.Find(got.Status.Conditions, name); c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason || c.Message != because {
					t.Errorf("condition %s is %+v", name, c)
				}
			}
			if !condition.True(got.Status.Conditions, karpv1.ConditionReady) {
				t.Error("Rebooting made the claim not ready (V15-10)")
			}
		})
	}
}

// From a request it always ends: whatever node and cloud do, after the longest times the claim is not
// rebooting any more, and the cloud was called under one operation only.
func TestItEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := claim(bound("2m"))
		at, n, first := start, node("old", untainted), time.Time{}
		operations := map[string]bool{}
		for at.Before(start.Add(2*time.Minute + reboot.CallTime + reboot.BackTime + time.Minute)) {
			f := reboot.Facts{Claim: c, Node: n, Now: at, FirstCall: first}
			if rapid.IntRange(0, 9).Draw(t, "gone") == 0 {
				f.Node = nil
			}
			if rapid.Bool().Draw(t, "pods") {
				f.Pods = []*corev1.Pod{pod("web")}
			}
			for range 4 {
				step := reboot.Next(f)
				if step.End != nil {
					if len(operations) > 1 {
						t.Errorf("called under %d operations", len(operations))
					}
					return
				}
				if step.Node != nil {
					f.Node, n = step.Node, step.Node
				}
				if step.Claim != nil {
					f.Claim, c = step.Claim, step.Claim
				}
				if step.Call == "" && !step.Again {
					break
				}
				if step.Call != "" {
					operations[step.Call] = true
					if first.IsZero() {
						first = at
					}
					f.FirstCall, f.Response = first, &reboot.Response{}
					if rapid.Bool().Draw(t, "fails") {
						f.Response.Err = errors.New("odd")
					}
				}
			}
			if rapid.IntRange(0, 30).Draw(t, "boots") == 0 && !first.IsZero() {
				n = n.DeepCopy()
				n.Status.NodeInfo.BootID = "new"
			}
			at = at.Add(15 * time.Second)
		}
		t.Error("it reboots for ever")
	})
}
