package disrupt

import (
	"reflect"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// SearchCache caches the results of the last searches for moves. Passes run more often than the cluster changes in a way
// that consolidation sees, and the same question has the same result: a decision is the same with or without the
// cache. The zero SearchCache is empty. It must not be used by two decisions at once.
type SearchCache struct {
	list []cachedSearch // the latest last
}

type cachedSearch struct {
	question solve.Question
	result   solve.Consolidation
}

// maxCached is the size of the cache: the questions of one pass.
const maxCached = maxSearches

// find returns the cached result of a question. A nil SearchCache has none.
func (s *SearchCache) find(q solve.Question) (solve.Consolidation, bool) {
	if s == nil {
		return solve.Consolidation{}, false
	}
	at := slices.IndexFunc(s.list, func(old cachedSearch) bool { return sameQuestion(old.question, q) })
	if at < 0 {
		return solve.Consolidation{}, false
	}
	known := s.list[at]
	s.list = append(slices.Delete(s.list, at, at+1), known)
	return cloneResult(known.result), true
}

// record caches a result, unless time was up before it was complete: there may be a better one.
func (s *SearchCache) record(q solve.Question, result solve.Consolidation) {
	if s == nil || result.Partial || len(result.Unreached) > 0 {
		return
	}
	if len(s.list) == maxCached {
		s.list = slices.Delete(s.list, 0, 1)
	}
	s.list = append(s.list, cachedSearch{q, cloneResult(result)})
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

// cloneResult copies the parts of a result that commands use and may change.
func cloneResult(c solve.Consolidation) solve.Consolidation {
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
