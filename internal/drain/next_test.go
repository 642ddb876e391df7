package drain_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// short is a step without its texts.
type short struct {
	Do     string // the last thing to do: query, terminate, release or wait
	After  time.Duration
	Marks  []string
	Events []event.Reason
	Evict  []string
}

func truncate(s drain.Step) short {
	out := short{Do: "wait", After: s.After, Evict: names(s.Pods.Evict)}
	switch {
	case s.Query:
		out.Do = "query"
	case s.Terminate:
		out.Do = "terminate"
	case s.Release:
		out.Do = "release"
	}
	for _, m := range s.Marks {
		text := m.Type + "=" + string(m.Status)
		if m.Reason != "" {
			text += "/" + m.Reason
		}
		out.Marks = append(out.Marks, text)
	}
	for _, e := range s.Events {
		out.Events = append(out.Events, e.Reason)
	}
	return out
}

func drained(c *karpv1.NodeClaim) {
	with(karpv1.ConditionDrained, metav1.ConditionTrue, "Drained", time.Second)(c)
}

func terminating(c *karpv1.NodeClaim) {
	drained(c)
	with(karpv1.ConditionInstanceTerminating, metav1.ConditionTrue, "InstanceTerminating", time.Second)(c)
}

func TestNext(t *testing.T) {
	t.Parallel()
	web := []*corev1.Pod{pod("web")}
	disk := []*storagev1.VolumeAttachment{attachment("csi-1", "pv-1")}
	for name, tc := range map[string]struct {
		facts drain.Facts
		now   time.Duration
		want  short
	}{
		"LC-30, FM L21 the first look at an empty node": {
			facts: drain.Facts{Node: node(), Claim: claim()},
			want:  short{Do: "wait", After: time.Second, Marks: []string{"Drained=Unknown/Draining"}},
		},
		"LC-30, FM L21 five seconds after the time that was written, which is cut to a second": {
			facts: drain.Facts{Node: node(), Claim: claim(draining)}, now: 5500 * time.Millisecond,
			want: short{Do: "wait", After: 500 * time.Millisecond, Marks: []string{"Drained=Unknown/Draining"}},
		},
		"LC-28, LC-30, FM L21 five seconds later for sure": {
			facts: drain.Facts{Node: node(), Claim: claim(draining)}, now: 6 * time.Second,
			want: short{Do: "terminate", Marks: []string{"Drained=True", "VolumesDetached=True"}},
		},
		"LC-30, FM D02 a pod that came late": {
			facts: drain.Facts{Node: node(), Claim: claim(draining), Pods: web}, now: 5 * time.Second,
			want: short{Do: "wait", After: time.Second, Marks: []string{"Drained=Unknown/Draining"}, Events: []event.Reason{event.FailedDraining}, Evict: []string{"web"}},
		},
		"D02 a pod that came later still": {
			facts: drain.Facts{Node: node(), Claim: claim(drained), Pods: web}, now: 10 * time.Second,
			want: short{Do: "wait", After: time.Second, Marks: []string{"Drained=Unknown/Draining"}, Events: []event.Reason{event.FailedDraining}, Evict: []string{"web"}},
		},
		"LC-26 a deadline is told": {
			facts: drain.Facts{Node: node(), Claim: claim(draining, period("1h")), Pods: web},
			want:  short{Do: "wait", After: time.Second, Marks: []string{"Drained=Unknown/Draining"}, Events: []event.Reason{event.TerminationGracePeriodExpiring, event.FailedDraining}, Evict: []string{"web"}},
		},
		"LC-37 J01 volumes hold the instance": {
			facts: drain.Facts{Node: node(), Claim: claim(drained), Attachments: disk}, now: time.Hour,
			want: short{Do: "wait", After: time.Second, Marks: []string{"VolumesDetached=Unknown/AwaitingVolumeDetachment"}, Events: []event.Reason{event.AwaitingVolumeDetachment}},
		},
		"LC-37 until the deadline": {
			facts: drain.Facts{Node: node(), Claim: claim(drained, period("1h")), Attachments: disk}, now: time.Hour,
			want: short{Do: "terminate", Marks: []string{"VolumesDetached=False/TerminationGracePeriodElapsed"}, Events: []event.Reason{event.TerminationGracePeriodExpiring}},
		},
		"LC-22 the end was accepted": {
			facts: drain.Facts{Node: node(), Claim: claim(drained), Instance: drain.Ending, Accepted: after(time.Minute)}, now: time.Minute,
			want: short{Do: "wait", After: time.Second, Marks: []string{"InstanceTerminating=True"}},
		},
		"E02 queried again after a second at first": {
			facts: drain.Facts{Node: node(), Claim: claim(terminating), Accepted: start.Add(time.Second)}, now: 2 * time.Second,
			want: short{Do: "terminate"},
		},
		"E02 and not before": {
			facts: drain.Facts{Node: node(), Claim: claim(terminating), Accepted: start.Add(time.Second)}, now: 1500 * time.Millisecond,
			want: short{Do: "wait", After: 500 * time.Millisecond},
		},
		"E02 then after as long as it took so far": {
			facts: drain.Facts{Node: node(), Claim: claim(terminating), Accepted: start.Add(5 * time.Second)}, now: 6 * time.Second,
			want: short{Do: "wait", After: 3 * time.Second},
		},
		"E02 and after five seconds in the end": {
			facts: drain.Facts{Node: node(), Claim: claim(terminating), Accepted: start.Add(time.Minute)}, now: 62 * time.Second,
			want: short{Do: "wait", After: 3 * time.Second},
		},
		"Trust A10 the condition is written if it was not, or is not in the cache yet": {
			facts: drain.Facts{Node: node(), Claim: claim(drained), Accepted: start, Pods: web}, now: 500 * time.Millisecond,
			want: short{Do: "wait", After: 500 * time.Millisecond, Marks: []string{"InstanceTerminating=True"}},
		},
		"Trust A10 also if the instance is gone meanwhile": {
			facts: drain.Facts{Node: node(), Claim: claim(drained), Accepted: start, Instance: drain.Gone}, now: time.Minute,
			want: short{Do: "release", Marks: []string{"InstanceTerminating=True"}},
		},
		"a question about the instance does not put off its end": {
			facts: drain.Facts{Node: node(notReady), Claim: claim(drained), Instance: drain.Present, Queried: start},
			want:  short{Do: "terminate", Marks: []string{"VolumesDetached=True"}},
		},
		"crash point 16: pods of an ending instance are left alone": {
			facts: drain.Facts{Node: node(), Claim: claim(terminating), Pods: web, Attachments: disk}, now: time.Minute,
			want: short{Do: "terminate"},
		},
		"LC-28 the instance is gone": {
			facts: drain.Facts{Node: node(), Claim: claim(terminating), Instance: drain.Gone}, now: time.Minute,
			want: short{Do: "release"},
		},
		"LC-24 without a claim the node is drained": {
			facts: drain.Facts{Node: node(), Pods: web},
			want:  short{Do: "wait", After: time.Second, Marks: []string{"Drained=Unknown/Draining"}, Events: []event.Reason{event.FailedDraining}, Evict: []string{"web"}},
		},
		"LC-28 without a claim no instance is ended": {
			facts: drain.Facts{Node: node()}, now: 6 * time.Second,
			want: short{Do: "release", Marks: []string{"Drained=True", "VolumesDetached=True"}},
		},
		"LC-25 a node that is not ready": {
			facts: drain.Facts{Node: node(notReady), Claim: claim(draining), Pods: web},
			want:  short{Do: "query"},
		},
		"LC-25 L15 whose instance is gone": {
			facts: drain.Facts{Node: node(notReady), Claim: claim(draining), Pods: web, Instance: drain.Gone},
			want:  short{Do: "release"},
		},
		"LC-25 whose instance is there": {
			facts: drain.Facts{Node: node(notReady), Claim: claim(draining), Pods: web, Instance: drain.Present},
			want:  short{Do: "wait", After: time.Second, Marks: []string{"Drained=Unknown/Draining"}, Events: []event.Reason{event.FailedDraining}, Evict: []string{"web"}},
		},
		"FM L16, G3: whose cloud does not respond": {
			facts: drain.Facts{Node: node(notReady), Claim: claim(drained), Instance: drain.Unsure}, now: time.Minute,
			want: short{Do: "terminate", Marks: []string{"VolumesDetached=True"}},
		},
		"G12 whose cloud was queried a moment ago": {
			facts: drain.Facts{Node: node(notReady), Claim: claim(draining), Pods: web, Queried: start}, now: 4 * time.Second,
			want: short{Do: "wait", After: time.Second, Marks: []string{"Drained=Unknown/Draining"}, Events: []event.Reason{event.FailedDraining}, Evict: []string{"web"}},
		},
		"E03 a ready node is not queried": {
			facts: drain.Facts{Node: node(), Claim: claim(draining), Pods: web, Instance: drain.NotQueried},
			want:  short{Do: "wait", After: time.Second, Marks: []string{"Drained=Unknown/Draining"}, Events: []event.Reason{event.FailedDraining}, Evict: []string{"web"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.facts.Now = after(tc.now)
			if diff := cmp.Diff(tc.want, truncate(drain.Next(tc.facts))); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLC27_Marks(t *testing.T) {
	t.Parallel()
	other := corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoExecute}
	label := map[string]string{corev1.LabelNodeExcludeBalancers: "karpenter"}
	for name, tc := range map[string]struct {
		taints     []corev1.Taint
		labels     map[string]string
		wantTaints []corev1.Taint
		wantLabels map[string]string
	}{
		"nothing there":                   {taints: []corev1.Taint{other}, wantTaints: []corev1.Taint{other, karpv1.DisruptedTaint()}, wantLabels: label},
		"all there":                       {taints: []corev1.Taint{karpv1.DisruptedTaint(), other}, labels: label},
		"another effect is replaced":      {taints: []corev1.Taint{{Key: karpv1.TaintKeyDisrupted, Effect: corev1.TaintEffectNoExecute}, other}, labels: label, wantTaints: []corev1.Taint{other, karpv1.DisruptedTaint()}},
		"FM N11 a taint that was removed": {labels: label, wantTaints: []corev1.Taint{karpv1.DisruptedTaint()}},
		"FM L20 a label of another owner": {taints: []corev1.Taint{karpv1.DisruptedTaint()}, labels: map[string]string{corev1.LabelNodeExcludeBalancers: "me"}, wantLabels: label},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := node(func(n *corev1.Node) { n.Spec.Taints, n.Labels = tc.taints, tc.labels })
			step := drain.Next(drain.Facts{Node: n, Claim: claim(draining), Now: start})
			if diff := cmp.Diff([]any{tc.wantTaints, tc.wantLabels}, []any{step.Taints, step.Labels}); diff != "" {
				t.Errorf("taints and labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLC24_TheClaimIsDeletedOnce(t *testing.T) {
	t.Parallel()
	alive := claim(func(c *karpv1.NodeClaim) { c.DeletionTimestamp = nil })
	step := drain.Next(drain.Facts{Node: node(), Claim: alive, Pods: []*corev1.Pod{pod("web")}, Now: start})
	if !step.DeleteClaim || len(step.Marks) > 0 || step.After != time.Second {
		t.Errorf("L13: kubectl delete node must delete the claim too, and look again: %+v", step)
	}
	if len(step.Pods.Evict) != 1 {
		t.Error("the drain need not wait for that")
	}
	if drain.Next(drain.Facts{Node: node(), Claim: claim(), Now: start}).DeleteClaim {
		t.Error("a claim that is being deleted need not be deleted")
	}
}

func TestLC37_WhichVolumesAreWaitedFor(t *testing.T) {
	t.Parallel()
	everything := tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists})
	volumes := map[types.NamespacedName]string{
		{Namespace: "default", Name: "data"}:      "pv-1",
		{Namespace: "default", Name: "p-scratch"}: "pv-1",
	}
	ephemeral := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
	}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		disk *storagev1.VolumeAttachment
		want bool
	}{
		"LC-15.12 its pod is gone":         {disk: attachment("a", "pv-1"), want: true},
		"no volume name":                   {disk: attachment("a", "")},
		"J05 its pod tolerates everything": {disk: attachment("a", "pv-1"), pods: []*corev1.Pod{pod("p", everything, mounting("data"))}},
		"J05 and made the volume itself":   {disk: attachment("a", "pv-1"), pods: []*corev1.Pod{pod("p", everything, ephemeral)}},
		"its pod is a mirror":              {disk: attachment("a", "pv-1"), pods: []*corev1.Pod{pod("p", owned("v1", "Node"), mounting("data"))}},
		"its pod is stuck":                 {disk: attachment("a", "pv-1"), pods: []*corev1.Pod{pod("p", endsAt(-time.Hour), mounting("data"))}},
		"its pod has ended":                {disk: attachment("a", "pv-1"), pods: []*corev1.Pod{pod("p", everything, phase(corev1.PodSucceeded), mounting("data"))}, want: true},
		"another pod tolerates everything": {disk: attachment("a", "pv-2"), pods: []*corev1.Pod{pod("p", everything, mounting("data"))}, want: true},
		"an unknown claim, no pod":         {disk: attachment("a", "pv-1"), pods: []*corev1.Pod{pod("p", everything, mounting("gone"))}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := drain.Next(drain.Facts{Node: node(), Claim: claim(drained), Pods: tc.pods, Attachments: []*storagev1.VolumeAttachment{tc.disk}, Volumes: volumes, Now: start})
			if step.Terminate == tc.want {
				t.Errorf("instance ended: %t, want waiting: %t", step.Terminate, tc.want)
			}
		})
	}
}

// Every removal of a claim by a deadline of its own, by the same rule: repair, interruptions, commands, failed reboots.
func TestAdvanceDeadline(t *testing.T) {
	t.Parallel()
	const earlier, same, later = "2026-03-01T12:09:59Z", "2026-03-01T12:10:00Z", "2026-03-01T12:10:01Z"
	for name, tc := range map[string]struct {
		claim   *karpv1.NodeClaim
		want    string
		changed bool
	}{
		"there is none":                         {claim: claim(), want: same, changed: true},
		"V15-29 a later one is made earlier":    {claim: claim(stamped(later)), want: same, changed: true},
		"V15-29 an earlier one is kept":         {claim: claim(stamped(earlier)), want: earlier},
		"the same again":                        {claim: claim(stamped(same)), want: same},
		"one in another time zone":              {claim: claim(stamped("2026-03-01T14:09:59+02:00")), want: "2026-03-01T14:09:59+02:00"},
		"FM L18 one that cannot be read":        {claim: claim(stamped("0001-soon")), want: same, changed: true},
		"FM L18 an empty one":                   {claim: claim(stamped("")), want: same, changed: true},
		"the claim's own period does not count": {claim: claim(period("1s")), want: same, changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := drain.AdvanceDeadline(tc.claim, after(10*time.Minute).Add(time.Millisecond).In(time.FixedZone("z", 3600)))
			if got := tc.claim.Annotations[karpv1.AnnotationTerminationTimestamp]; got != tc.want || changed != tc.changed {
				t.Errorf("AdvanceDeadline() = %t with %s, want %t with %s", changed, got, tc.changed, tc.want)
			}
		})
	}
}

func TestBoundedPeriod(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		own  karpv1.Duration
		want time.Duration
	}{
		"no period":                            {want: time.Minute},
		"V15-26 a shorter one":                 {own: "20s", want: 20 * time.Second},
		"V15-26 a longer one":                  {own: "1h", want: time.Minute},
		"V15-26 zero":                          {own: "0s"},
		"a period that cannot be read is none": {own: "0 s", want: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := drain.BoundedPeriod(claim(period(tc.own)), time.Minute); got != tc.want {
				t.Errorf("BoundedPeriod() = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		claim *karpv1.NodeClaim
		want  time.Time
	}{
		"no claim":                                {},
		"no period":                               {claim: claim()},
		"LC-20 the annotation":                    {claim: claim(period("1h"), stamped("2026-03-01T12:10:00Z")), want: after(10 * time.Minute)},
		"repair gives one to a claim without":     {claim: claim(stamped("2026-03-01T12:10:00Z")), want: after(10 * time.Minute)},
		"it is not written yet":                   {claim: claim(period("1h")), want: after(time.Hour)},
		"FM L18 it cannot be read":                {claim: claim(period("1h"), stamped("soon")), want: after(time.Hour)},
		"FM L18 it cannot be read, and no period": {claim: claim(stamped("soon"))},
		"C14 a period that cannot be read":        {claim: claim(period("1 h"))},
		"a claim that is not being deleted yet":   {claim: claim(period("1h"), func(c *karpv1.NodeClaim) { c.DeletionTimestamp = nil })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := drain.Deadline(tc.claim); !got.Equal(tc.want) {
				t.Errorf("Deadline() = %s, want %s", got, tc.want)
			}
		})
	}
}
