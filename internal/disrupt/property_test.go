package disrupt_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/check/random"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A plain run replays the same clusters every time; with -rapid.checks the seed is fresh.
func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["rapid.seed"] && !given["rapid.checks"] {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

type drawn struct{ t *rapid.T }

func (d drawn) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "n") }

func never() bool { return false }

// views draws a cluster that may be too dear for what runs on it, with pools of all policies and
// budgets.
func views(t *rapid.T) disrupt.View {
	q := random.Question(drawn{t}, random.Options{Nodes: 20, Pods: 80, Workloads: 4, Types: 8, Pools: 2})
	v := viewOf(q.View, nil, q.Policy)
	v.Policy.SpotToSpot = rapid.Bool().Draw(t, "spot to spot")
	for _, name := range slices.Sorted(maps.Keys(v.Pools)) {
		p := v.Pools[name]
		p.Policy = rapid.SampledFrom([]karpv1.ConsolidationPolicy{karpv1.ConsolidationWhenEmptyOrUnderutilized, karpv1.ConsolidationBalanced, karpv1.ConsolidationWhenEmpty}).Draw(t, "policy")
		if nodes := rapid.SampledFrom([]string{"", "100%", "1", "2", "50%", "0"}).Draw(t, "budget"); nodes != "" {
			p.Budgets = []cluster.Budget{{Nodes: nodes}}
		}
		v.Pools[name] = p
	}
	if rapid.Bool().Draw(t, "tuned") {
		v.Tuning = disrupt.Tuning{Horizon: 3600e9, PodCost: 0.01}
	}
	return v
}

func describe(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(text)
}

// again is the view of a cluster after a decision was carried out, under the same rules. Nodes that had
// drifted still have; new ones have not.
func again(v disrupt.View, view *cluster.Snapshot) disrupt.View {
	next := viewOf(view, nil, v.Policy)
	next.Pools, next.Tuning = v.Pools, v.Tuning
	for i := range next.Nodes {
		n := &next.Nodes[i]
		if at := slices.IndexFunc(v.Nodes, func(o cluster.ManagedNode) bool { return o.Name == n.Name }); at >= 0 {
			n.Drift = v.Nodes[at].Drift
		}
	}
	return next
}

// measure is what every command makes fall, compared from the left (decision 0018).
func measure(v disrupt.View) [3]float64 {
	drifted, cost := 0.0, 0.0
	for i := range v.Nodes {
		if v.Nodes[i].Drift != "" {
			drifted++
		}
	}
	for i := range v.Cluster.Nodes {
		cost += v.Cluster.Nodes[i].Price
	}
	return [3]float64{drifted, math.Round(cost * 1e9), float64(len(v.Cluster.Nodes))} // rounded: it is a sum
}

// Voluntary disruption ends: while nothing else changes, every pass
// lowers the measure, so no cluster is reached twice, and every command obeys every rule (demand 1).
func TestNoChurn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := views(t)
		v = again(v, gone(v.Cluster))
		for i := range v.Nodes {
			if rapid.IntRange(0, 5).Draw(t, "drifted") == 0 {
				v.Nodes[i].Drift = "AMIDrift"
			}
		}
		const passes = 80
		for pass := range passes {
			d := disrupt.Next(v, never)
			if found := judge(v, d); len(found) > 0 {
				t.Fatalf("pass %d: %v\ndecision %s\nview %s", pass, found, describe(d), describe(v))
			}
			inBudgets(t, v, d)
			if len(d.Commands) == 0 {
				return
			}
			next := again(v, carriedOut(v.Cluster, d, pass))
			was, is := measure(v), measure(next)
			if slices.Compare(is[:], was[:]) >= 0 {
				t.Fatalf("pass %d: %v became %v\ndecision %s", pass, was, is, describe(d))
			}
			v = next
		}
		t.Fatalf("still at it after %d passes\nview %s", passes, describe(v))
	})
}

// gone is the cluster without the nodes that are on their way out.
func gone(view *cluster.Snapshot) *cluster.Snapshot {
	var names []string
	for i := range view.Nodes {
		if view.Nodes[i].Deleting {
			names = append(names, view.Nodes[i].Name)
		}
	}
	rest, _ := view.Without(names...)
	return rest
}

// inBudgets is G5: no pool loses more nodes than its budgets allow for the reason, those that go anyway
// counted.
func inBudgets(t *rapid.T, v disrupt.View, d disrupt.Decision) {
	t.Helper()
	for i := range d.Commands {
		c := &d.Commands[i]
		if c.Reason != d.Commands[0].Reason {
			t.Fatalf("commands for %s and %s in one pass", d.Commands[0].Reason, c.Reason)
		}
	}
	removed, total := map[string]int{}, map[string]int{}
	for i := range d.Commands {
		for j := range d.Commands[i].Remove {
			removed[d.Commands[i].Remove[j].Pool]++
		}
	}
	for i := range v.Nodes {
		if v.Nodes[i].Initialized {
			total[v.Nodes[i].Pool]++
		}
	}
	for name, count := range removed {
		most, _ := budget.Limit(v.Pools[name].Budgets, string(d.Commands[0].Reason), total[name], v.Now)
		if count > most {
			t.Fatalf("%d nodes of pool %s go, budgets allow %d\n%s", count, name, most, describe(d))
		}
	}
}

// Pods that look for a place get theirs first: what disruption does never takes it away.
func TestUnschedulablePodsComeFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := random.Problem(drawn{t}, random.Options{})
		v := viewOf(p.View, p.Pods, p.Policy)
		for i := range v.Nodes {
			if rapid.IntRange(0, 3).Draw(t, "drifted") == 0 {
				v.Nodes[i].Drift = "AMIDrift"
			}
		}
		d := disrupt.Next(v, never)
		if found := judge(v, d); len(found) > 0 {
			t.Fatalf("%v\ndecision %s\nview %s", found, describe(d), describe(v))
		}
	})
}

// The order of the input, the number of workers and what earlier searches found do not show in what is decided.
func TestSameDecisionAnyWay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := views(t)
		seed := rapid.Uint64().Draw(t, "order")
		other := v
		dice := rand.New(rand.NewPCG(seed, seed))
		other.Nodes = slices.Clone(v.Nodes)
		for i := range other.Nodes {
			other.Nodes[i].Pods = slices.Clone(other.Nodes[i].Pods)
			dice.Shuffle(len(other.Nodes[i].Pods), func(a, b int) {
				other.Nodes[i].Pods[a], other.Nodes[i].Pods[b] = other.Nodes[i].Pods[b], other.Nodes[i].Pods[a]
			})
		}
		view := *v.Cluster
		view.Nodes = slices.Clone(view.Nodes)
		for i := range view.Nodes {
			view.Nodes[i].Pods = slices.Clone(view.Nodes[i].Pods)
			slices.Reverse(view.Nodes[i].Pods)
		}
		other.Cluster, other.Policy.Workers = &view, 8
		v.SearchCache = &disrupt.SearchCache{}
		first := disrupt.Next(v, never)
		if diff := cmp.Diff(first.Commands, disrupt.Next(other, never).Commands, cmpopts.EquateEmpty(), candidatePods()); diff != "" {
			t.Fatalf("(-first +second):\n%s\nview %s", diff, describe(v))
		}
		was := describe(first)
		for i := range first.Commands { // they belong to the caller that executes them
			clear(first.Commands[i].Bind)
			for j := range first.Commands[i].Create {
				clear(first.Commands[i].Create[j].Pods)
			}
			clear(first.Commands[i].Create)
		}
		if is := describe(disrupt.Next(v, never)); is != was {
			t.Fatalf("at first %s\nthen %s\nview %s", was, is, describe(v))
		}
	})
}

// candidatePods leaves the order of pods on a node out: it is that of the input.
func candidatePods() cmp.Option { return cmpopts.SortSlices(func(a, b string) bool { return a < b }) }

// FM K15: a decision that is stopped is a decision still.
func TestStoppedDecisionsObeyToo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := views(t)
		calls, most := 0, rapid.IntRange(0, 20).Draw(t, "calls")
		v.Policy.Workers = 1
		d := disrupt.Next(v, func() bool { calls++; return calls > most })
		if found := judge(v, d); len(found) > 0 {
			t.Fatalf("%v\ndecision %s\nview %s", found, describe(d), describe(v))
		}
	})
}

// Of moves that say so any may be left out: the search relies on it.
func TestLooseMovesStandAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := random.Question(drawn{t}, random.Options{Nodes: 20, Pods: 80, Workloads: 4, Types: 8, Pools: 2})
		result := solve.Consolidate(q, never)
		if !result.Loose {
			return
		}
		var d disrupt.Decision
		for _, m := range result.Moves {
			if rapid.Bool().Draw(t, "made") {
				c := disrupt.Command{Bind: m.Bind, Create: m.Create, Saves: m.Saves}
				for _, name := range m.Remove {
					c.Remove = append(c.Remove, disrupt.Candidate{Node: name})
				}
				d.Commands = append(d.Commands, c)
			}
		}
		if found := judge(disrupt.View{DisruptionView: cluster.DisruptionView{Cluster: q.View}, Policy: q.Policy}, d); len(found) > 0 {
			t.Fatalf("%v\nmade %s\nquestion %s", found, describe(d), describe(q))
		}
	})
}

// No more nodes of a pool are proposed than requested.
func TestMostBoundsMoves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := random.Question(drawn{t}, random.Options{Nodes: 20, Pods: 80, Pools: 2})
		q.Most = map[string]int{}
		for i := range q.View.Pools {
			q.Most[q.View.Pools[i].Name] = rapid.IntRange(0, 4).Draw(t, "most")
		}
		result := solve.Consolidate(q, never)
		if found := check.Consolidation(q, result); len(found) > 0 {
			t.Fatalf("%v\nanswer %s\nquestion %s", found, describe(result), describe(q))
		}
		gone := map[string]int{}
		for _, m := range result.Moves {
			for _, name := range m.Remove {
				gone[q.View.Node(name).Pool]++
			}
		}
		for pool, count := range gone {
			if count > q.Most[pool] {
				t.Fatalf("%d nodes of pool %s go, want at most %d\n%s", count, pool, q.Most[pool], describe(result))
			}
		}
	})
}
