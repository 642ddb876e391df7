package check_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	_ "github.com/dovetail-sh/dovetail/internal/seed" // the same values in every run
	"github.com/dovetail-sh/dovetail/internal/solve"
)

func TestConsolidationsObeyEveryRule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := questions(some()).Draw(t, "question")
		result := solve.Consolidate(q, never)
		if found := check.Consolidation(q, result); len(found) > 0 {
			t.Fatalf("%v\nanswer %s\nquestion %s", found, describe(result), describe(q))
		}
		stopped := solve.Consolidate(q, at1st)
		if found := check.Consolidation(q, stopped); len(found) > 0 {
			t.Fatalf("stopped: %v\nanswer %s\nquestion %s", found, describe(stopped), describe(q))
		}
	})
}

func TestConsolidationIsTheSameAnyWay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := questions(some()).Draw(t, "question")
		result := solve.Consolidate(q, never)
		other := q
		other.View = shuffled(rapid.Uint64().Draw(t, "order"), solve.Problem{View: q.View}).View
		other.Candidates = slices.Clone(q.Candidates)
		slices.Reverse(other.Candidates)
		other.Policy.Workers = 8
		if diff := cmp.Diff(result, solve.Consolidate(other, never), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("another order and eight workers (-first +second):\n%s\nquestion %s", diff, describe(q))
		}
	})
}

// Made again and again, moves come to an end, and each round leaves a cheaper cluster.
func TestConsolidationEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := questions(some()).Draw(t, "question")
		before := priceOf(q.View)
		const rounds = 30
		for round := range rounds {
			result := solve.Consolidate(q, never)
			if found := check.Consolidation(q, result); len(found) > 0 {
				t.Fatalf("round %d: %v\nanswer %s\nquestion %s", round, found, describe(result), describe(q))
			}
			if len(result.Moves) == 0 {
				return
			}
			q = applied(q, result, round)
			after := priceOf(q.View)
			if after >= before {
				t.Fatalf("round %d: costs %v, before %v\nanswer %s", round, after, before, describe(result))
			}
			before = after
		}
		t.Fatalf("still moving after %d rounds\nquestion %s", rounds, describe(q))
	})
}

func priceOf(v *cluster.Snapshot) float64 {
	sum := 0.0
	for i := range v.Nodes {
		sum += v.Nodes[i].Price
	}
	return sum
}

// applied is the question again once every move was made. New nodes turn out as their offers say.
func applied(q solve.Question, result solve.Consolidation, round int) solve.Question {
	view := *q.View
	view.Nodes = slices.Clone(view.Nodes)
	view.Pools = slices.Clone(view.Pools)
	for i := range view.Nodes {
		view.Nodes[i].Pods = slices.Clone(view.Nodes[i].Pods)
	}
	for i := range view.Pools {
		view.Pools[i].Limits = slices.Clone(view.Pools[i].Limits)
	}
	for i := range result.Moves {
		m := &result.Moves[i]
		pods := map[cluster.PodKey]cluster.Pod{}
		for _, name := range m.Remove {
			at := slices.IndexFunc(view.Nodes, func(n cluster.Node) bool { return n.Name == name })
			for _, p := range view.Nodes[at].Pods {
				p.Terminating = false // what comes back is a new pod
				pods[p.Key] = p
			}
			account(&view, &view.Nodes[at], 1)
			view.Nodes = slices.Delete(view.Nodes, at, at+1)
		}
		for _, b := range m.Bind {
			at := slices.IndexFunc(view.Nodes, func(n cluster.Node) bool { return n.Name == b.Node })
			view.Nodes[at].Pods = append(view.Nodes[at].Pods, pods[b.Pod])
		}
		for j := range m.Create {
			name := "made-" + strconv.Itoa(round) + "-" + strconv.Itoa(i) + "-" + strconv.Itoa(j)
			n := launched(&view, &m.Create[j], name)
			for _, key := range m.Create[j].Pods {
				n.Pods = append(n.Pods, pods[key])
			}
			account(&view, &n, -1)
			view.Nodes = append(view.Nodes, n)
			q.Candidates = append(slices.Clone(q.Candidates), name)
		}
	}
	slices.SortFunc(view.Nodes, func(a, b cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	for i := range view.Nodes {
		slices.SortFunc(view.Nodes[i].Pods, func(a, b cluster.Pod) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	}
	view.Version++
	q.Candidates = slices.DeleteFunc(slices.Clone(q.Candidates), func(name string) bool {
		return !slices.ContainsFunc(view.Nodes, func(n cluster.Node) bool { return n.Name == name })
	})
	slices.Sort(q.Candidates)
	q.View = &view
	return q
}

// account gives a node's capacity back to its pool's limits, or takes it.
func account(view *cluster.Snapshot, n *cluster.Node, sign int64) {
	for i := range view.Pools {
		p := &view.Pools[i]
		if p.Name != n.Pool || n.Deleting {
			continue
		}
		for j := range p.Limits {
			lane, _ := view.Resources.Lane(p.Limits[j].Resource)
			p.Limits[j].Remaining += sign * n.Capacity.At(lane)
		}
		if p.NodeLimit != nil {
			left := *p.NodeLimit + sign
			p.NodeLimit = &left
		}
	}
}

func launched(view *cluster.Snapshot, c *solve.NewNode, name string) cluster.Node {
	pool := &view.Pools[slices.IndexFunc(view.Pools, func(p cluster.Pool) bool { return p.Name == c.Pool })]
	t := &pool.Types[slices.IndexFunc(pool.Types, func(t catalog.InstanceType) bool { return t.Name == c.Offer.Type })]
	labels := map[string]string{}
	for key, r := range c.Needs {
		switch {
		case len(r.Values) > 0 && !r.Not:
			labels[key] = r.Values[0]
		case r.Not && len(r.Values) == 0:
			labels[key] = "0"
		}
	}
	for key, r := range t.Labels {
		delete(labels, key)
		if len(r.Values) == 1 {
			labels[key] = r.Values[0]
		}
	}
	maps.Copy(labels, map[string]string{zone: c.Offer.Zone, capacity: c.Offer.CapacityType, host: name})
	return cluster.Node{
		Name: name, Claim: name, Pool: c.Pool, Labels: labels, Taints: pool.Taints, Capacity: t.Capacity, Allocatable: t.Allocatable(),
		VolumeLimits: t.VolumeLimits, InstanceType: t.Name, Zone: c.Offer.Zone, CapacityType: c.Offer.CapacityType, Price: c.Offer.Price, Initialized: true,
	}
}
