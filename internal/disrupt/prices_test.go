package disrupt_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/script"
)

// scripted is the view of a cluster that a script describes.
func scripted(t *testing.T, text string) disrupt.View {
	t.Helper()
	w := script.New()
	if _, err := w.Run(text); err != nil {
		t.Fatal(err)
	}
	view, pending := w.Snapshot()
	return viewOf(view, pending, w.Policy())
}

// started is what a decision removes, by reason.
func started(d disrupt.Decision) map[karpv1.DisruptionReason][]string {
	out := map[karpv1.DisruptionReason][]string{}
	for _, c := range d.Commands {
		for _, r := range c.Remove {
			out[c.Reason] = append(out[c.Reason], r.Node)
		}
	}
	return out
}

// FM P05: before prices were read once, nothing is decided that compares or chooses by them. What needs none
// goes on.
func TestFM_P05_FirstDecisionsUseFreshPrices(t *testing.T) {
	t.Parallel()
	const types = "type name=big cpu=8 price=8\ntype name=small cpu=2 price=1\npool name=default\n"
	const half = types + "node name=n1 pool=default type=big\nbound name=p1 cpu=1 node=n1\n"
	drifted := func(v *disrupt.View) { v.Nodes[0].Drift = "AMIDrift" }
	for name, tc := range map[string]struct {
		text        string
		change      func(v *disrupt.View)
		known, wait map[karpv1.DisruptionReason][]string // what is removed once prices are known, and before
	}{
		"a node that a smaller one can replace": {
			text: half, known: map[karpv1.DisruptionReason][]string{karpv1.ReasonUnderutilized: {"n1"}}, wait: map[karpv1.DisruptionReason][]string{},
		},
		"a node that drifted": {
			text: half, change: drifted, known: map[karpv1.DisruptionReason][]string{karpv1.ReasonDrifted: {"n1"}}, wait: map[karpv1.DisruptionReason][]string{},
		},
		"an empty node": {
			text:  types + "node name=n1 pool=default type=big\n",
			known: map[karpv1.DisruptionReason][]string{karpv1.ReasonEmpty: {"n1"}}, wait: map[karpv1.DisruptionReason][]string{karpv1.ReasonEmpty: {"n1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := scripted(t, tc.text)
			if tc.change != nil {
				tc.change(&v)
			}
			if diff := cmp.Diff(tc.known, started(disrupt.Next(v, never))); diff != "" {
				t.Errorf("prices are known (-want +got):\n%s", diff)
			}
			v.Unpriced = true
			if diff := cmp.Diff(tc.wait, started(disrupt.Next(v, never))); diff != "" {
				t.Errorf("prices were not read yet (-want +got):\n%s", diff)
			}
		})
	}
}

// conditionKey is a cluster of one node and two types of the same size, at prices of the moment, of which a replacement
// must save a tenth, as settings have it unless set otherwise.
func conditionKey(t *testing.T, node string, a, b float64) disrupt.View {
	t.Helper()
	v := scripted(t, fmt.Sprintf("type name=a cpu=4 price=%g\ntype name=b cpu=4 price=%g\npool name=default\nnode name=n1 pool=default type=%s\nbound name=p1 cpu=3 node=n1\n", a, b, node))
	v.Tuning.MinSaving = 0.1
	return v
}

// FM P03: prices that jump by a fifth at each refresh cause no ping-pong. The share that a replacement must save
// keeps nodes from following the price of one type: a tenth keeps them through jumps of less than that, a fifth
// through these. What is left keeps to consolidateAfter.
func TestFM_P03_PricesJump(t *testing.T) {
	t.Parallel()
	const low, high = 0.8, 1.2
	moves := func(v disrupt.View) bool { return len(disrupt.Next(v, never).Commands) > 0 }

	t.Run("all prices together", func(t *testing.T) {
		t.Parallel()
		for _, now := range []float64{high, low, high, low} {
			if moves(conditionKey(t, "a", now, now)) {
				t.Errorf("at %g of the price a node is replaced by its like", now)
			}
		}
	})
	for _, tc := range []struct{ share, jump float64 }{{0.1, 0.1}, {0.2, 0.2}} {
		t.Run(fmt.Sprintf("of one type alone, by %g", tc.jump), func(t *testing.T) {
			t.Parallel()
			at := func(node string, price float64) bool {
				v := conditionKey(t, node, 1, price)
				v.Tuning.MinSaving = tc.share
				return moves(v)
			}
			if !at("a", 1-tc.jump-0.01) {
				t.Fatalf("more than %g is not saved", tc.share)
			}
			for _, now := range []float64{1 + tc.jump, 1 - tc.jump, 1 + tc.jump} {
				if at("b", now) {
					t.Errorf("it moved there, and moves back at %g of the price", now)
				}
			}
		})
	}
	t.Run("of both, against each other", func(t *testing.T) {
		t.Parallel()
		if !moves(conditionKey(t, "a", high, low)) {
			t.Fatal("a third is not saved")
		}
		// The replacement came up a moment ago, as its claim says, and the next refresh turns the prices round.
		pool := &karpv1.NodePool{}
		pool.Spec.Disruption.ConsolidateAfter = "10m"
		replacement := claim(time.Second)
		back := func(later time.Duration) bool {
			v := conditionKey(t, "b", low, high)
			now := noon.Add(later)
			replacement.Status.Conditions, _ = disrupt.Marks(disrupt.MarkFacts{Claim: replacement, Pool: pool, Now: now})
			v.Nodes[0].Settling = !condition.True(replacement.Status.Conditions, karpv1.ConditionConsolidatable)
			return moves(v)
		}
		replacement.Status.LastPodEventTime = metav1.NewTime(noon)
		if back(0) || back(9*time.Minute+59*time.Second) {
			t.Error("it is swapped back within consolidateAfter")
		}
		if !back(10 * time.Minute) {
			t.Error("a third is not saved once consolidateAfter is over")
		}
	})
}
