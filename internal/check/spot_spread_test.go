package check_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/scenario/families"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// spotShare is the default of the setting spot-pool-share.
const (
	spotShare = 0.25
	spotCost  = 0.03
)

// IR-06: a spread plan costs at most 3 % more, is valid, and loses far fewer pods of a workload at once: a third where
// prices of zones and types are close, as far as 3 % go where a few spot pools are much cheaper than all others. Reclaimed is the
// spot pool that has most of a workload. EC2 launches either the cheapest offering of a claim, or the deepest spot pool that a
// claim leaves open.
func TestIR_06_SpreadPlansLoseLess(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		even               bool
		wantLost, wantDeep float64 // share of what is lost without the bound
	}{
		"prices that are close":   {even: true, wantLost: 1.0 / 3, wantDeep: 1.0 / 3},
		"prices of a real region": {wantLost: 0.55, wantDeep: 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cost, costBefore, lost, lostBefore, deep, deepBefore float64
			plans, nodes := 0, 0
			for seed := range uint64(60) {
				p := spotProblem(t, seed, tc.even)
				before := solve.Solve(p, nil)
				p.Policy.SpotShare, p.Policy.SpotCost = spotShare, spotCost
				after := solve.Solve(p, nil)
				if len(before.Unplaced) != len(after.Unplaced) {
					t.Errorf("seed %d: %d pods are not placed, %d without the bound", seed, len(after.Unplaced), len(before.Unplaced))
				}
				if found := check.Plan(p, after); len(found) > 0 {
					t.Errorf("seed %d: %v", seed, found[0])
				}
				fees := p.Policy.NodeFee * float64(max(0, len(after.Create)-len(before.Create)))
				if after.Cost+fees > before.Cost*1.03+1e-9 {
					t.Errorf("seed %d: %v USD an hour and %v for more nodes, %v without the bound", seed, after.Cost, fees, before.Cost)
				}
				cost, costBefore = cost+after.Cost, costBefore+before.Cost
				bounded := onThreeNodes(p, &before)
				if !slices.Contains(bounded, true) {
					continue
				}
				plans++
				nodes += len(after.Create) - len(before.Create)
				ec2 := deepestOf(p.View.Pools[0].Types, seed)
				lost, lostBefore = lost+largestLoss(p, &after, cheapestOf, bounded), lostBefore+largestLoss(p, &before, cheapestOf, bounded)
				deep, deepBefore = deep+largestLoss(p, &after, ec2, bounded), deepBefore+largestLoss(p, &before, ec2, bounded)
			}
			t.Logf("%d plans, cost %+.2f %%, %+d nodes; lost at once: cheapest offering %.0f %%, %.0f %% without the bound; deepest spot pool %.0f %%, %.0f %% without",
				plans, 100*(cost/costBefore-1), nodes, 100*lost/float64(plans), 100*lostBefore/float64(plans), 100*deep/float64(plans), 100*deepBefore/float64(plans))
			if plans < 30 {
				t.Fatalf("only %d plans have a workload on three nodes", plans)
			}
			if lost > tc.wantLost*lostBefore {
				t.Errorf("cheapest offering: %.2f of what is lost without the bound, want at most %.2f", lost/lostBefore, tc.wantLost)
			}
			if deep > tc.wantDeep*deepBefore {
				t.Errorf("deepest spot pool: %.2f of what is lost without the bound, want at most %.2f", deep/deepBefore, tc.wantDeep)
			}
		})
	}
}

// spotProblem is one to three workloads of random sizes that wait, and a pool that may launch spot nodes.
func spotProblem(t *testing.T, seed uint64, even bool) solve.Problem {
	t.Helper()
	s, err := families.Make("s1-30", seed)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 17))
	pool := s.NodePools[0]
	for i := range pool.Spec.Template.Spec.Requirements {
		if r := &pool.Spec.Template.Spec.Requirements[i]; r.Key == karpv1.LabelCapacityType {
			r.Values = []string{karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand}
		}
	}
	pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, karpv1.Requirement{
		Key: "karpenter.k8s.aws/instance-cpu", Operator: corev1.NodeSelectorOpIn, Values: []string{"4", "8", "16"},
	})
	group := s.Pods[0]
	s.NodePools, s.Pods = s.NodePools[:1], nil
	for i := range 1 + random.IntN(3) {
		g := group
		g.Count = new(10 + random.IntN(60))
		g.Template = &corev1.PodTemplateSpec{}
		g.Template.Labels = map[string]string{"app": fmt.Sprint("app-", i)}
		milli := []int64{500, 1000, 1500, 2000, 4000}[random.IntN(5)]
		g.Template.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(milli, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(milli*[]int64{1, 2, 4, 7}[random.IntN(4)]<<20, resource.BinarySI),
		}}}}
		s.Pods = append(s.Pods, g)
	}
	c := s.World(time.Unix(0, 0)).Compile()
	if even {
		evenPrices(c, random)
	}
	return solve.Problem{View: c.View, Pods: c.View.Pending, Policy: solve.Policy{NodeFee: 0.02}}
}

// evenPrices sets spot prices to about a third of what the type costs on demand, within 2 %.
func evenPrices(c *scenario.Compiled, random *rand.Rand) {
	types := c.View.Pools[0].Types
	for i := range types {
		onDemand := 0.0
		for _, o := range types[i].Offerings {
			if o.CapacityType == karpv1.CapacityTypeOnDemand {
				onDemand = o.Price
			}
		}
		for j := range types[i].Offerings {
			if o := &types[i].Offerings[j]; o.CapacityType == karpv1.CapacityTypeSpot && onDemand > 0 {
				o.Price = onDemand * (0.35 + 0.007*random.Float64())
			}
		}
	}
}

// spotPool is an instance type in a zone.
type spotPool struct{ instanceType, zone string }

func cheapestOf(n *solve.NewNode) spotPool { return spotPool{n.Offer.Type, n.Offer.Zone} }

// deepestOf is an EC2 in which each spot pool has an unknown depth. It launches the deepest that a claim leaves
// open, among those that cost at most half more than the cheapest.
func deepestOf(types []catalog.InstanceType, seed uint64) func(n *solve.NewNode) spotPool {
	byName := map[string]*catalog.InstanceType{}
	for i := range types {
		byName[types[i].Name] = &types[i]
	}
	depth := func(at spotPool) uint64 {
		h := fnv.New64a()
		_, _ = fmt.Fprint(h, at, seed)
		return h.Sum64()
	}
	return func(n *solve.NewNode) spotPool {
		best := cheapestOf(n)
		for _, name := range n.Types[:min(len(n.Types), 60)] {
			for _, o := range byName[name].Offerings {
				at := spotPool{name, o.Zone}
				if o.CapacityType == karpv1.CapacityTypeSpot && o.Available && n.Needs.Allows(corev1.LabelTopologyZone, o.Zone) &&
					o.Price <= 1.5*n.Offer.Price && depth(at) > depth(best) {
					best = at
				}
			}
		}
		return best
	}
}

// placedPods counts the pods of the new nodes, by node and workload. Workloads are in the order of their first pods.
func placedPods(p solve.Problem, plan *solve.Plan) (byNode [][]float64, total []float64) {
	at, byKey := map[*cluster.Shape]int{}, map[cluster.PodKey]int{}
	for i := range p.Pods {
		shape := p.Pods[i].Shape
		if _, known := at[shape]; !known {
			at[shape] = len(at)
		}
		byKey[p.Pods[i].Key] = at[shape]
	}
	total = make([]float64, len(at))
	for i := range plan.Create {
		pods := make([]float64, len(at))
		for _, key := range plan.Create[i].Pods {
			pods[byKey[key]]++
			total[byKey[key]]++
		}
		byNode = append(byNode, pods)
	}
	return byNode, total
}

// onThreeNodes says which workloads are on three nodes or more.
func onThreeNodes(p solve.Problem, plan *solve.Plan) []bool {
	byNode, total := placedPods(p, plan)
	nodes, out := make([]int, len(total)), make([]bool, len(total))
	for _, pods := range byNode {
		for w, n := range pods {
			if n > 0 {
				nodes[w]++
			}
			out[w] = nodes[w] >= 3
		}
	}
	return out
}

// largestLoss is the largest share of the pods of a workload, among those given, that one spot pool has.
func largestLoss(p solve.Problem, plan *solve.Plan, launch func(*solve.NewNode) spotPool, among []bool) float64 {
	byNode, total := placedPods(p, plan)
	most := 0.0
	for w := range total {
		on := map[spotPool]float64{}
		for i := range byNode {
			at := launch(&plan.Create[i])
			if on[at] += byNode[i][w]; among[w] {
				most = max(most, on[at]/total[w])
			}
		}
	}
	return most
}

// equalPods is a problem of equal pods, two to a node of any of nine types, in three zones. Spot costs the same everywhere.
func equalPods(pods int, change func(*cluster.Pool)) solve.Problem {
	var types []catalog.InstanceType
	for _, name := range []string{"a.large", "b.large", "c.large", "d.large", "e.large", "f.large", "g.large", "h.large", "i.large"} {
		it := catalog.InstanceType{Name: name, Capacity: resources.Of(4000, 16<<30, 0, 10)}
		for _, zone := range []string{"x", "y", "z"} {
			it.Offerings = append(it.Offerings,
				catalog.Offering{Zone: zone, CapacityType: karpv1.CapacityTypeSpot, Price: 0.1, Available: true},
				catalog.Offering{Zone: zone, CapacityType: karpv1.CapacityTypeOnDemand, Price: 0.3, Available: true})
		}
		types = append(types, it)
	}
	pool := cluster.Pool{Name: "default", Types: types, Requirements: reqs.Set{}}
	if change != nil {
		change(&pool)
	}
	r := cluster.NewReader(reqs.CoreVocabulary(), cluster.ReaderOptions{})
	var waiting []cluster.Pod
	for i := range pods {
		waiting = append(waiting, r.Pod(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%03d", i), Namespace: "default"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
			}}}},
		}, nil))
	}
	view := r.Snapshot(cluster.Snapshot{Now: time.Unix(0, 0), Pools: []cluster.Pool{pool}, Pending: waiting})
	return solve.Problem{View: view, Pods: view.Pending}
}

// IR-05: whatever EC2 chooses among what the claims leave open, no spot pool has more than its share; and the pods that
// run on spot nodes already count.
func TestIR_05_NoSpotPoolHasMoreThanItsShare(t *testing.T) {
	t.Parallel()
	for nodes := 3; nodes <= 24; nodes++ {
		p := equalPods(2*nodes, nil)
		p.Policy.SpotShare, p.Policy.SpotCost = spotShare, spotCost
		plan := solve.Solve(p, nil)
		if len(plan.Create) != nodes {
			t.Fatalf("%d nodes, want %d", len(plan.Create), nodes)
		}
		open := map[spotPool]int{} // claims that may become a node of a spot pool
		for i := range plan.Create {
			n := &plan.Create[i]
			zone := n.Needs[corev1.LabelTopologyZone]
			if len(zone.Values) != 1 || len(n.Types) < 3 {
				t.Fatalf("%d nodes: a claim is left %v and %v", nodes, zone, n.Types)
			}
			for _, name := range n.Types {
				open[spotPool{name, zone.Values[0]}]++
			}
		}
		most := max(1, int(spotShare*float64(nodes)))
		for at, claims := range open {
			if claims > most {
				t.Errorf("%d nodes: %d claims may become %v, want at most %d", nodes, claims, at, most)
			}
		}
	}
	p := equalPods(6, nil)
	plan := solve.Solve(p, nil) // all on one spot pool
	q := running(p, plan)
	more := equalPods(2, nil)
	for i := range q.View.Nodes {
		for j := range q.View.Nodes[i].Pods {
			q.View.Nodes[i].Pods[j].Shape = more.Pods[0].Shape
		}
	}
	view := *more.View
	view.Nodes = q.View.Nodes
	next := solve.Solve(solve.Problem{View: &view, Pods: more.Pods, Policy: solve.Policy{SpotShare: spotShare, SpotCost: spotCost}}, nil)
	if len(next.Create) != 1 || cheapestOf(&next.Create[0]) == cheapestOf(&plan.Create[0]) {
		t.Errorf("the next node is %v, as all that run", next.Create)
	}
}

// IR-05: a workload on two spot nodes loses one of them at once, not both.
func TestIR_05_TwoNodesAreOnTwoSpotPools(t *testing.T) {
	t.Parallel()
	p := equalPods(4, nil)
	p.Policy.SpotShare, p.Policy.SpotCost = spotShare, spotCost
	plan := solve.Solve(p, nil)
	if len(plan.Create) != 2 {
		t.Fatalf("got %d nodes, want 2", len(plan.Create))
	}
	a, b := &plan.Create[0], &plan.Create[1]
	zone := func(n *solve.NewNode) reqs.Req { return n.Needs[corev1.LabelTopologyZone] }
	common := slices.ContainsFunc(a.Types, func(name string) bool { return slices.Contains(b.Types, name) })
	if common && zone(a).Overlaps(zone(b)) {
		t.Errorf("both nodes may be of one type in one zone: %v and %v in %v and %v", a.Types, b.Types, zone(a), zone(b))
	}
}

// IR-07: nodes that are not spread keep all their types and zones.
func TestIR_07_NodesThatAreNotSpread(t *testing.T) {
	t.Parallel()
	onDemand := reqs.Req{Values: []string{karpv1.CapacityTypeOnDemand}}
	for name, p := range map[string]solve.Problem{
		"one spot node": equalPods(2, nil),
		"on-demand nodes": equalPods(20, func(pool *cluster.Pool) {
			pool.Requirements = reqs.Set{karpv1.LabelCapacityType: onDemand}
		}),
		"minValues of types": equalPods(20, func(pool *cluster.Pool) {
			var all []string
			for _, it := range pool.Types {
				all = append(all, it.Name)
			}
			pool.Requirements = reqs.Set{corev1.LabelInstanceTypeStable: reqs.Req{Values: all}.WithMinValues(9), corev1.LabelTopologyZone: reqs.Req{Values: []string{"x", "y", "z"}}.WithMinValues(2)}
		}),
		"prices that are far apart": equalPods(20, func(pool *cluster.Pool) {
			for i := range pool.Types {
				for j := range pool.Types[i].Offerings {
					pool.Types[i].Offerings[j].Price *= 1 + float64(i) + float64(j)/10
				}
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			without := solve.Solve(p, nil)
			p.Policy.SpotShare, p.Policy.SpotCost = spotShare, spotCost
			with := solve.Solve(p, nil)
			if len(without.Create) == 0 {
				t.Fatal("no nodes")
			}
			for i := range with.Create {
				with.Create[i].Spread = nil // why not
			}
			if diff := cmp.Diff(without, with); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// IR-09: a plan says of a node that it was narrowed, and why a spot pool has more of a workload than it should.
func TestIR_09_PlansSayHowNodesAreSpread(t *testing.T) {
	t.Parallel()
	prices := func(factor func(i, j int) float64) func(*cluster.Pool) {
		return func(pool *cluster.Pool) {
			for i := range pool.Types {
				for j := range pool.Types[i].Offerings {
					pool.Types[i].Offerings[j].Price *= factor(i, j)
				}
			}
		}
	}
	for name, tc := range map[string]struct {
		change func(*cluster.Pool)
		want   string
	}{
		"narrowed": {want: "only 3 of 9 instance types in x: its workloads are spread over spot pools, so that one has at most 25 % of a workload (IR-05)"},
		"one spot pool is far cheaper": {
			change: prices(func(i, j int) float64 {
				if i+j == 0 {
					return 1
				}
				return 1.5
			}),
			want: "a.large in x has 100 % of a workload; the next spot pool costs 50 % more, and spreading may add 3 % to the prices of the plan (IR-06)",
		},
		"one spot pool": {
			change: func(pool *cluster.Pool) {
				pool.Types = pool.Types[:1]
				pool.Requirements = reqs.Set{corev1.LabelTopologyZone: reqs.Req{Values: []string{"x"}}}
			},
			want: "a.large in x has 100 % of a workload; there is no other spot pool (IR-06)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := equalPods(20, tc.change)
			p.Policy.SpotShare, p.Policy.SpotCost = spotShare, spotCost
			plan := solve.Solve(p, nil)
			said := map[string]int{}
			for i := range plan.Create {
				said[reason.Join(plan.Create[i].Spread, 0)]++
			}
			if said[tc.want] == 0 || said[""] > 0 {
				t.Errorf("%v, want %q", said, tc.want)
			}
		})
	}
}

// IR-06: the setting spot-spread-max-cost pays for more, and for nothing if it is 0.
func TestIR_06_WhatSpreadingMayCost(t *testing.T) {
	t.Parallel()
	lost := map[float64]float64{}
	for seed := range uint64(20) {
		p := spotProblem(t, seed, false)
		before := solve.Solve(p, nil)
		p.Policy.SpotShare, p.Policy.SpotCost = spotShare, spotCost
		for _, cost := range []float64{-1, 0.03, 0.15} {
			p.Policy.SpotCost = cost
			after := solve.Solve(p, nil)
			if after.Cost > before.Cost*(1+max(0, cost))+1e-9 {
				t.Errorf("seed %d, %v: %v USD an hour, %v without the bound", seed, cost, after.Cost, before.Cost)
			}
			if found := check.Plan(p, after); len(found) > 0 {
				t.Errorf("seed %d, %v: %v", seed, cost, found[0])
			}
			lost[cost] += largestLoss(p, &after, cheapestOf, onThreeNodes(p, &before)) / 20
		}
	}
	t.Logf("lost at once by cost: %v", lost)
	if lost[0.15] > 0.75*lost[0.03] || lost[0.03] > 0.75*lost[-1] {
		t.Error("a higher limit does not pay for more")
	}
}

// IR-08: consolidation leaves a spread cluster as it is: it moves nodes no more often than without the bound, comes to an
// end, and does not bring a workload back to one spot pool. Spot to spot, and any saving, are allowed.
func TestIR_08_ConsolidationKeepsTheSpread(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		for _, even := range []bool{true, false} {
			t.Run(fmt.Sprint(seed, "/", even), func(t *testing.T) {
				t.Parallel()
				p := spotProblem(t, seed, even)
				p.Policy.SpotToSpot, p.Policy.AnySaving = true, true
				without := solve.Solve(p, nil)
				plain, _ := settled(t, p, without)
				p.Policy.SpotShare, p.Policy.SpotCost = spotShare, spotCost
				plan := solve.Solve(p, nil)
				moved, after := settled(t, p, plan)
				if moved > plain {
					t.Errorf("%d moves, %d without the bound", moved, plain)
				}
				if before := largestLoss(p, &plan, cheapestOf, onThreeNodes(p, &plan)); moved == 0 && worstOf(after) > before+1e-9 {
					t.Errorf("a spot pool has %.2f of a workload, %.2f before", worstOf(after), before)
				}
			})
		}
	}
}

// IR-08: a workload that consolidation moves from on-demand to spot is spread, too.
func TestIR_08_ConsolidationSpreads(t *testing.T) {
	t.Parallel()
	var worst, before float64
	for seed := range uint64(12) {
		p := spotProblem(t, seed, true)
		plan := solve.Solve(p, nil)
		for _, share := range []float64{0, spotShare} {
			p.Policy.SpotShare, p.Policy.SpotCost = share, spotCost
			q := running(p, plan)
			for i := range q.View.Nodes {
				n := &q.View.Nodes[i]
				n.CapacityType, n.Price = karpv1.CapacityTypeOnDemand, 3*n.Price
				n.Labels[karpv1.LabelCapacityType] = n.CapacityType
			}
			moves, after := settledFrom(t, q)
			if moves == 0 {
				t.Errorf("seed %d: on-demand nodes stay", seed)
			}
			if share == 0 {
				before += worstOf(after)
			} else {
				worst += worstOf(after)
			}
		}
	}
	t.Logf("largest share of a workload on a spot pool: %.2f, %.2f without the bound", worst/12, before/12)
	if worst > before/2 {
		t.Errorf("spot pools have %.2f of a workload, %.2f without the bound", worst/12, before/12)
	}
}

// settled carries out a plan and what consolidation makes of it, until nothing moves. It returns how many moves launched nodes.
func settled(t *testing.T, p solve.Problem, plan solve.Plan) (moves int, view *cluster.Snapshot) {
	t.Helper()
	return settledFrom(t, running(p, plan))
}

// settledFrom is settled for a cluster that runs.
func settledFrom(t *testing.T, q solve.Question) (moves int, view *cluster.Snapshot) {
	t.Helper()
	for round := 1; round < 30; round++ {
		result := solve.Consolidate(q, nil)
		if found := check.Consolidation(q, result); len(found) > 0 {
			t.Fatal(found[0])
		}
		if len(result.Moves) == 0 {
			return moves, q.View
		}
		for i := range result.Moves {
			if len(result.Moves[i].Create) > 0 {
				moves++
			}
		}
		q = applied(q, result, round)
	}
	t.Fatal("still moving after 30 rounds")
	return 0, nil
}

// running is the question about a cluster in which a plan was carried out.
func running(p solve.Problem, plan solve.Plan) solve.Question {
	view := *p.View
	pods := map[cluster.PodKey]cluster.Pod{}
	for _, pod := range p.Pods {
		pods[pod.Key] = pod
	}
	q := solve.Question{Policy: p.Policy}
	view.Pending = nil
	for i := range plan.Create {
		n := launched(&view, &plan.Create[i], fmt.Sprintf("node-%03d", i))
		for _, key := range plan.Create[i].Pods {
			n.Pods = append(n.Pods, pods[key])
		}
		view.Nodes = append(view.Nodes, n)
		q.Candidates = append(q.Candidates, n.Name)
	}
	q.View = &view
	return q
}

// worstOf is the largest share of the pods of a workload with three spot nodes or more that one spot pool has.
func worstOf(view *cluster.Snapshot) float64 {
	nodes, pods, on := map[*cluster.Shape]int{}, map[*cluster.Shape]float64{}, map[*cluster.Shape]map[spotPool]float64{}
	for i := range view.Nodes {
		n, seen := &view.Nodes[i], map[*cluster.Shape]bool{}
		for _, pod := range n.Pods {
			if pod.Daemon {
				continue
			}
			if !seen[pod.Shape] {
				seen[pod.Shape] = true
				nodes[pod.Shape]++
			}
			if on[pod.Shape] == nil {
				on[pod.Shape] = map[spotPool]float64{}
			}
			pods[pod.Shape]++
			on[pod.Shape][spotPool{n.InstanceType, n.Zone}]++
		}
	}
	most := 0.0
	for shape, count := range nodes {
		for _, lost := range on[shape] {
			if count >= 3 {
				most = max(most, lost/pods[shape])
			}
		}
	}
	return most
}
