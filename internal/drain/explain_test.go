package drain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// pdb selects the pods with label app=name.
func pdb(name string, change ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
		Status:     policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, DesiredHealthy: 2},
	}
	for _, f := range change {
		f(b)
	}
	return b
}

func never(b *policyv1.PodDisruptionBudget) {
	b.Spec.MinAvailable, b.Spec.MaxUnavailable = nil, new(intstr.FromInt32(0))
}

// covers is a budget that its controller has counted the pods of.
func covers(pods int32) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Status.ExpectedPods = pods }
}

// tries is how far the queue is with pods.
func tries(t drain.Try, pods ...types.UID) map[types.UID]drain.Try {
	out := map[types.UID]drain.Try{}
	for _, uid := range pods {
		out[uid] = t
	}
	return out
}

func of(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
}

func unready(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
}

// G13: for everything that can hold a drain there is a cause, an object, a time and what would end it.
func TestG13_EveryWaitIsExplained(t *testing.T) {
	t.Parallel()
	pods := func(list ...*corev1.Pod) []*corev1.Pod { return list }
	for name, tc := range map[string]struct {
		pods    []*corev1.Pod
		budgets []*policyv1.PodDisruptionBudget
		tries   map[types.UID]drain.Try
		claim   func(*karpv1.NodeClaim)
		now     time.Duration
		want    []string // cause, object, since
		say     string   // part of the sentence about the first
	}{
		"nothing is explained that has just begun": {pods: pods(pod("a", protected("true"))), now: 10 * time.Second},
		"a pod that is about to leave needs no words": {
			pods: pods(pod("a", of("web"))), now: time.Minute,
			budgets: []*policyv1.PodDisruptionBudget{pdb("web", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 })},
		},
		"FM K02: a budget that allows nothing now": {
			pods: pods(pod("a", of("web")), pod("b", of("web")), pod("c", of("other"))), now: time.Minute, budgets: []*policyv1.PodDisruptionBudget{pdb("web")},
			want: []string{"pdb PodDisruptionBudget default/web 0s"},
			say:  "PodDisruptionBudget default/web allows no eviction now: 2 of its pods are healthy and 2 have to be (default/a, default/b); it allows one when",
		},
		"since the budget says so, if that is later": {
			pods: pods(pod("a", of("web"))), now: time.Minute,
			budgets: []*policyv1.PodDisruptionBudget{pdb("web", func(b *policyv1.PodDisruptionBudget) {
				b.Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, LastTransitionTime: *at(20 * time.Second)}}
			})},
			want: []string{"pdb PodDisruptionBudget default/web 20s"}, say: "allows no eviction now",
		},
		"FM K01: a budget that can never allow one is called that": {
			pods: pods(pod("a", of("web"))), now: time.Minute, budgets: []*policyv1.PodDisruptionBudget{pdb("web", never)},
			want: []string{"impossible_pdb PodDisruptionBudget default/web 0s"},
			say:  "PodDisruptionBudget default/web can never allow an eviction: maxUnavailable is 0 (default/a); let it allow at least one",
		},
		"and so is one that wants all": {
			pods: pods(pod("a", of("web"))), now: time.Minute,
			budgets: []*policyv1.PodDisruptionBudget{pdb("web", func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromString("100%")) })},
			want:    []string{"impossible_pdb PodDisruptionBudget default/web 0s"}, say: "minAvailable is 100%",
		},
		"unless it lets pods go that are not ready": {
			pods: pods(pod("a", of("web"), unready)), now: time.Minute,
			budgets: []*policyv1.PodDisruptionBudget{pdb("web", never, func(b *policyv1.PodDisruptionBudget) {
				b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
			})},
		},
		"and so, for now, is one that wants as many pods as there are (demand 17)": {
			pods: pods(pod("a", of("web"))), now: time.Minute, budgets: []*policyv1.PodDisruptionBudget{pdb("web", covers(2))},
			want: []string{"impossible_pdb PodDisruptionBudget default/web 0s"},
			say:  "PodDisruptionBudget default/web cannot allow an eviction while it has 2 replicas: it wants 2 healthy (default/a); scale its workload up, or let it require fewer",
		},
		"but not one that waits for a third": {
			pods: pods(pod("a", of("web"))), now: time.Minute, budgets: []*policyv1.PodDisruptionBudget{pdb("web", covers(3))},
			want: []string{"pdb PodDisruptionBudget default/web 0s"}, say: "it allows one when more of its pods are ready",
		},
		"nor one whose numbers are of an earlier version of it": {
			pods: pods(pod("a", of("web"))), now: time.Minute, budgets: []*policyv1.PodDisruptionBudget{pdb("web", covers(2), func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 })},
			want: []string{"pdb PodDisruptionBudget default/web 0s"}, say: "allows no eviction now",
		},
		"a webhook that says no": {
			pods: pods(pod("a"), pod("b")), now: time.Minute,
			tries: tries(drain.Try{Since: after(20 * time.Second), Response: `admission webhook "x.io" denied the request: no`}, "a", "b"),
			want:  []string{"eviction_refused admission webhook x.io 20s"},
			say:   `the API server refuses to evict pods: admission webhook "x.io" denied the request: no (default/a, default/b); let the webhook allow it`,
		},
		"a webhook that does not respond": {
			pods: pods(pod("a")), now: time.Minute,
			tries: tries(drain.Try{Since: start, Response: `Internal error occurred: failed calling webhook "x.io": timeout`}, "a"),
			want:  []string{"eviction_refused admission webhook x.io 0s"}, say: "repair the webhook",
		},
		"a right that the controller lacks": {
			pods: pods(pod("a")), now: time.Minute,
			tries: tries(drain.Try{Since: start, Response: `pods "a" is forbidden: User "d" cannot create resource "pods/eviction" in API group ""`}, "a"),
			want:  []string{"eviction_refused RBAC 0s"}, say: "give the controller the verb create on pods/eviction in its ClusterRole",
		},
		"FM L10: an error that lasts": {
			pods: pods(pod("a")), now: time.Minute, tries: tries(drain.Try{Since: start, Response: "etcd is ill, it cannot cope"}, "a"),
			want: []string{"eviction_refused API server 0s"}, say: "etcd is ill",
		},
		"an error of a moment needs no words": {
			pods: pods(pod("a")), now: time.Minute, tries: tries(drain.Try{Since: after(50 * time.Second), Response: "etcd is ill"}, "a"),
		},
		"a deletion that is refused at the deadline": {
			pods: pods(pod("a", of("web"))), now: 2 * time.Hour, claim: period("1h"), budgets: []*policyv1.PodDisruptionBudget{pdb("web", never)},
			tries: tries(drain.Try{Since: after(time.Hour), Response: `admission webhook "x.io" denied the request: no`}, "a"),
			want:  []string{"eviction_refused admission webhook x.io 1h0m0s"}, say: "let the webhook allow it",
		},
		"a budget explains better than what the API server says of it": {
			pods: pods(pod("a", of("web"))), now: time.Minute, budgets: []*policyv1.PodDisruptionBudget{pdb("web")},
			tries: tries(drain.Try{Since: start, Response: "it would violate the budget", Budget: true}, "a"),
			want:  []string{"pdb PodDisruptionBudget default/web 0s"}, say: "allows no eviction now",
		},
		"unless the API server sees it otherwise": {
			pods: pods(pod("a", of("web"))), now: time.Minute,
			budgets: []*policyv1.PodDisruptionBudget{pdb("web", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 })},
			tries:   tries(drain.Try{Since: start, Response: "the budget is still being processed", Budget: true}, "a"),
			want:    []string{"pdb PodDisruptionBudget default/web 0s"}, say: "the budget is still being processed",
		},
		"a queue that does not come to the pod": {
			pods: pods(pod("a")), now: 2 * time.Minute, tries: tries(drain.Try{Since: after(time.Minute)}, "a"),
			want: []string{"eviction_pending eviction queue 1m0s"}, say: "look at the log of the controller",
		},
		"a queue that was filled a moment ago": {pods: pods(pod("a")), now: 2 * time.Minute, tries: tries(drain.Try{Since: after(90 * time.Second)}, "a")},
		"FM K03: two budgets for one pod": {
			pods: pods(pod("a", of("web"))), now: time.Minute,
			budgets: []*policyv1.PodDisruptionBudget{pdb("web"), pdb("all", func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} })},
			want:    []string{"several_pdbs PodDisruptionBudgets default/all, default/web 0s"}, say: "which the eviction API refuses",
		},
		"an annotation": {
			pods: pods(pod("a", protected("true"))), now: time.Minute,
			want: []string{"do_not_disrupt annotation karpenter.sh/do-not-disrupt=true 0s"}, say: "remove it or end the pods",
		},
		"an annotation with an end": {
			pods: pods(pod("a", protected("2h"))), now: time.Minute,
			want: []string{"do_not_disrupt annotation karpenter.sh/do-not-disrupt=2h until 2026-03-01T13:00:00Z 0s"}, say: "it ends at 2026-03-01T13:00:00Z",
		},
		"a pod that takes its time to end": {
			pods: pods(pod("a", endsAt(10*time.Minute), withGrace(600))), now: time.Minute,
			want: []string{"grace_period grace period 0s"}, say: "they end by themselves",
		},
		"a pod that tolerates the taint is not waited for": {pods: pods(pod("a", tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists}))), now: time.Minute},
		"a pod that waits for its turn is not what holds the node": {
			pods: pods(pod("a", protected("true")), pod("z", critical, of("web"))), now: time.Minute, budgets: []*policyv1.PodDisruptionBudget{pdb("web", never)},
			want: []string{"do_not_disrupt annotation karpenter.sh/do-not-disrupt=true 0s"}, say: "(default/a)",
		},
		"the worst first": {
			pods: pods(pod("a", protected("true")), pod("b", of("web")), pod("c", of("db")), pod("d", endsAt(time.Hour))), now: time.Minute,
			budgets: []*policyv1.PodDisruptionBudget{pdb("web"), pdb("db", never)},
			want: []string{
				"impossible_pdb PodDisruptionBudget default/db 0s", "pdb PodDisruptionBudget default/web 0s",
				"do_not_disrupt annotation karpenter.sh/do-not-disrupt=true 0s", "grace_period grace period 0s",
			}, say: "can never",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := drain.Facts{Node: node(), Claim: claim(draining), Pods: tc.pods, Budgets: tc.budgets, Tries: tc.tries, Now: after(tc.now)}
			if tc.claim != nil {
				tc.claim(f.Claim)
			}
			step := drain.Next(f)
			var got []string
			for i := range step.Waits {
				w := &step.Waits[i]
				got = append(got, string(w.Cause)+" "+w.Object+" "+w.Since.Sub(start).String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			if tc.say != "" && (len(step.Waits) == 0 || !strings.Contains(step.Waits[0].Text(), tc.say)) {
				t.Errorf("said %+v, want %q", step.Waits, tc.say)
			}
		})
	}
}

// The condition says what is waited for, and is not written with every pod that leaves.
func TestDrainedMessage(t *testing.T) {
	t.Parallel()
	saying := func(text string) func(*karpv1.NodeClaim) {
		return func(c *karpv1.NodeClaim) {
			draining(c)
			c.Status.Conditions[len(c.Status.Conditions)-1].Message = text
		}
	}
	held := []*corev1.Pod{pod("a", protected("true"))}
	for name, tc := range map[string]struct {
		claim *karpv1.NodeClaim
		pods  []*corev1.Pod
		now   time.Duration
		said  time.Duration // how long ago; 0: not known
		want  string
	}{
		"at first pods just leave":         {claim: claim(draining), pods: held, now: time.Second, want: "pods are leaving the node"},
		"then it is explained at once":     {claim: claim(saying("pods are leaving the node")), pods: held, now: 15 * time.Second, said: 15 * time.Second, want: "waits since 2026-03-01T12:00:00Z: pods carry annotation"},
		"something new waits for a minute": {claim: claim(saying("waits since then")), pods: held, now: 2 * time.Minute, said: 59 * time.Second, want: "waits since then"},
		"and is said then":                 {claim: claim(saying("waits since then")), pods: held, now: 2 * time.Minute, said: time.Minute, want: "pods carry annotation"},
		"and after a restart":              {claim: claim(saying("waits since then")), pods: held, now: 2 * time.Minute, want: "pods carry annotation"},
		"with the deadline":                {claim: claim(draining, period("1h")), pods: held, now: time.Minute, want: "what is left is deleted in time to end by 2026-03-01T13:00:00Z"},
		"nothing holds it any more":        {claim: claim(saying("waits since then")), pods: []*corev1.Pod{pod("a")}, now: 2 * time.Minute, want: "pods are leaving the node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := drain.Facts{Node: node(), Claim: tc.claim, Pods: tc.pods, Now: after(tc.now)}
			if tc.said > 0 {
				f.Said = f.Now.Add(-tc.said)
			}
			step := drain.Next(f)
			if len(step.Marks) != 1 || !strings.Contains(step.Marks[0].Message, tc.want) {
				t.Errorf("marks %+v, want %q", step.Marks, tc.want)
			}
		})
	}
}

// A wait that has become long is reported on the node and on the claim.
func TestDrainBlocked(t *testing.T) {
	t.Parallel()
	reasons := func(list []event.Event) (out []event.Reason) {
		for _, e := range list {
			out = append(out, e.Reason)
		}
		return out
	}
	disks := []*storagev1.VolumeAttachment{attachment("csi-1", "pv-1")}
	volumes := func(c *karpv1.NodeClaim) {
		drained(c)
		with(karpv1.ConditionVolumesDetached, metav1.ConditionUnknown, drain.AwaitingVolumeDetachment, 0)(c)
	}
	for name, tc := range map[string]struct {
		facts       drain.Facts
		now         time.Duration
		node, claim []event.Reason
	}{
		"not yet": {
			drain.Facts{Node: node(), Claim: claim(draining), Pods: []*corev1.Pod{pod("a", protected("true"))}},
			5*time.Minute - time.Second,
			[]event.Reason{event.FailedDraining},
			nil,
		},
		"after five minutes": {
			drain.Facts{Node: node(), Claim: claim(draining), Pods: []*corev1.Pod{pod("a", protected("true"))}},
			5 * time.Minute,
			[]event.Reason{event.FailedDraining, event.DrainBlocked},
			[]event.Reason{event.DrainBlocked},
		},
		"volumes too": {
			drain.Facts{Node: node(), Claim: claim(volumes), Attachments: disks},
			5 * time.Minute,
			[]event.Reason{event.AwaitingVolumeDetachment, event.DrainBlocked},
			[]event.Reason{event.DrainBlocked},
		},
		"an instance that the cloud does not end": {
			drain.Facts{Node: node(), Claim: claim(drained), Instance: drain.Staying, Refusal: drain.Refusal{Reason: drain.TerminationFailed, Text: "no"}},
			5*time.Minute + time.Second,
			[]event.Reason{event.DrainBlocked},
			[]event.Reason{event.DrainBlocked},
		},
		"an instance that it agreed to end long ago": {
			drain.Facts{Node: node(), Claim: claim(drained, terminating), Instance: drain.Ending},
			5*time.Minute + time.Second,
			[]event.Reason{event.DrainBlocked},
			[]event.Reason{event.DrainBlocked},
		},
		"an instance that it agreed to end a while ago": {
			drain.Facts{Node: node(), Claim: claim(drained, terminating), Instance: drain.Ending},
			4 * time.Minute, nil, nil,
		},
		"without a claim": {
			drain.Facts{Node: node(), Pods: []*corev1.Pod{pod("a", protected("true"))}},
			5 * time.Minute,
			[]event.Reason{event.FailedDraining, event.DrainBlocked},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.facts.Now = after(tc.now)
			step := drain.Next(tc.facts)
			if diff := cmp.Diff(tc.node, reasons(step.Events)); diff != "" {
				t.Errorf("events of the node (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.claim, reasons(step.ClaimEvents)); diff != "" {
				t.Errorf("events of the claim (-want +got):\n%s", diff)
			}
		})
	}
}

// However much holds a node, the text fits an event, and says how much it leaves out.
func TestExplainIsBounded(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	var budgets []*policyv1.PodDisruptionBudget
	for i := range 100 {
		name := strings.Repeat("x", 60) + string(rune('a'+i%26)) + string(rune('a'+i/26))
		pods = append(pods, pod(name, of(name)))
		budgets = append(budgets, pdb(name, never))
	}
	step := drain.Next(drain.Facts{Node: node(), Claim: claim(draining), Pods: pods, Budgets: budgets, Now: after(time.Hour)})
	for _, m := range step.Marks {
		if len(m.Message) > 1024 || !strings.Contains(m.Message, "more causes") {
			t.Errorf("a message of %d characters: %s", len(m.Message), m.Message)
		}
	}
	if len(step.Waits) != 100 || len(step.Events) == 0 {
		t.Errorf("%d waits", len(step.Waits))
	}
}
