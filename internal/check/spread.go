package check

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// once names what is judged once for all pods of one shape that are in one domain.
type once struct {
	shape  *cluster.Shape
	index  int
	domain string
}

// counts are the pods that a spread constraint counts, by domain (SC-27, SC-28).
type counts struct {
	before map[string]int // there before the plan
	after  map[string]int // there in the end, as far as a single domain is left to them
}

// spreads judges every required spread constraint of every pod that comes (SC-26 to SC-32).
func (c *checker) spreads() {
	done := map[once]bool{}
	counted := map[once]counts{}
	for _, at := range c.places {
		for _, p := range at.come {
			shape := shapeOf(p.Shape)
			for i := range shape.Spread {
				s := &shape.Spread[i]
				if s.Soft || s.Selector.Is == nil { // relaxed, or inert (SC-30)
					continue
				}
				key := c.view.Words.Canonical(s.Key)
				domain, pinned := at.spot(key).only()
				if !pinned { // SC-32: the node is pinned to the domain chosen
					c.add(SpreadUnmet, "SC-32", "pod/"+p.Key.String(), "one domain of "+key, at.name+" with "+at.spot(key).String())
					continue
				}
				if this := (once{shape, i, domain}); !done[this] {
					done[this] = true
					group := once{shape: shape, index: i}
					if _, known := counted[group]; !known {
						counted[group] = c.count(shape, s, key)
					}
					c.skew(at, p, s, key, domain, counted[group])
				}
			}
		}
	}
}

// count counts the pods that a constraint sees.
func (c *checker) count(shape *cluster.Shape, s *cluster.Spread, key string) counts {
	n := counts{before: map[string]int{}, after: map[string]int{}}
	for _, at := range c.places {
		domain, pinned := at.spot(key).only()
		if !pinned || !c.seen(at, shape, s) {
			continue
		}
		for _, p := range at.stay {
			if selects(shape, s, p) && !p.Terminating {
				n.before[domain]++
				n.after[domain]++
			}
		}
		for _, p := range at.come {
			if selects(shape, s, p) {
				n.after[domain]++
			}
		}
	}
	return n
}

// selects reports whether the constraint of a shape counts the pod: its own namespace only (SC-36).
func selects(shape *cluster.Shape, s *cluster.Spread, p *cluster.Pod) bool {
	return p.Key.Namespace == shape.Namespace && s.Selector.Matches(shapeOf(p.Shape).Labels)
}

// seen is the node filter of SC-28.
func (c *checker) seen(at *place, shape *cluster.Shape, s *cluster.Spread) bool {
	if s.HonorTaint {
		if _, refused := untolerated(shape, at.taints()); refused {
			return false
		}
	}
	if s.AnyNode || at.node == nil && at.stock == nil {
		return true
	}
	if at.node != nil {
		return len(holding(at, shape.Required)) > 0
	}
	return slices.ContainsFunc(alternatives(shape.Required), func(term reqs.Set) bool {
		_, ok := reqs.Compatible(term, at.plan.Needs, reqs.Options{AllowUndefined: c.view.Words.WellKnownKeys})
		return ok
	})
}

func (p *place) taints() []corev1.Taint {
	switch {
	case p.node != nil:
		return p.node.Taints
	case p.stock != nil:
		return p.stock.pool.Taints
	default:
		return nil
	}
}

// skew judges one constraint in one domain that pods of this plan came to. The last of the pods that
// share the constraint saw all the others there, whatever the order, and the smallest count it can
// have seen elsewhere is at most the final one. So the sum of those before the plan and those that
// share the constraint must keep to maxSkew over the final minimum; pods that merely match the
// selector may have come later. Skew from before the plan in domains it does not touch is not judged.
func (c *checker) skew(at *place, p *cluster.Pod, s *cluster.Spread, key, domain string, n counts) {
	shape := shapeOf(p.Shape)
	have := n.before[domain]
	if selects(shape, s, p) {
		have += c.sharers(shape, s, key, domain)
	}
	least := 0
	if key != hostKey { // SC-32: a new host can always be made
		for _, strict := range strictly(at, shape) {
			least = max(least, c.least(shape, s, key, strict, n))
		}
	}
	if have-least > int(s.MaxSkew) {
		c.add(SpreadUnmet, "SC-32", "pod/"+p.Key.String(), fmt.Sprintf("maxSkew %d over %s", s.MaxSkew, key), fmt.Sprintf("%d in %s, %d elsewhere", have, domain, least))
	}
}

// strictly are the strict requirements (SC-13) that the planner may have gone by.
func strictly(at *place, shape *cluster.Shape) []reqs.Set {
	if hold := holding(at, shape.Required); len(hold) > 0 {
		return hold
	}
	return []reqs.Set{nil} // a fault of its own
}

// sharers counts the pods in a domain that the plan put there under the same constraint, or a
// tighter one of the same kind. On one host the node filter cannot tell them apart.
func (c *checker) sharers(shape *cluster.Shape, s *cluster.Spread, key, domain string) int {
	n := 0
	for _, at := range c.places {
		if d, pinned := at.spot(key).only(); !pinned || d != domain {
			continue
		}
		for _, p := range at.come {
			other := shapeOf(p.Shape)
			if selects(shape, s, p) && slices.ContainsFunc(other.Spread, func(o cluster.Spread) bool {
				return !o.Soft && c.view.Words.Canonical(o.Key) == key && o.Selector.Text == s.Selector.Text &&
					o.MaxSkew <= s.MaxSkew && (key == hostKey || sameFilter(shape, s, other, &o))
			}) {
				n++
			}
		}
	}
	return n
}

func sameFilter(a *cluster.Shape, s *cluster.Spread, b *cluster.Shape, o *cluster.Spread) bool {
	return s.MinDomains == o.MinDomains && s.AnyNode == o.AnyNode && s.HonorTaint == o.HonorTaint &&
		slices.EqualFunc(a.Required, b.Required, reqs.Set.Equal) &&
		(!s.HonorTaint || slices.EqualFunc(a.Tolerations, b.Tolerations, sameToleration))
}

func sameToleration(a, b corev1.Toleration) bool { return a.MatchToleration(&b) }

// least is the minimum of SC-32 over the domains that the pod's own requirements allow. Which domains
// exist has two readings, and the one kinder to the plan counts: everything SC-26 lists; or of that
// only what a node can be in, with sold-out offerings, types that the pool rules out and nodes that
// the filter of SC-28 does not see left aside, which is what kube-scheduler will go by.
func (c *checker) least(shape *cluster.Shape, s *cluster.Spread, key string, strict reqs.Set, n counts) int {
	best := 0
	for _, wide := range []bool{true, false} {
		least, domains := -1, 0
		for domain := range c.universe(shape, s, key, wide) {
			if !strict.Allows(key, domain) {
				continue
			}
			domains++
			if have := n.after[domain]; least < 0 || have < least {
				least = have
			}
		}
		if domains >= int(s.MinDomains) {
			best = max(best, least)
		}
	}
	return best
}

// universe are the domains of a key (SC-26).
func (c *checker) universe(shape *cluster.Shape, s *cluster.Spread, key string, wide bool) map[string]bool {
	domains := map[string]bool{}
	for i := range c.view.Pools {
		pool := &c.view.Pools[i]
		if pool.Closed {
			continue
		}
		if s.HonorTaint {
			if _, refused := untolerated(shape, pool.Taints); refused {
				continue
			}
		}
		c.poolDomains(pool, key, wide, domains)
	}
	for _, at := range c.places {
		if at.node != nil && !at.going && (wide || c.seen(at, shape, s)) {
			for _, d := range at.spot(key).values {
				domains[d] = true
			}
		}
	}
	return domains
}

// poolDomains adds the domains that nodes of a pool can be in: what types and offerings tell within
// the pool's requirements, and what the pool lists itself.
func (c *checker) poolDomains(pool *cluster.Pool, key string, wide bool, domains map[string]bool) {
	allowed, listed := pool.Requirements[key]
	told := false
	for i := range pool.Types {
		t := &pool.Types[i]
		if _, conflict := labelsOf(t).Conflict(pool.Requirements); conflict && !wide {
			continue
		}
		for _, d := range c.typeDomains(t, pool, key, wide) {
			told = true
			if !listed || allowed.Has(d) {
				domains[d] = true
			}
		}
	}
	if listed && !allowed.Not && (wide || !told) {
		for _, d := range allowed.Values {
			domains[d] = true
		}
	}
}

// typeDomains are the values that nodes of a type can have, by its labels or its offerings.
func (c *checker) typeDomains(t *catalog.InstanceType, pool *cluster.Pool, key string, wide bool) []string {
	if r, known := labelsOf(t)[key]; known {
		if r.Not {
			return nil
		}
		return r.Values
	}
	at := &place{words: c.view.Words}
	var values []string
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if d, found := at.labelOf(o, key); found && (wide || o.Available && at.compatible(o, pool.Requirements)) {
			values = append(values, d)
		}
	}
	return values
}
