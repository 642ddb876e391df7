package solve_test

import (
	"math/rand/v2"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/check/random"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// B03: a preference is reported as the reason for keeping a node only if the node could be removed without
// preferences. Which preference it is, is tested by scripts (preferences.txt).
func TestTrust_B03_PreferencesThatHoldNodesAreNamed(t *testing.T) {
	t.Parallel()
	named := 0
	for seed := range uint64(1000) {
		q := random.Question(rand.New(rand.NewPCG(seed, 3)), random.Options{Nodes: 6})
		q.Policy.IgnorePreferences = false
		result := solve.Consolidate(q, stopIf(false))
		if len(result.Moves) > 0 {
			continue
		}
		free := q
		free.Policy.IgnorePreferences = true
		for _, v := range result.Kept {
			if v.Why.Code != reason.PreferenceKept {
				continue
			}
			named++
			free.Candidates = []string{v.Node}
			if len(solve.Consolidate(free, stopIf(false)).Moves) == 0 {
				t.Errorf("seed %d: %s; but without preferences it stays too", seed, v.Why.Text())
			}
		}
	}
	if named == 0 {
		t.Error("no preference holds any node")
	}
}
