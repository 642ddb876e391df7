package disrupt_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Trust A02: Consolidatable=True beside an event Unconsolidatable is no contradiction: the condition says
// that it reports candidates, and where to read why one stays.
func TestTrust_A02_ConsolidatableMeansCandidate(t *testing.T) {
	t.Parallel()
	pool := &karpv1.NodePool{}
	pool.Spec.Disruption.ConsolidateAfter = "30s"
	c := claim(time.Minute)
	list, _ := disrupt.Marks(disrupt.MarkFacts{Claim: c, Pool: pool, Now: noon})
	got := condition.Find(list, karpv1.ConditionConsolidatable)
	if got == nil || got.Status != metav1.ConditionTrue {
		t.Fatalf("conditions are %v, want one that is Consolidatable", list)
	}
	for _, part := range []string{"consolidateAfter", "candidate", string(event.Unconsolidatable)} {
		if !strings.Contains(got.Message, part) {
			t.Errorf("the condition says %q, want something about %s", got.Message, part)
		}
	}
	c.Status.Conditions = list
	again, _ := disrupt.Marks(disrupt.MarkFacts{Claim: c, Pool: pool, Now: noon.Add(time.Hour)})
	if !slices.Equal(list, again) {
		t.Error("a condition that holds is written again")
	}
}

// Trust A02: consolidateAfter means what it says. A node whose quiet time is over is replaced however young it is,
// and a saving of a tenth is enough; what users set instead counts.
func TestTrust_A02_ConsolidateAfterAlone(t *testing.T) {
	t.Parallel()
	const world = "type name=a cpu=4 price=1\ntype name=b cpu=4 price=%s\npool name=default\nnode name=n1 pool=default type=a\nbound name=p1 cpu=3 node=n1\n"
	for name, tc := range map[string]struct {
		price  string
		tuning func(*disrupt.Tuning)
		want   bool
	}{
		"a tenth is enough":                        {price: "0.89", want: true},
		"less is not":                              {price: "0.91"},
		"unless any saving will do":                {price: "0.97", tuning: func(t *disrupt.Tuning) { t.AnySaving, t.PodCost = true, 0 }, want: true},
		"but the evictions must pay":               {price: "0.9999", tuning: func(t *disrupt.Tuning) { t.AnySaving = true }},
		"which they need not do if moves are free": {price: "0.9995", tuning: func(t *disrupt.Tuning) { t.AnySaving, t.PodCost = true, 0 }, want: true},
		"no saving is none":                        {price: "1", tuning: func(t *disrupt.Tuning) { t.AnySaving, t.PodCost = true, 0 }},
		"a node that has to have an age":           {price: "0.5", tuning: func(t *disrupt.Tuning) { t.MinAge = 10 * time.Minute }},
		"a share that is set":                      {price: "0.81", tuning: func(t *disrupt.Tuning) { t.MinSaving = 0.2 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := scripted(t, strings.ReplaceAll(world, "%s", tc.price))
			v.Tuning = disrupt.Tuning{Horizon: 24 * time.Hour, PodCost: 0.01, MinSaving: 0.1}
			v.Nodes[0].Created = v.Now.Add(-time.Minute)
			if tc.tuning != nil {
				tc.tuning(&v.Tuning)
			}
			if got := len(disrupt.Next(v, never).Commands) > 0; got != tc.want {
				t.Errorf("the node goes: %v, want %v", got, tc.want)
			}
		})
	}
}
