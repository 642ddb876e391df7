package drain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
)

func TestLC29_WhoIsWaitedFor(t *testing.T) {
	t.Parallel()
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a running pod":                               {pod: pod("p"), want: true},
		"a DaemonSet pod":                             {pod: pod("p", daemon), want: true},
		"one that succeeded":                          {pod: pod("p", phase(corev1.PodSucceeded))},
		"one that failed":                             {pod: pod("p", phase(corev1.PodFailed))},
		"FM L09 a mirror pod by its annotation":       {pod: pod("p", annotated(corev1.MirrorPodAnnotationKey, "x"))},
		"FM L09 a mirror pod by its owner":            {pod: pod("p", owned("v1", "Node"))},
		"FM L08 one that tolerates all":               {pod: pod("p", tolerating(everything))},
		"FM L06 one that tolerates our taint":         {pod: pod("p", daemon, tolerating(corev1.Toleration{Key: karpv1.TaintKeyDisrupted, Operator: corev1.TolerationOpExists}))},
		"one that tolerates its value":                {pod: pod("p", tolerating(corev1.Toleration{Key: karpv1.TaintKeyDisrupted}))},
		"one that tolerates another value":            {pod: pod("p", tolerating(corev1.Toleration{Key: karpv1.TaintKeyDisrupted, Value: "x"})), want: true},
		"one that tolerates another effect":           {pod: pod("p", tolerating(corev1.Toleration{Key: karpv1.TaintKeyDisrupted, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})), want: true},
		"one that tolerates another taint":            {pod: pod("p", tolerating(corev1.Toleration{Key: "x", Operator: corev1.TolerationOpExists})), want: true},
		"one that ends":                               {pod: pod("p", endsAt(10*time.Second)), want: true},
		"FM L03 one a minute past its grace":          {pod: pod("p", endsAt(-time.Minute)), want: true},
		"FM L03, L04, L05 more than a minute past it": {pod: pod("p", endsAt(-time.Minute-time.Second))},
		"FM L18 a minute has not passed since an end": {pod: pod("p", endsAt(-30*time.Second)), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := cluster.DrainWaits(tc.pod, karpv1.DisruptedTaint(), start); got != tc.want {
				t.Errorf("Waits() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestLC36_ForcedDelete(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		deadline time.Time
		now      time.Duration
		want     time.Duration // 0: not forced
	}{
		"no deadline, never":                              {pod: pod("p"), now: 1000 * time.Hour},
		"a 300 s pod of a 1 h node, before minute 55":     {pod: pod("p", grace(300)), deadline: after(time.Hour), now: 55 * time.Minute},
		"a 300 s pod of a 1 h node, at minute 55":         {pod: pod("p", grace(300)), deadline: after(time.Hour), now: 55*time.Minute + time.Second, want: 299 * time.Second},
		"FM L02 grace of 2 h, node of 1 h: at once":       {pod: pod("p", grace(7200)), deadline: after(time.Hour), want: time.Hour},
		"protection does not help":                        {pod: pod("p", protected("true")), deadline: after(10 * time.Second), want: 10 * time.Second},
		"LC-15.13 a period of 0 s: one second":            {pod: pod("p"), deadline: start, want: time.Second},
		"FM L18 a deadline long ago: one second":          {pod: pod("p"), deadline: after(-1000 * time.Hour), want: time.Second},
		"less than a second left is a second":             {pod: pod("p"), deadline: after(500 * time.Millisecond), want: time.Second},
		"fractions are cut, never beyond the deadline":    {pod: pod("p"), deadline: after(9900 * time.Millisecond), want: 9 * time.Second},
		"a pod without grace waits for the deadline":      {pod: pod("p", grace(0)), deadline: after(time.Minute), now: time.Minute},
		"S-067 and then gets a second":                    {pod: pod("p", grace(0)), deadline: after(time.Minute), now: time.Minute + time.Second, want: time.Second},
		"a grace beyond all bounds":                       {pod: pod("p", grace(1<<62)), deadline: after(time.Hour), want: time.Hour},
		"ends in time":                                    {pod: pod("p", endsAt(time.Minute)), deadline: after(time.Hour), now: 2 * time.Minute},
		"ends too late":                                   {pod: pod("p", endsAt(2*time.Hour), withGrace(7200)), deadline: after(time.Hour), now: time.Minute, want: 59 * time.Minute},
		"ends too late, but was told as much as possible": {pod: pod("p", endsAt(time.Second), withGrace(1)), deadline: start, now: 0},
		"has ended": {pod: pod("p", phase(corev1.PodFailed)), deadline: start, now: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, forced := drain.Forced(tc.pod, tc.deadline, after(tc.now))
			if forced != (tc.want > 0) || forced && got != tc.want {
				t.Errorf("Forced() = %s, %t, want %s", got, forced, tc.want)
			}
		})
	}
}

func TestLC31_Groups(t *testing.T) {
	t.Parallel()
	web, log, dns, cni := pod("web"), pod("log", daemon), pod("dns", critical), pod("cni", daemon, critical)
	for name, tc := range map[string]struct {
		pods    []*corev1.Pod
		limit   time.Time
		want    []string // evicted
		deleted []string
	}{
		"ordinary pods first":                         {pods: []*corev1.Pod{cni, dns, log, web}, want: []string{"web"}},
		"FM J03, L07 then DaemonSets":                 {pods: []*corev1.Pod{cni, dns, log}, want: []string{"log"}},
		"then critical pods":                          {pods: []*corev1.Pod{cni, dns}, want: []string{"dns"}},
		"critical DaemonSets last":                    {pods: []*corev1.Pod{cni}, want: []string{"cni"}},
		"the largest pods first":                      {pods: []*corev1.Pod{pod("a", requests("100m", "1Gi")), pod("b", requests("1", "1Gi")), pod("c", requests("100m", "8Gi")), web}, want: []string{"c", "b", "a", "web"}},
		"the largest pods first at the deadline too":  {pods: []*corev1.Pod{pod("a", requests("100m", "1Gi")), pod("b", requests("1", "1Gi")), web}, limit: start, deleted: []string{"b", "a", "web"}},
		"an ending pod holds the next group":          {pods: []*corev1.Pod{pod("web", endsAt(time.Minute)), log}},
		"a stuck pod holds no other":                  {pods: []*corev1.Pod{pod("web", endsAt(-time.Hour)), log}, want: []string{"log"}},
		"LC-33 a protected pod holds the next group":  {pods: []*corev1.Pod{pod("web", protected("true")), log}},
		"LC-33 but not its own group":                 {pods: []*corev1.Pod{pod("held", protected("true")), web}, want: []string{"web"}},
		"LC-33 protection for a time":                 {pods: []*corev1.Pod{pod("web", protected("61m"))}},
		"LC-15.10 whose time is over":                 {pods: []*corev1.Pod{pod("web", protected("60m"))}, want: []string{"web"}},
		"LC-33 protection that means nothing":         {pods: []*corev1.Pod{pod("web", protected("false"))}, want: []string{"web"}},
		"LC-62 the old annotation":                    {pods: []*corev1.Pod{pod("web", annotated(karpv1.AnnotationDoNotEvict, "true"))}},
		"LC-32 the deadline does not mind groups":     {pods: []*corev1.Pod{cni, web}, limit: start, deleted: []string{"cni", "web"}},
		"LC-32 a long grace leaves before its turn":   {pods: []*corev1.Pod{pod("dns", critical, grace(7200)), web}, limit: after(time.Hour), want: []string{"web"}, deleted: []string{"dns"}},
		"LC-33 the deadline does not mind protection": {pods: []*corev1.Pod{pod("web", protected("true"))}, limit: start, deleted: []string{"web"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := drain.Order(tc.pods, karpv1.DisruptedTaint(), drain.Limit{At: tc.limit}, start)
			var deleted []string
			for _, d := range got.Delete {
				deleted = append(deleted, d.Pod.Name)
			}
			if diff := cmp.Diff([][]string{tc.want, tc.deleted}, [][]string{names(got.Evict), deleted}); diff != "" {
				t.Errorf("evicted, deleted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestV15_37_LimitsOfTwoKinds(t *testing.T) {
	t.Parallel()
	early, late := after(time.Minute), after(time.Hour)
	for name, tc := range map[string]struct{ first, second, want drain.Limit }{
		"LC-34 the earlier deadline":          {drain.Limit{At: late}, drain.Limit{At: early}, drain.Limit{At: early}},
		"LC-34 is not put off":                {drain.Limit{At: early}, drain.Limit{At: late}, drain.Limit{At: early}},
		"some deadline is earlier than none":  {drain.Limit{}, drain.Limit{At: late}, drain.Limit{At: late}},
		"none does not lift one":              {drain.Limit{At: late}, drain.Limit{}, drain.Limit{At: late}},
		"a deadline replaces a timeout":       {drain.Limit{At: early, Stay: true}, drain.Limit{At: late}, drain.Limit{At: late}},
		"even one that never comes":           {drain.Limit{At: early, Stay: true}, drain.Limit{}, drain.Limit{}},
		"a timeout never replaces a deadline": {drain.Limit{At: late}, drain.Limit{At: early, Stay: true}, drain.Limit{At: late}},
		"the earlier timeout":                 {drain.Limit{At: late, Stay: true}, drain.Limit{At: early, Stay: true}, drain.Limit{At: early, Stay: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.first.Join(tc.second); got != tc.want {
				t.Errorf("Join() = %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestV15_37_PodsRideThroughATimeout(t *testing.T) {
	t.Parallel()
	limit := drain.Limit{At: after(time.Minute), Stay: true}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		now  time.Duration
		want drain.Act
	}{
		"evicted before":               {pod: pod("p"), now: 59 * time.Second, want: drain.Evict},
		"left alone after":             {pod: pod("p"), now: time.Minute, want: drain.Drop},
		"held if protected":            {pod: pod("p", protected("true")), want: drain.Hold},
		"never deleted":                {pod: pod("p", protected("true")), now: time.Hour, want: drain.Drop},
		"nor requested to end earlier": {pod: pod("p", endsAt(time.Hour)), now: 2 * time.Minute, want: drain.Drop},
		"nothing to do if it did end":  {pod: pod("p", phase(corev1.PodSucceeded)), want: drain.Drop},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, _ := limit.Act(tc.pod, after(tc.now)); got != tc.want {
				t.Errorf("Act() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestLC30_TheEventNamesWhoHoldsTheNode(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{pod("z-held", protected("true")), pod("y-ending", endsAt(time.Minute)), pod("x-late", critical)}
	for i := range 4 {
		pods = append(pods, pod(fmt.Sprintf("a-%d", i)))
	}
	step := drain.Next(drain.Facts{Node: node(), Claim: claim(draining), Pods: pods, Now: start})
	if len(step.Events) != 1 || step.Events[0].Reason != event.FailedDraining {
		t.Fatalf("events %+v, want one %s", step.Events, event.FailedDraining)
	}
	text := step.Events[0].Text
	for _, part := range []string{"7 pods", "default/z-held (held by its annotation karpenter.sh/do-not-disrupt=true", "default/y-ending (ends by 2026-03-01T12:01:00Z)", "default/a-2", "and 2 more"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
	if strings.Contains(text, "x-late") || strings.Index(text, "z-held") > strings.Index(text, "y-ending") {
		t.Errorf("those that a user can help should come first, those whose turn has not come last: %q", text)
	}
}

// Disruption 7, FM K19: the events of pods about the annotation they carry.
func TestNotesOnAnnotations(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]event.Reason{
		"true": "", "30m": event.DoNotDisruptGracePeriodElapsed, "2h": event.DoNotDisruptUntil,
		"0s": event.InvalidDoNotDisruptAnnotation, "-1h": event.InvalidDoNotDisruptAnnotation, "false": event.InvalidDoNotDisruptAnnotation, "": event.InvalidDoNotDisruptAnnotation,
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			got := drain.Order([]*corev1.Pod{pod("p", protected(value))}, karpv1.DisruptedTaint(), drain.Limit{}, start)
			var reason event.Reason
			if len(got.Notes) > 0 {
				reason = got.Notes[0].Event.Reason
			}
			if reason != want {
				t.Errorf("note %q, want %q", reason, want)
			}
		})
	}
}
