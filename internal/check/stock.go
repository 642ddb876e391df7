package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
)

// stock is a pool and what can be bought from it.
type stock struct {
	pool    *cluster.Pool
	types   map[string]*catalog.InstanceType
	daemons map[string][]*cluster.Shape // by type, filled on demand
}

func stocksOf(view *cluster.Snapshot) map[string]*stock {
	stocks := make(map[string]*stock, len(view.Pools))
	for i := range view.Pools {
		pool := &view.Pools[i]
		if stocks[pool.Name] != nil {
			continue // of two pools with one name the first counts
		}
		s := &stock{pool: pool, types: make(map[string]*catalog.InstanceType, len(pool.Types)), daemons: map[string][]*cluster.Shape{}}
		for j := range pool.Types {
			if t := &pool.Types[j]; s.types[t.Name] == nil {
				s.types[t.Name] = t
			}
		}
		stocks[pool.Name] = s
	}
	return stocks
}

// daemonsOf returns the DaemonSets that count for a type of the pool (SC-23).
func (c *checker) daemonsOf(s *stock, t *catalog.InstanceType) []*cluster.Shape {
	if known, found := s.daemons[t.Name]; found {
		return known
	}
	side := s.pool.Requirements.Clone()
	side["karpenter.sh/registered"], side["karpenter.sh/initialized"] = one("true"), one("true")
	counted := []*cluster.Shape{}
	for i := range c.view.Daemons {
		shape := shapeOf(c.view.Daemons[i].Shape)
		if _, refused := untolerated(shape, s.pool.Taints); refused {
			continue
		}
		if slices.ContainsFunc(alternatives(shape.Required), func(term reqs.Set) bool {
			_, fits := reqs.Compatible(term, side, reqs.Options{AllowUndefined: c.view.Words.WellKnownKeys})
			return fits && overlaps(t, term)
		}) {
			counted = append(counted, shape)
		}
	}
	s.daemons[t.Name] = counted
	return counted
}

// overlaps reports whether some node of the type could satisfy the set, as far as the type decides.
// The zones and capacity types of a type are those of all its offerings, sold out or not.
func overlaps(t *catalog.InstanceType, want reqs.Set) bool {
	if _, conflict := labelsOf(t).Conflict(want); conflict {
		return false
	}
	offered := func(key string, value func(*catalog.Offering) string) bool {
		r, asked := want[key]
		if _, told := t.Labels[key]; !asked || told {
			return true
		}
		for i := range t.Offerings {
			if r.Has(value(&t.Offerings[i])) {
				return true
			}
		}
		return len(t.Offerings) == 0
	}
	return offered(zoneKey, func(o *catalog.Offering) string { return o.Zone }) &&
		offered(capacityKey, func(o *catalog.Offering) string { return o.CapacityType })
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

// alternatives are terms of which one must hold; no terms at all ask for nothing.
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
		taint := &taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(s.Tolerations, func(t corev1.Toleration) bool { return tolerates(&t, taint) }) {
			return taint.ToString(), true
		}
	}
	return "", false
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
