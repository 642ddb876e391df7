package solve_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// polls is a limit that expires after n polls.
func polls(n int) func() bool {
	return func() bool { n--; return n < 0 }
}

// Trust C04: if planning for the whole cluster is cut short before it has found anything, the step search still runs.
func TestTrust_C04_StepsAreSearchedAfterACutPlan(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{3, 20} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			pods := make([][]int64, nodes)
			for i := range pods {
				pods[i] = []int64{1500}
			}
			q := question(nodes, pods...)
			got := solve.ConsolidateWithin(q, solve.Limits{Joint: polls(0)})
			if !got.Partial || len(got.Moves) == 0 {
				t.Errorf("partial %v, moves %v; want some, and that not all was tried", got.Partial, got.Moves)
			}
			for _, k := range got.Kept {
				if k.Why.Code != reason.OutOfTime {
					t.Errorf("%s: %s", k.Node, k.Why.Text())
				}
			}
			got = solve.ConsolidateWithin(q, solve.Limits{Stop: polls(0)})
			if !got.Partial || len(got.Moves) > 0 || len(got.Unreached) > 0 {
				t.Errorf("stopped as a whole: %+v", got)
			}
		})
	}
}

// Trust C04, disruption 14: a step search that is cut short says which pools it had no time for, and begins with them
// if the question says so.
func TestTrust_C04_PoolsThatWereNotReachedGoFirst(t *testing.T) {
	t.Parallel()
	pods := make([][]int64, 20)
	for i := range pods {
		pods[i] = []int64{3900} // nothing can be saved, so that every node is tried
	}
	pods[19] = []int64{3950} // and it wastes least
	q := question(len(pods), pods...)
	other := q.View.Pools[0]
	other.Name = "q"
	q.View.Pools = append(q.View.Pools, other)
	q.View.Nodes[19].Pool = "q"
	seen := map[string]bool{}
	for n := range 60 {
		got := solve.ConsolidateWithin(q, solve.Limits{Joint: polls(0), Single: polls(n)})
		seen[fmt.Sprint(got.Unreached)] = true
		if !slices.Equal(got.Unreached, []string{"q"}) {
			continue
		}
		again := q
		again.First = got.Unreached
		if got := solve.ConsolidateWithin(again, solve.Limits{Joint: polls(0), Single: polls(n)}); slices.Contains(got.Unreached, "q") {
			t.Errorf("after %d polls pools %v were not reached, and q was to be first", n, got.Unreached)
		}
	}
	for _, want := range []string{"[p q]", "[q]", "[]"} {
		if !seen[want] {
			t.Errorf("with more and more time pools %v were not reached, want %s among them", seen, want)
		}
	}
}
