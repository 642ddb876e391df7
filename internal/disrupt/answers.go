package disrupt

import (
	"reflect"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Answers caches the results of the last searches for moves. Passes run more often than the cluster changes in a way
// that consolidation sees, and the same question has the same result: a decision is the same with or without the
// cache. The zero Answers is empty. It must not be used by two decisions at once.
type Answers struct {
	list []answered // the latest last
}

type answered struct {
	question solve.Question
	answer   solve.Consolidation
}

// maxAnswers is the size of the cache: the questions of one pass.
const maxAnswers = maxSearches

// find returns the cached result of a question. A nil Answers has none.
func (a *Answers) find(q solve.Question) (solve.Consolidation, bool) {
	if a == nil {
		return solve.Consolidation{}, false
	}
	at := slices.IndexFunc(a.list, func(old answered) bool { return sameQuestion(old.question, q) })
	if at < 0 {
		return solve.Consolidation{}, false
	}
	known := a.list[at]
	a.list = append(slices.Delete(a.list, at, at+1), known)
	return cloneAnswer(known.answer), true
}

// record caches a result, unless time was up before it was complete: there may be a better one.
func (a *Answers) record(q solve.Question, answer solve.Consolidation) {
	if a == nil || answer.Partial || len(answer.Unreached) > 0 {
		return
	}
	if len(a.list) == maxAnswers {
		a.list = slices.Delete(a.list, 0, 1)
	}
	a.list = append(a.list, answered{q, cloneAnswer(answer)})
}

// sameQuestion reports whether a search sees no difference between two questions. Of a snapshot, it reads neither the
// version nor the time.
func sameQuestion(a, b solve.Question) bool {
	return slices.Equal(a.Candidates, b.Candidates) && reflect.DeepEqual(timeless(a), timeless(b))
}

func timeless(q solve.Question) solve.Question {
	view := cluster.Snapshot{}
	if q.View != nil {
		view = *q.View
	}
	view.Version, view.Now = 0, time.Time{}
	q.View = &view
	return q
}

// cloneAnswer copies the parts of a result that commands use and may change.
func cloneAnswer(c solve.Consolidation) solve.Consolidation {
	c.Kept, c.Moves = slices.Clone(c.Kept), slices.Clone(c.Moves)
	for i := range c.Moves {
		m := &c.Moves[i]
		m.Remove, m.Bind, m.Create = slices.Clone(m.Remove), slices.Clone(m.Bind), slices.Clone(m.Create)
		for j := range m.Create {
			m.Create[j].Types, m.Create[j].Pods = slices.Clone(m.Create[j].Types), slices.Clone(m.Create[j].Pods)
		}
	}
	return c
}
