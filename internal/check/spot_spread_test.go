package check_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/check"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/scenario"
	"github.com/dovetail-sh/dovetail/internal/scenario/families"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// spotShare is the default of the setting spot-pool-share.
const spotShare = 0.25

// IR-06: a spread plan has the same nodes for at most 3 % more, is valid, and loses far fewer pods of a workload at
// once: a third where prices of zones and types are close, as far as 3 % go where a few spot pools are much cheaper than
// all others. Reclaimed is the spot pool that has most of a workload. EC2 launches either the cheapest offering of
// a claim, or the deepest spot pool that a claim leaves open.
func TestIR_06_SpreadPlansLoseLess(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		even               bool
		wantLost, wantDeep float64 // share of what is lost without the bound
	}{
		"prices that are close":   {even: true, wantLost: 1.0 / 3, wantDeep: 1.0 / 3},
		"prices of a real region": {wantLost: 0.6, wantDeep: 0.55},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cost, costBefore, lost, lostBefore, deep, deepBefore float64
			plans := 0
			for seed := range uint64(60) {
				p := spotProblem(t, seed, tc.even)
				before := solve.Solve(p, nil)
				p.Policy.SpotShare = spotShare
				after := solve.Solve(p, nil)
				if len(before.Create) != len(after.Create) || len(before.Unplaced) != len(after.Unplaced) {
					t.Errorf("seed %d: %d nodes, %d without the bound", seed, len(after.Create), len(before.Create))
				}
				if found := check.Plan(p, after); len(found) > 0 {
					t.Errorf("seed %d: %v", seed, found[0])
				}
				if after.Cost > before.Cost*1.03 {
					t.Errorf("seed %d: %v USD an hour, %v without the bound", seed, after.Cost, before.Cost)
				}
				cost, costBefore = cost+after.Cost, costBefore+before.Cost
				if largestLoss(p, &before, cheapestOf) == 0 { // no workload has three nodes
					continue
				}
				plans++
				ec2 := deepestOf(p.View.Pools[0].Types, seed)
				lost, lostBefore = lost+largestLoss(p, &after, cheapestOf), lostBefore+largestLoss(p, &before, cheapestOf)
				deep, deepBefore = deep+largestLoss(p, &after, ec2), deepBefore+largestLoss(p, &before, ec2)
			}
			t.Logf("%d plans, cost %+.2f %%; lost at once: cheapest offering %.0f %%, %.0f %% without the bound; deepest spot pool %.0f %%, %.0f %% without",
				plans, 100*(cost/costBefore-1), 100*lost/float64(plans), 100*lostBefore/float64(plans), 100*deep/float64(plans), 100*deepBefore/float64(plans))
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

// deepestOf is an EC2 in which each spot pool has a depth that nobody knows. It launches the deepest that a claim leaves
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

// largestLoss is the largest share of the nodes of a workload with three nodes or more that one spot pool has.
func largestLoss(p solve.Problem, plan *solve.Plan, launch func(*solve.NewNode) spotPool) float64 {
	shapes := map[cluster.PodKey]*cluster.Shape{}
	for i := range p.Pods {
		shapes[p.Pods[i].Key] = p.Pods[i].Shape
	}
	type count struct {
		nodes int
		on    map[spotPool]int
	}
	workloads := map[*cluster.Shape]*count{}
	for i := range plan.Create {
		at, seen := launch(&plan.Create[i]), map[*cluster.Shape]bool{}
		for _, key := range plan.Create[i].Pods {
			shape := shapes[key]
			w := workloads[shape]
			if w == nil {
				w = &count{on: map[spotPool]int{}}
				workloads[shape] = w
			}
			if !seen[shape] {
				seen[shape] = true
				w.nodes++
				w.on[at]++
			}
		}
	}
	most := 0.0
	for _, w := range workloads {
		for _, lost := range w.on {
			if w.nodes >= 3 {
				most = max(most, float64(lost)/float64(w.nodes))
			}
		}
	}
	return most
}
