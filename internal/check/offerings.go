package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// poolOfferings is a pool and what can be launched from it.
type poolOfferings struct {
	pool    *cluster.Pool
	types   map[string]*catalog.InstanceType
	daemons map[group][]*cluster.Shape // filled on demand
	caches  []*typeCache               // of the new nodes that are launched from it
}

// group names the DaemonSets of a type, in one reading of SC-23.
type group struct {
	name string
	by   overlap
}

// overlap is how a DaemonSet "overlaps the type's requirements", of which zones and capacity types are
// a part (SC-10) that here only offerings know. Pods must fit beside the fewest DaemonSets; the sum
// written on the claim may follow any reading.
type overlap int

const (
	byOffering overlap = iota // some offering that the pool allows satisfies it
	byOffers                  // for each label some offering does
	byLabels                  // offerings are ignored
)

func offeringsByPool(view *cluster.Snapshot) map[string]*poolOfferings {
	offerings := make(map[string]*poolOfferings, len(view.Pools))
	for i := range view.Pools {
		pool := &view.Pools[i]
		if offerings[pool.Name] != nil {
			continue // of two pools with one name the first counts
		}
		s := &poolOfferings{pool: pool, types: make(map[string]*catalog.InstanceType, len(pool.Types)), daemons: map[group][]*cluster.Shape{}}
		for j := range pool.Types {
			if t := &pool.Types[j]; s.types[t.Name] == nil {
				s.types[t.Name] = t
			}
		}
		offerings[pool.Name] = s
	}
	return offerings
}

// daemonsOf returns the DaemonSets that count for a type of the pool (SC-23).
func (c *checker) daemonsOf(s *poolOfferings, t *catalog.InstanceType, by overlap) []*cluster.Shape {
	of := group{t.Name, by}
	if known, found := s.daemons[of]; found {
		return known
	}
	side := s.pool.Requirements.Clone()
	side["karpenter.sh/registered"], side["karpenter.sh/initialized"] = one("true"), one("true")
	counted := []*cluster.Shape{}
	for i := range c.view.Daemons {
		shape := shapeOf(c.view.Daemons[i].Shape)
		if _, refused := untolerated(shape, s.pool.Taints); refused || len(shape.Invalid) > 0 || len(shape.Devices) > 0 { // DR-14
			continue
		}
		if slices.ContainsFunc(alternatives(shape.Required), func(term reqs.Set) bool {
			_, fits := reqs.Compatible(term, side, reqs.Options{AllowUndefined: c.view.Words.WellKnownKeys})
			_, conflict := labelsOf(t).Conflict(term)
			return fits && !conflict && c.offered(s.pool, t, term, by)
		}) {
			counted = append(counted, shape)
		}
	}
	s.daemons[of] = counted
	return counted
}

// offered reports whether the offerings of a type overlap a set. Exhausted ones count.
func (c *checker) offered(pool *cluster.Pool, t *catalog.InstanceType, want reqs.Set, by overlap) bool {
	if by == byLabels || len(t.Offerings) == 0 {
		return true
	}
	some := func(set reqs.Set) bool {
		at := &place{words: c.view.Words}
		return slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool { return at.compatible(&o, set) })
	}
	if by == byOffering {
		return some(pool.Requirements.Intersect(want))
	}
	for key, r := range want {
		if !some(reqs.Set{key: r}) {
			return false
		}
	}
	return true
}

func total(shapes []*cluster.Shape) resources.Vec {
	var sum resources.Vec
	for _, s := range shapes {
		sum = resources.Add(sum, s.Requests)
	}
	return sum
}

func shapesOf(pods []*cluster.Pod) []*cluster.Shape {
	shapes := make([]*cluster.Shape, 0, len(pods))
	for _, p := range pods {
		shapes = append(shapes, shapeOf(p.Shape))
	}
	return shapes
}

// shapeOf stands in for a shape that is missing, so that bad input is judged and not crashed on.
func shapeOf(s *cluster.Shape) *cluster.Shape {
	if s == nil {
		return &cluster.Shape{}
	}
	return s
}

// alternatives are terms of which one must hold; an empty list requires nothing.
func alternatives(terms []reqs.Set) []reqs.Set {
	if len(terms) == 0 {
		return []reqs.Set{{}}
	}
	return terms
}

// untolerated returns a taint that keeps the pod away. PreferNoSchedule never does: giving it up is
// the last step of relaxation (SC-14), and DaemonSets ignore it (SC-23).
func untolerated(s *cluster.Shape, taints []corev1.Taint) (string, bool) {
	for i := range taints {
		if taints[i].Effect != corev1.TaintEffectPreferNoSchedule && !toleratesOne(s, &taints[i]) {
			return taints[i].ToString(), true
		}
	}
	return "", false
}

// isDisliked reports whether the pod comes here only if PreferNoSchedule is given up.
func isDisliked(s *cluster.Shape, taints []corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectPreferNoSchedule && !toleratesOne(s, &t)
	})
}

func toleratesOne(s *cluster.Shape, taint *corev1.Taint) bool {
	return slices.ContainsFunc(s.Tolerations, func(t corev1.Toleration) bool { return tolerates(&t, taint) })
}

// tolerates follows the API: an empty effect, or an empty key with Exists, matches all of them.
func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return t.Value == taint.Value
	default: // comparisons are behind a gate that is off
		return false
	}
}
