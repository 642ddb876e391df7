package check_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/scenario/families"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// simple is a consolidator that anybody would write first: it takes one node, places its pods one by one on
// the others and at most one new node, and does so if that is cheaper; if no single node is left it tries two
// at a time, and then the first few of the list.
type simple struct {
	q     solve.Question
	steps int
}

const (
	simpleShare  = 0.1   // of what goes that a replacement must save
	simplePerPod = 0.001 // USD an hour that it must save for each pod
)

// run makes moves until there are none.
func (s *simple) run(t *testing.T) float64 {
	t.Helper()
	for s.step(t) {
		s.steps++
		if s.steps > 1000 {
			t.Fatal("the simple way does not end")
		}
	}
	return priceOf(s.q.View)
}

func (s *simple) step(t *testing.T) bool {
	t.Helper()
	names := slices.Clone(s.q.Candidates)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(len(s.q.View.Node(a).Pods), len(s.q.View.Node(b).Pods)) })
	for _, name := range names {
		if s.try(t, name) {
			return true
		}
	}
	for i, a := range names {
		for _, b := range names[:i] {
			if s.try(t, b, a) {
				return true
			}
		}
	}
	for n := 3; n <= len(names); n++ {
		if s.try(t, names[:n]...) {
			return true
		}
	}
	return false
}

// try makes a move of nodes if it is legal and worth it.
func (s *simple) try(t *testing.T, names ...string) bool {
	t.Helper()
	removed := 0.0
	for _, name := range names {
		removed += s.q.View.Node(name).Price
	}
	rest, pods := s.q.View.Without(names...)
	policy := s.q.Policy
	policy.Greedy, policy.ReservedFallback = true, true
	plan := solve.Solve(solve.Problem{View: rest, Moved: pods, Policy: policy}, never)
	if len(plan.Unplaced) > 0 || len(plan.Create) > 1 {
		return false
	}
	m := solve.Move{Remove: names, Bind: plan.Bind, Create: plan.Create, Saves: removed - plan.Cost, Moved: len(pods)}
	if len(m.Create) == 1 && !s.worth(&m, removed) {
		return false
	}
	if len(check.Move(s.q, m)) > 0 || !s.lasts(m, pods) { // whatever the placing said
		return false
	}
	s.q = applied(s.q, solve.Consolidation{Moves: []solve.Move{m}}, 1000+s.steps)
	return true
}

// lasts reports whether pods find a place where kube-scheduler puts them: the largest first, each on the node with most
// room. What a step gains is not reached if that takes another node.
func (s *simple) lasts(m solve.Move, pods []cluster.Pod) bool {
	view, _ := s.q.View.Without(m.Remove...)
	for i := range m.Create {
		view.Nodes = append(view.Nodes, launched(view, &m.Create[i], "~new"))
	}
	n := newNaive(solve.Problem{View: view, Pods: pods})
	large := func(p *cluster.Pod) int64 { return 4*p.Shape.Requests.At(0) + p.Shape.Requests.At(1)>>20 }
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b cluster.Pod) int { return cmp.Compare(large(&b), large(&a)) })
	lost := 0
	for i := range pods {
		var best *stand
		most := -1.0
		for _, at := range n.nodes {
			if x := n.share(at); x > most && !at.terminating && n.room(at, pods[i].Shape) && n.agrees(at, &pods[i]) {
				best, most = at, x
			}
		}
		if best == nil {
			lost++
			continue
		}
		best.pods, best.used = append(best.pods, pods[i]), append(best.used, pods[i].Shape)
	}
	return lost <= len(pods)/20
}

// share is how much of a node is free, cpu and memory together.
func (n *naive) share(s *stand) float64 {
	free := s.old.Allocatable
	for _, p := range s.old.Pods {
		free = resources.Sub(free, p.Shape.Requests)
	}
	for _, shape := range s.used {
		free = resources.Sub(free, shape.Requests)
	}
	total := 0.0
	for lane := range 2 {
		total += float64(free.At(lane)) / float64(max(1, s.old.Allocatable.At(lane)))
	}
	return total
}

// worth holds a replacement against the rules that every replacement has to keep.
func (s *simple) worth(m *solve.Move, removed float64) bool {
	if m.Saves < simpleShare*removed || m.Saves < simplePerPod*float64(m.Moved) {
		return false
	}
	c, spot := &m.Create[0], true
	for _, name := range m.Remove {
		n := s.q.View.Node(name)
		spot = spot && n.CapacityType == "spot"
		if len(m.Remove) > 1 && n.InstanceType == c.Offer.Type && n.Price <= c.Offer.Price {
			return false
		}
	}
	return !spot || c.Offer.CapacityType != "spot"
}

// shrunk makes moves until there are none, and checks each.
func shrunk(t *testing.T, q solve.Question) (solve.Question, float64) {
	t.Helper()
	for round := range 100 {
		result := solve.Consolidate(q, never)
		if found := check.Consolidation(q, result); len(found) > 0 {
			t.Fatalf("round %d: %v\nanswer %s", round, found, describe(result))
		}
		if len(result.Moves) == 0 {
			return q, priceOf(q.View)
		}
		q = applied(q, result, round)
	}
	t.Fatal("still moving after 100 rounds")
	return q, 0
}

// asking is the question of a scenario.
func requesting(tb testing.TB, data []byte) solve.Question {
	tb.Helper()
	s, err := scenario.Load(data, awsv1.Vocabulary())
	if err != nil {
		tb.Fatal(err)
	}
	compiled := s.World(time.Unix(0, 0)).Compile()
	return solve.Question{View: compiled.View, Candidates: compiled.Candidates()}
}

// made is the question of a scenario that is made.
func made(tb testing.TB, name string, seed uint64) solve.Question {
	tb.Helper()
	made, err := families.Make(name, seed)
	if err != nil {
		tb.Fatal(err)
	}
	data, err := json.Marshal(made)
	if err != nil {
		tb.Fatal(err)
	}
	return requesting(tb, data)
}

// Consolidation ends not more expensive than deleting or replacing nodes one at a time, two at a time and many by one: on
// small and medium clusters with rules over zones and hosts, DaemonSets, several pools and limits, and nodes that
// may not go, as those with pods that a disruption budget holds.
func TestTrust_A01_NeverDearerThanOneNodeAtATime(t *testing.T) {
	t.Parallel()
	for name, seeds := range map[string]uint64{"c4-3": 3, "c4-4": 3, "c4-5": 2, "c4-8": 1, "c3-6": 2, "c3-12": 1, "c5-6": 3} {
		for seed := range seeds {
			t.Run(fmt.Sprint(name, "/", seed), func(t *testing.T) {
				t.Parallel()
				q := made(t, name, seed)
				if seed%2 == 1 {
					q.Candidates = q.Candidates[1:] // a disruption budget holds pods of the first
				}
				s := &simple{q: q}
				limit := s.run(t)
				if _, cost := shrunk(t, q); cost > limit+1e-9 {
					t.Errorf("%v before; %v; one node at a time: %v after %d moves (%.1f%%)", priceOf(q.View), cost, limit, s.steps, 100*(cost/limit-1))
				}
			})
		}
	}
}

// Four nodes after a scale-down, some apps spread over zones: it ended at $3.44 an hour, and replacing nodes one at
// a time at $1.634.
func TestTrust_A01_FourNodesWithZoneSpread(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/consolidate-spread-small.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, cost := shrunk(t, requesting(t, data)); cost > 1.635 {
		t.Errorf("ends at %v an hour", cost)
	}
}

// Thirty nodes of three pools: the 18 moves that save most at first led to $5.69 an hour.
func TestTrust_A01_ThirtyNodesAreFollowedToTheEnd(t *testing.T) {
	t.Parallel()
	if _, cost := shrunk(t, made(t, "c5-30", 1)); cost > 4.6 {
		t.Errorf("ends at %v an hour", cost)
	}
}

// A bound is over the pods alone: what may not go now may go later, and then the cluster costs less than what
// could be reached before.
func TestTrust_B01_NoStateThatFollowsCostsLessThanTheBound(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"c4-3", "c4-5", "c5-6", "c1-10"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := made(t, name, 1)
			held := q
			held.Candidates = held.Candidates[:1]
			result := solve.Consolidate(held, never)
			if _, cost := shrunk(t, q); result.Bound <= 0 || result.Bound > cost {
				t.Errorf("the bound is %v while nodes are held, and the cluster costs %v once they are not", result.Bound, cost)
			}
		})
	}
}

// Nodes that are being removed do not count in what a cluster costs after moves.
func TestTrust_B01_NodesThatGoDoNotCount(t *testing.T) {
	t.Parallel()
	q := made(t, "c4-4", 1)
	view := *q.View
	view.Nodes = slices.Clone(view.Nodes)
	view.Nodes[0].Deleting = true
	q.View = &view
	result := solve.Consolidate(q, never)
	if want := priceOf(&view) - view.Nodes[0].Price; result.Before > want+1e-9 || result.After > want+1e-9 {
		t.Errorf("costs %v before and %v after; the nodes that stay cost %v", result.Before, result.After, want)
	}
}
