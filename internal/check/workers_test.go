package check_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/solve"
)

// The two ways of looking for moves may run at once, on models that share memory.
func TestWorkersNeverMatterToMoves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := questions(some()).Draw(t, "question")
		q.Policy.Workers = 1
		alone := solve.Consolidate(q, never)
		q.Policy.Workers = 8
		if diff := cmp.Diff(describe(alone), describe(solve.Consolidate(q, never))); diff != "" {
			t.Fatalf("one worker and eight (-one +eight):\n%s\nquestion %s", diff, describe(q))
		}
	})
}
