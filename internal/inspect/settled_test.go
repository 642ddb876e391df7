package inspect_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/inspect"
	"github.com/dovetail-sh/dovetail/internal/snapshot/snapshottest"
)

// EX-41: a node that is left alone because of consolidateAfter is told until when, as far as that is known.
func TestEX_41_EndOfConsolidateAfter(t *testing.T) {
	t.Parallel()
	now := snapshottest.Now()
	for name, tc := range map[string]struct {
		after    karpv1.Duration
		last     time.Time // pod event; zero: none, so that it counts from when it was initialized, a day ago
		settling bool
		want     time.Time // zero: nothing is said
	}{
		"after a pod came":                    {"10m", now.Add(-4 * time.Minute), true, now.Add(6 * time.Minute)},
		"after it was initialized":            {"25h", time.Time{}, true, now.Add(time.Hour)},
		"never":                               {"Never", now, true, time.Time{}},
		"over, but not recorded yet":          {"1m", now.Add(-4 * time.Minute), true, time.Time{}},
		"over":                                {"1m", now.Add(-4 * time.Minute), false, time.Time{}},
		"consolidatable until it is reviewed": {"10m", now.Add(-4 * time.Minute), false, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := snapshottest.New(snapshottest.Options{Nodes: 1})
			f.Objects.NodePools[0].Spec.Disruption.ConsolidateAfter = tc.after
			claim := &f.Objects.NodeClaims[0]
			claim.Status.LastPodEventTime = metav1.NewTime(tc.last)
			if tc.settling {
				claim.Status.Conditions = slices.DeleteFunc(claim.Status.Conditions, func(c metav1.Condition) bool { return c.Type == karpv1.ConditionConsolidatable })
			}
			e := explain(t, clusterOf(t, f), inspect.KindNode, "node-0000")
			switch {
			case tc.want.IsZero() && (e.Node.Settled != nil || strings.Contains(encoded(t, e), "has passed, at")):
				t.Errorf("got %v: %s", e.Node.Settled, e.Answer)
			case !tc.want.IsZero() && (e.Node.Settled == nil || !e.Node.Settled.Equal(tc.want) || !strings.Contains(e.Answer, "until consolidateAfter has passed, at "+tc.want.Format(time.RFC3339)+", in ")):
				t.Errorf("got %v: %s; want %v", e.Node.Settled, e.Answer, tc.want)
			}
		})
	}
}
