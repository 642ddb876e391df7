package check

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// rule is one spread constraint of one shape, in one reading of which taints are honoured.
type rule struct {
	shape *cluster.Shape
	*cluster.Spread
	key string // canonical
	shy bool   // PreferNoSchedule counts as a taint: the pod has not given it up
}

// counts are the pods that a spread constraint counts, by domain (SC-27, SC-28).
type counts struct {
	before map[string]int // there before the plan
	after  map[string]int // there in the end, as far as a single domain is left to them
}

// checkSpreads judges every required spread constraint of every pod that comes (SC-26 to SC-32), once for
// all pods of one shape in one domain.
func (c *checker) checkSpreads() {
	type once struct {
		constraint *cluster.Spread
		domain     string
		disliked   bool
	}
	done := map[once]bool{}
	counted := map[rule]counts{}
	for _, at := range c.places {
		for _, p := range at.come {
			shape := shapeOf(p.Shape)
			for i := range shape.Spread {
				s := &shape.Spread[i]
				if s.Soft || s.Selector.Is == nil { // relaxed, or inert (SC-30)
					continue
				}
				key := c.view.Words.Canonical(s.Key)
				domain, pinned := at.domainOf(key).onlyDomain()
				if !pinned { // SC-32: the node is pinned to the domain chosen
					c.add(SpreadUnmet, "SC-32", "pod/"+p.Key.String(), "one domain of "+key, at.name+" with "+at.domainOf(key).String())
					continue
				}
				if this := (once{s, domain, isDisliked(shape, at.taints())}); !done[this] {
					done[this] = true
					c.checkSkew(at, p, rule{shape: shape, Spread: s, key: key}, domain, counted)
				}
			}
		}
	}
}

// checkSkew judges one constraint in one domain that pods of this plan came to. With nodeTaintsPolicy Honor
// a pod that has not given up PreferNoSchedule does not see such nodes, one that has does; which of
// the two a pod is shows only where it is on such a node.
func (c *checker) checkSkew(at *place, p *cluster.Pod, r rule, domain string, counted map[rule]counts) {
	text, bad := c.exceedsSkew(at, p, r, domain, counted)
	if bad && r.HonorTaint && !isDisliked(r.shape, at.taints()) {
		r.shy = true
		_, bad = c.exceedsSkew(at, p, r, domain, counted)
	}
	if bad {
		c.add(SpreadUnmet, "SC-32", "pod/"+p.Key.String(), fmt.Sprintf("maxSkew %d over %s", r.MaxSkew, r.key), text)
	}
}

// exceedsSkew compares. The last of the pods that share the constraint saw all the others there, whatever
// the order, and the smallest count it can have seen elsewhere is at most the final one. So those
// before the plan and those that share the constraint must together keep to maxSkew over the final
// minimum; pods that merely match the selector may have come later. Of alternatives with different
// domains each is judged by itself: pods that may have gone by another one may have come later, too.
// Skew from before the plan in domains it does not touch is not judged.
func (c *checker) exceedsSkew(at *place, p *cluster.Pod, r rule, domain string, counted map[rule]counts) (string, bool) {
	n, known := counted[r]
	if !known {
		n = c.count(r)
		counted[r] = n
	}
	text := ""
	for _, strict := range strictTerms(at, r.shape) {
		have, least := n.before[domain], 0
		if r.selects(p) {
			have += max(1, c.countSharers(r, domain, strict))
		}
		if r.key != hostKey { // SC-32: a new host can always be made
			least = c.minimumCount(r, strict, n)
		}
		if have-least <= int(r.MaxSkew) {
			return "", false
		}
		text = fmt.Sprintf("%d in %s, %d elsewhere", have, domain, least)
	}
	return text, true
}

// count counts the pods that a constraint sees.
func (c *checker) count(r rule) counts {
	n := counts{before: map[string]int{}, after: map[string]int{}}
	for _, at := range c.places {
		domain, pinned := at.domainOf(r.key).onlyDomain()
		if !pinned || !c.nodeCounts(at, r) {
			continue
		}
		for _, p := range at.stay {
			if r.selects(p) && !p.Terminating {
				n.before[domain]++
				n.after[domain]++
			}
		}
		for _, p := range at.come {
			if r.selects(p) {
				n.after[domain]++
			}
		}
	}
	return n
}

// selects reports whether the constraint counts the pod: its own namespace only (SC-36).
func (r rule) selects(p *cluster.Pod) bool {
	return p.Key.Namespace == r.shape.Namespace && r.Selector.Matches(shapeOf(p.Shape).Labels)
}

// countsTaintedNodes reports whether nodes with the taints count (SC-28).
func (r rule) countsTaintedNodes(taints []corev1.Taint) bool {
	if !r.HonorTaint {
		return true
	}
	_, refused := untolerated(r.shape, taints)
	return !refused && (!r.shy || !isDisliked(r.shape, taints))
}

// nodeCounts is the node filter of SC-28.
func (c *checker) nodeCounts(at *place, r rule) bool {
	if !r.countsTaintedNodes(at.taints()) {
		return false
	}
	if r.AnyNode || at.node == nil && at.offerings == nil {
		return true
	}
	if at.node != nil {
		return len(holding(at, r.shape.Required)) > 0
	}
	return slices.ContainsFunc(alternatives(r.shape.Required), func(term reqs.Set) bool {
		_, ok := reqs.Compatible(term, at.plan.Needs, reqs.Options{AllowUndefined: c.view.Words.WellKnownKeys})
		return ok
	})
}

func (p *place) taints() []corev1.Taint {
	switch {
	case p.node != nil:
		return p.node.Taints
	case p.offerings != nil:
		return p.offerings.pool.Taints
	default:
		return nil
	}
}

// strictTerms are the strict requirements (SC-13) that the planner may have gone by.
func strictTerms(at *place, shape *cluster.Shape) []reqs.Set {
	if hold := holding(at, shape.Required); len(hold) > 0 {
		return hold
	}
	return []reqs.Set{nil} // a fault of its own
}

// countSharers counts the pods in a domain that the plan put there under the same constraint, or a tighter one of the same
// kind, and over the domains that strict allows. On one host neither the node filter nor other domains distinguish
// them.
func (c *checker) countSharers(r rule, domain string, strict reqs.Set) int {
	n := 0
	for _, at := range c.places {
		if d, pinned := at.domainOf(r.key).onlyDomain(); !pinned || d != domain {
			continue
		}
		if r.key != hostKey && slices.ContainsFunc(strictTerms(at, r.shape), func(s reqs.Set) bool { return !s[r.key].Equal(strict[r.key]) }) {
			continue
		}
		for _, p := range at.come {
			other := shapeOf(p.Shape)
			if r.selects(p) && slices.ContainsFunc(other.Spread, func(o cluster.Spread) bool {
				return !o.Soft && c.view.Words.Canonical(o.Key) == r.key && o.Selector.Text == r.Selector.Text &&
					o.MaxSkew <= r.MaxSkew && (r.key == hostKey || r.sameFilter(other, &o))
			}) {
				n++
			}
		}
	}
	return n
}

func (r rule) sameFilter(other *cluster.Shape, o *cluster.Spread) bool {
	return r.MinDomains == o.MinDomains && r.AnyNode == o.AnyNode && r.HonorTaint == o.HonorTaint &&
		slices.EqualFunc(r.shape.Required, other.Required, reqs.Set.Equal) &&
		(!r.HonorTaint || slices.EqualFunc(r.shape.Tolerations, other.Tolerations, sameToleration))
}

func sameToleration(a, b corev1.Toleration) bool { return a.MatchToleration(&b) }

// minimumCount is the minimum of SC-32 over the domains that the pod's own requirements allow. Which domains exist has two
// readings, and the one more favourable to the plan counts. The first is everything that SC-26 lists. The second is
// only the domains that a node can be in. It ignores offerings with insufficient capacity, types that the pool
// excludes, pools that can launch nothing, and nodes that the filter of SC-28 excludes. This is closer to what
// kube-scheduler does.
func (c *checker) minimumCount(r rule, strict reqs.Set, n counts) int {
	best := 0
	for _, wide := range []bool{true, false} {
		least, domains := -1, 0
		// any order: the least is kept
		for domain := range c.allDomains(r, wide) {
			if !strict.Allows(r.key, domain) {
				continue
			}
			domains++
			if have := n.after[domain]; least < 0 || have < least {
				least = have
			}
		}
		if domains >= int(r.MinDomains) {
			best = max(best, least)
		}
	}
	return best
}

// allDomains are the domains of a key (SC-26).
func (c *checker) allDomains(r rule, wide bool) map[string]bool {
	domains := map[string]bool{}
	for i := range c.view.Pools {
		pool := &c.view.Pools[i]
		if !pool.Closed && r.countsTaintedNodes(pool.Taints) {
			c.poolDomains(pool, r.key, wide, domains)
		}
	}
	for _, at := range c.places {
		if at.node != nil && !at.terminating && (wide || c.nodeCounts(at, r)) {
			for _, d := range at.domainOf(r.key).values {
				_, certain := at.domainOf(r.key).onlyDomain() // not of a claim that may yet land elsewhere
				if wide || certain {
					domains[d] = true
				}
			}
		}
	}
	return domains
}

// poolDomains adds the domains that nodes of a pool can be in: the values of types and offerings within the pool's
// requirements, and those that the pool lists itself. A pool that can launch nothing does not count (SC-09).
func (c *checker) poolDomains(pool *cluster.Pool, key string, wide bool, domains map[string]bool) {
	allowed, listed := pool.Requirements[key]
	at := &place{words: c.view.Words}
	canLaunch, hasDomains := false, false
	for i := range pool.Types {
		t := &pool.Types[i]
		if _, conflict := labelsOf(t).Conflict(pool.Requirements); conflict && !wide {
			continue
		}
		hasDomains = hasDomains || len(c.typeDomains(at, t, key, nil)) > 0
		launchable := func(o *catalog.Offering) bool { return o.Available && at.compatible(o, pool.Requirements) }
		if wide {
			launchable = nil
		} else if !slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool { return launchable(&o) }) {
			continue
		}
		canLaunch = true
		for _, d := range c.typeDomains(at, t, key, launchable) {
			if !listed || allowed.Has(d) {
				domains[d] = true
			}
		}
	}
	if listed && !allowed.Not && (wide || canLaunch && !hasDomains) {
		for _, d := range allowed.Values {
			domains[d] = true
		}
	}
}

// typeDomains are the values that nodes of a type can have, by its labels or by the offerings that
// count; all do if counts is nil.
func (c *checker) typeDomains(at *place, t *catalog.InstanceType, key string, counts func(*catalog.Offering) bool) []string {
	if r, known := labelsOf(t)[key]; known {
		if r.Not {
			return nil
		}
		return r.Values
	}
	var values []string
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if d, found := at.labelOf(o, key); found && (counts == nil || counts(o)) {
			values = append(values, d)
		}
	}
	return values
}
