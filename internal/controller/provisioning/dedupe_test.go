package provisioning

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dovetail-sh/dovetail/internal/cluster"
)

// Why a pod has no place is logged when it is news, and now and then, but not with every plan.
func TestRefusalsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	ctx := log.IntoContext(t.Context(), logger)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := &Provisioner{Now: func() time.Time { return now }}
	pod := cluster.PodKey{Namespace: "team", Name: "web"}
	round := func(text string, want int) {
		t.Helper()
		p.refusalsLogged = map[cluster.PodKey]loggedReason{pod: p.logOnce(ctx, p.refusalsLogged, "could not schedule pod", pod, text)}
		if len(lines) != want || want > 0 && !strings.Contains(lines[want-1], text) {
			t.Fatalf("%d lines, want %d:\n%s", len(lines), want, strings.Join(lines, "\n"))
		}
		now = now.Add(10 * time.Second)
	}
	for n, want := range []bool{false, true} {
		if got := p.allSeenBefore([]cluster.Pod{{Key: pod}}); got != want {
			t.Errorf("round %d: no news is %v", n, got)
		}
	}
	if p.allSeenBefore([]cluster.Pod{{Key: pod}, {Key: cluster.PodKey{Name: "new"}}}) {
		t.Error("a new pod is no news")
	}
	round("too big", 1)
	round("too big", 1)
	round("not tolerated", 2)
	now = now.Add(relogInterval)
	round("not tolerated", 3)
}
