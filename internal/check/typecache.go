package check

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// typeCache is what needs leave of the types of a pool. Nothing in it depends on the pods of a node, so new nodes with
// equal needs share one: most nodes of a large plan are alike.
type typeCache struct {
	needs    reqs.Set
	types    []string
	kinds    map[*catalog.InstanceType]*kind // filled on demand
	labelled map[string][]label              // filled on demand; see place.could
}

// kind is what needs leave of an instance type.
type kind struct {
	key      string // of the label on which the type and the needs disagree
	conflict bool
	open     []*catalog.Offering
	room     resources.Vec
	daemons  []*cluster.Shape // bySale
	overhead resources.Vec    // of those
}

// comparedCaches is how many caches of a pool are compared before a new one is made.
const comparedCaches = 16

// typeCacheOf finds the cache that a new node shares with an earlier one.
func (s *poolOfferings) typeCacheOf(n *solve.NewNode) *typeCache {
	for i := len(s.caches) - 1; i >= max(0, len(s.caches)-comparedCaches); i-- {
		if known := s.caches[i]; slices.Equal(known.types, n.Types) && known.needs.Equal(n.Needs) {
			return known
		}
	}
	made := newTypeCache(n.Needs)
	made.types = n.Types
	s.caches = append(s.caches, made)
	return made
}

func newTypeCache(needs reqs.Set) *typeCache {
	return &typeCache{needs: needs, kinds: map[*catalog.InstanceType]*kind{}, labelled: map[string][]label{}}
}

// typeAsNeeded returns what the needs leave of a type.
func (c *checker) typeAsNeeded(at *place, t *catalog.InstanceType, s *typeCache) *kind {
	if known := s.kinds[t]; known != nil {
		return known
	}
	k := &kind{room: t.Allocatable(), daemons: c.daemonsOf(at.offerings, t, byOffering)}
	k.key, k.conflict = labelsOf(t).Conflict(s.needs)
	k.overhead = total(k.daemons)
	// Available, launchable or not (V15-44: compatibility and fit go by available).
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Available && at.compatible(o, s.needs) {
			k.open = append(k.open, o)
		}
	}
	s.kinds[t] = k
	return k
}

// allocatable is what pods can use on a node that is launched as this offering.
func (k *kind) allocatable(o *catalog.Offering) resources.Vec {
	if o.Size != nil {
		return o.Size.Allocatable()
	}
	return k.room
}

func (k *kind) canHold(o *catalog.Offering, requests *resources.Vec) bool {
	have := k.allocatable(o)
	return resources.Fits(requests, &have)
}
