package provisioning_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/controller/controllertest"
)

// Every node comes up with less than its type should have, and the pod does not fit. The second node is
// the last one for five minutes, then for ten; the pod hears why, and no other pod is blamed for taking its room.
func TestTrust_A15_NodesThatComeUpSmallAreNotBoughtOverAndOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newFixture(t)
		var lines []string
		ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		l.add(controllertest.ReadyPool("general"), controllertest.PendingPod("web", "1500m"))
		start, joined := time.Now(), map[string]bool{}
		var ordered []time.Duration
		for time.Since(start) < 20*time.Minute {
			l.Pass(ctx)
			l.launchAll()
			for _, claim := range l.claims() {
				if joined[claim.Name] {
					continue
				}
				joined[claim.Name] = true
				ordered = append(ordered, time.Since(start))
				l.join(&claim, "500m")
			}
			time.Sleep(10 * time.Second)
		}
		for i := range len(ordered) - 2 {
			if ordered[i+2]-ordered[i] < 5*time.Minute {
				t.Fatalf("nodes were launched for one pod after %v: more than two within five minutes", ordered)
			}
		}
		if len(ordered) < 3 || len(ordered) > 4 {
			t.Errorf("%d nodes within 20 minutes, after %v; want the third after five minutes, the fourth after ten more", len(ordered), ordered)
		}
		if !l.emitted.Saw("web FailedScheduling", "came up with", "cpu") {
			t.Errorf("the pod does not hear why it waits: %q", l.emitted.Said)
		}
		text := strings.Join(lines, "\n")
		if strings.Contains(text, "other pods were scheduled") {
			t.Errorf("others are said to have taken the room:\n%s", text)
		}
		if !strings.Contains(text, "came up smaller than planned") {
			t.Errorf("the log does not say that nodes are small:\n%s", text)
		}
	})
}
