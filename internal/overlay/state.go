package overlay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

const (
	// CollectFor is how long further changes of overlays, pools and classes are awaited, to evaluate them together.
	CollectFor = 100 * time.Millisecond

	reevaluate = 6 * time.Hour // although nothing changed

	// Bounds of the back-off after a failed evaluation.
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
)

// maxResults bounds the cache of results. Each belongs to a list of the cloud, of which there are few at a time.
const maxResults = 64

// State is the set of overlays that counts, and what it made of instance types. The zero value has read no overlays yet. It
// is not safe for concurrent use.
type State struct {
	loaded    bool // overlays were read at least once
	none      bool // there are no overlays
	set       *Set
	evaluated map[string]Pool // the last list of each pool
	catalogue catalogue
	found     string // identifies objects and verdicts of the set
	results   map[resultKey]*result
	uses      uint64
	failures  int // evaluations in a row
}

// Evaluation is what an evaluation of all overlays found.
type Evaluation struct {
	Objects  []v1alpha1.NodeOverlay
	Verdicts []Verdict // of each object
	Pools    []Pool    // that they were evaluated for; without overlays none has to be
	Set      *Set
}

// resultKey identifies the input of a result: the list of the cloud, which stays the same while nothing changes, and
// what overlays can see of the pool.
type resultKey struct {
	list  *catalog.InstanceType
	n     int
	scope string
}

type result struct {
	types []catalog.InstanceType
	used  uint64
}

// Covers reports whether overlays were evaluated for a pool. Until then nothing can be said about its instance types.
func (s *State) Covers(pool string) bool {
	_, evaluated := s.evaluated[pool]
	return s.loaded && (s.none || evaluated)
}

// Evaluated is a pool with its instance types as overlays were last evaluated for it.
func (s *State) Evaluated(pool string) (Pool, bool) {
	of, known := s.evaluated[pool]
	return of, known
}

// Table has a lane for every resource of every overlay.
func (s *State) Table() resources.Table { return s.set.Table() }

// Swap makes the set of an evaluation the one that counts. If it says the same as the last one, that one stays, and so do all
// results. It reports whether the set is another one, and whether pods and nodes may be planned for in another way now.
func (s *State) Swap(e Evaluation) (swapped, replan bool) {
	evaluated := map[string]Pool{}
	var found strings.Builder
	for i := range e.Objects {
		fmt.Fprintf(&found, "%s %d %s\n", e.Objects[i].UID, e.Objects[i].Generation, e.Verdicts[i].Reason)
	}
	for _, p := range e.Pools {
		evaluated[p.Name] = p
		fmt.Fprintf(&found, "%s %v\n", p.Name, p.Labels)
	}
	s.evaluated, s.none = evaluated, len(e.Objects) == 0
	if s.loaded && s.found == found.String() {
		return false, false
	}
	first := !s.loaded
	s.set, s.found, s.loaded, s.results = e.Set, found.String(), true, map[resultKey]*result{}
	return true, !first || !s.none
}

// Next is when overlays are evaluated again although nothing changes, after an evaluation that succeeded or failed.
func (s *State) Next(failed bool) time.Duration {
	if !failed {
		s.failures = 0
		return reevaluate
	}
	wait := min(firstRetry<<min(s.failures, 20), longestRetry)
	s.failures++
	return wait
}

// Outdated reports whether a pool that is covered is offered other types than overlays were evaluated for, or in other
// places: verdicts may be others now.
func (s *State) Outdated(pool Pool) bool {
	return !s.none && s.catalogue.differs(s.evaluated[pool.Name].Types, pool.Types)
}

// Apply returns the instance types of a pool that is covered as overlays make them, computed once for each list that the
// cloud returns.
func (s *State) Apply(pool Pool) []catalog.InstanceType {
	if s.none || len(pool.Types) == 0 || s.set.Len() == 0 {
		return pool.Types
	}
	s.uses++
	key := resultKey{&pool.Types[0], len(pool.Types), s.set.Scope(pool.Name, pool.Labels)}
	if known := s.results[key]; known != nil {
		known.used = s.uses
		return known.types
	}
	if len(s.results) >= maxResults {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(s.results)), func(a, b resultKey) int { // any order: uses differ
			return cmp.Compare(s.results[a].used, s.results[b].used)
		})
		delete(s.results, oldest)
	}
	made := &result{types: s.set.Apply(pool), used: s.uses}
	s.results[key] = made
	return made.types
}
