package disrupt_test

import (
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// FM K27, disruption 25.5: an autoscaler of pods adds and removes a pod every 30 seconds, for an hour. A node
// it does that on is no candidate as long as consolidateAfter is longer than that, and becomes one this time
// after the last pod; with no wait it is one all along.
func TestFM_K27_AutoscalersOfPodsAreWaitedOut(t *testing.T) {
	t.Parallel()
	for quiet, want := range map[karpv1.Duration]struct {
		during int           // seconds of the hour in which it is a candidate
		after  time.Duration // since the last pod
	}{
		"0s":  {during: 3600},
		"31s": {after: 31 * time.Second},
		"45s": {after: 45 * time.Second},
		"5m":  {after: 5 * time.Minute},
	} {
		t.Run(string(quiet), func(t *testing.T) {
			t.Parallel()
			c := claim(time.Hour)
			pool := &karpv1.NodePool{}
			pool.Spec.Disruption.ConsolidateAfter = quiet
			candidate := func(now time.Time) bool {
				c.Status.Conditions, _ = disrupt.Marks(disrupt.MarkFacts{Claim: c, Pool: pool, Now: now})
				return condition.True(c.Status.Conditions, karpv1.ConditionConsolidatable)
			}
			during, last := 0, noon
			var events lifecycle.PodEvents
			for second := range 3600 {
				now := noon.Add(time.Duration(second) * time.Second)
				if second%30 == 0 {
					last = now
					events.Record("n", now)
				}
				if at, due := events.Due("n", c, now); due {
					c.Status.LastPodEventTime = metav1.NewTime(at)
				}
				if candidate(now) {
					during++
				}
			}
			if during != want.during {
				t.Errorf("a candidate for %d s of the hour, want %d", during, want.during)
			}
			now := last
			for !candidate(now) && now.Sub(last) < time.Hour {
				now = now.Add(time.Second)
			}
			if got := now.Sub(last); got != want.after {
				t.Errorf("a candidate %s after the last pod, want %s", got, want.after)
			}
		})
	}
	page, err := os.ReadFile("../../docs/how-to/pod-autoscalers.md")
	if err != nil || !strings.Contains(string(page), "HorizontalPodAutoscaler") || !strings.Contains(string(page), "consolidateAfter") {
		t.Errorf("the page about it is missing: %v", err)
	}
}
