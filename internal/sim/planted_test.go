package sim_test

import (
	"context"
	"flag"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/api/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/interruption"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/overlay"
	"github.com/dovetail-sh/dovetail/internal/pool"
	"github.com/dovetail-sh/dovetail/internal/provision"
	"github.com/dovetail-sh/dovetail/internal/reqs"
	"github.com/dovetail-sh/dovetail/internal/resources"
	"github.com/dovetail-sh/dovetail/internal/risk"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

var search = flag.Bool("search", false, "have the tests of planted bugs look for the first seed that finds each bug")

// plantedBug is a bug in a step that the simulator shares with the controller.
type plantedBug struct {
	name  string
	plant func(*sim.Steps)
	seed  uint64 // one that finds it
	rules []string
}

// plantedBugs is what the simulator must find. A bug without a seed that finds it within 2,000 shows that a rule is
// missing, or that runs do not come near.
func plantedBugs() []plantedBug {
	return []plantedBug{
		{name: "windows of triggers never close", seed: 1, rules: []string{"G13", "G14"}, plant: func(s *sim.Steps) {
			s.WindowCloses = func(w *provision.Window) time.Time { return w.Closes().Add(24 * time.Hour) }
		}},
		{name: "launch back-off never ends", seed: 310, rules: []string{"static", "G14"}, plant: func(s *sim.Steps) {
			s.RecordLaunch = func(b *provision.LaunchBackoff, claim *karpv1.NodeClaim, launched cloud.Instance, err error, now time.Time) {
				if err != nil {
					b.RecordLaunch(claim, launched, err, now.Add(24*time.Hour))
				}
			}
		}},
		{name: "launches do not wait for the batch of claims", seed: 28, rules: []string{"SC-51"}, plant: func(s *sim.Steps) {
			s.LaunchWait = func(*provision.Batches, int, time.Duration) time.Duration { return 0 }
		}},
		{name: "launches wait for a batch of claims for ever", seed: 56, rules: []string{"SC-51"}, plant: func(s *sim.Steps) {
			s.LaunchWait = func(b *provision.Batches, batch int, _ time.Duration) time.Duration { return b.LaunchWait(batch, 0) }
		}},
		{name: "claims on their way to a reservation are not counted", seed: 9, rules: []string{"SC-45"}, plant: func(s *sim.Steps) {
			s.AvailableTypes = func(b *provision.LaunchBackoff, pool string, list []catalog.InstanceType, now time.Time) []catalog.InstanceType {
				return allCounted(b.WithoutBackedOff(pool, list, now))
			}
		}},
		{name: "nodes that were launched for a pod are forgotten", seed: 7, rules: []string{"one node after another"}, plant: func(s *sim.Steps) {
			s.RecordOrders = func(state *provision.State, list []provision.OrderResult, _ *cluster.Snapshot, now time.Time) bool {
				return state.RecordOrders(list, &cluster.Snapshot{}, now)
			}
		}},
		{name: "static pools count claims that are being deleted", seed: 604, rules: []string{"static"}, plant: func(s *sim.Steps) {
			counted := func(f pool.StaticFacts) pool.StaticFacts {
				f.Claims = slices.Clone(f.Claims)
				for i, claim := range f.Claims {
					f.Claims[i] = claim.DeepCopy()
					f.Claims[i].DeletionTimestamp = nil
				}
				return f
			}
			s.Grow = func(f pool.StaticFacts) pool.StaticStep { return pool.Grow(counted(f)) }
			s.Shrink = func(f pool.StaticFacts) pool.StaticStep { return pool.Shrink(counted(f)) }
		}},
		{name: "static pools grow by what a cache says", seed: 192, rules: []string{"static"}, plant: func(s *sim.Steps) {
			s.Grow = func(f pool.StaticFacts) pool.StaticStep {
				f.Live = true
				return pool.Grow(f)
			}
		}},
		{name: "do-not-disrupt after the decision is ignored", seed: 18, rules: []string{"G6"}, plant: func(s *sim.Steps) {
			s.NodeProtectedBy = func(*corev1.Node, *karpv1.NodePool) string { return "" }
		}},
		{name: "do-not-disrupt of the pool is ignored", seed: 18, rules: []string{"G6"}, plant: func(s *sim.Steps) {
			s.NodeProtectedBy = func(node *corev1.Node, _ *karpv1.NodePool) string { return cluster.NodeProtectedBy(node, nil) }
		}},
		{name: "deprecated annotations are ignored", seed: 446, rules: []string{"G6"}, plant: func(s *sim.Steps) {
			s.NodeProtectedBy = func(node *corev1.Node, of *karpv1.NodePool) string {
				if node != nil && node.Annotations[karpv1.AnnotationDoNotDisrupt] == "true" || of != nil && of.Annotations[karpv1.AnnotationDoNotDisrupt] == "true" {
					return "do-not-disrupt"
				}
				return ""
			}
		}},
		{name: "a Node is released although its instance runs", seed: 1, rules: []string{"G3"}, plant: func(s *sim.Steps) {
			s.AdvanceNode = func(ctx context.Context, f drain.Facts, calls *drain.Calls, shell drain.NodeShell) (time.Duration, error) {
				return drain.AdvanceNode(ctx, f, calls, goneNode{shell})
			}
		}},
		{name: "a Node is terminated with its pods", seed: 1, rules: []string{"G6"}, plant: func(s *sim.Steps) {
			s.AdvanceNode = func(ctx context.Context, f drain.Facts, calls *drain.Calls, shell drain.NodeShell) (time.Duration, error) {
				f.Pods = nil
				return drain.AdvanceNode(ctx, f, calls, shell)
			}
		}},
		{name: "a claim is released although its instance runs", seed: 7, rules: []string{"G3"}, plant: func(s *sim.Steps) {
			s.AdvanceClaim = func(ctx context.Context, f drain.ClaimFacts, calls *drain.Calls, shell drain.ClaimShell) (time.Duration, error) {
				return drain.AdvanceClaim(ctx, f, calls, goneClaim{shell})
			}
		}},
		{name: "a claim is released while its instance is being launched", seed: 58, rules: []string{"FM-A06"}, plant: func(s *sim.Steps) {
			s.AdvanceClaim = func(ctx context.Context, f drain.ClaimFacts, calls *drain.Calls, shell drain.ClaimShell) (time.Duration, error) {
				f.Launching = false
				return drain.AdvanceClaim(ctx, f, calls, shell)
			}
		}},
		{name: "an instance that the status does not show is forgotten", seed: 58, rules: []string{"G3"}, plant: func(s *sim.Steps) {
			s.InstanceOf = func(claim *karpv1.NodeClaim, _ cloud.ID) cloud.ID { return cloud.ID(claim.Status.ProviderID) }
		}},
		{name: "interruptions are ignored", seed: 1, rules: []string{"interruption"}, plant: func(s *sim.Steps) {
			s.Interrupt = func(*interruption.State, interruption.Notice, *karpv1.NodeClaim, string, time.Time) []interruption.Effect {
				return nil
			}
		}},
		{name: "reservations that are taken back are not left", seed: 6, rules: []string{"interruption"}, plant: func(s *sim.Steps) {
			s.Interrupt = func(state *interruption.State, n interruption.Notice, claim *karpv1.NodeClaim, label string, now time.Time) []interruption.Effect {
				if n.Kind == interruption.ReservationInterrupted {
					return nil
				}
				return state.Advance(n, claim, label, now)
			}
		}},
		{name: "reservations that are taken back stay in plans", seed: 98, rules: []string{"reservation"}, plant: func(s *sim.Steps) {
			s.Interrupt = func(state *interruption.State, n interruption.Notice, claim *karpv1.NodeClaim, label string, now time.Time) []interruption.Effect {
				return slices.DeleteFunc(state.Advance(n, claim, label, now), func(e interruption.Effect) bool {
					_, is := e.(interruption.MarkReservationUnavailable)
					return is
				})
			}
		}},
		{name: "capacity blocks that end are not left", seed: 98, rules: []string{"block"}, plant: func(s *sim.Steps) {
			s.BlockEnding = func(lifecycle.Blocks, *karpv1.NodeClaim, time.Time) (time.Time, bool) { return time.Time{}, false }
		}},
		{name: "capacity blocks are left when they are over", seed: 98, rules: []string{"block"}, plant: func(s *sim.Steps) {
			s.BlockEnding = func(b lifecycle.Blocks, claim *karpv1.NodeClaim, now time.Time) (time.Time, bool) {
				return b.Ending(claim, now.Add(-40*time.Minute))
			}
		}},
		{name: "nodes whose reservation has ended count as reserved", seed: 51, rules: []string{"FM-F09"}, plant: func(s *sim.Steps) {
			s.OnDemandLabels = func(labels map[string]string, _ ...string) map[string]string { return labels }
		}},
		{name: "overlays of equal weight do not conflict", seed: 3, rules: []string{"overlay"}, plant: func(s *sim.Steps) {
			s.EvaluateOverlays = withWeights(func(weight int32, i int) int32 { return 100*weight + int32(i) })
		}},
		{name: "overlays of lower weight win", seed: 3, rules: []string{"overlay"}, plant: func(s *sim.Steps) {
			s.EvaluateOverlays = withWeights(func(weight int32, _ int) int32 { return 100 - weight })
		}},
		{name: "rebalance recommendations are taken for interruptions", seed: 14, rules: []string{"IR-03"}, plant: func(s *sim.Steps) {
			s.Interrupt = func(state *interruption.State, n interruption.Notice, claim *karpv1.NodeClaim, label string, now time.Time) []interruption.Effect {
				if n.Kind != interruption.RebalanceRecommended {
					return state.Advance(n, claim, label, now)
				}
				return append(state.Advance(n, claim, label, now), interruption.DeleteClaim{})
			}
		}},
		{name: "interruptions are no risk", seed: 14, rules: []string{"risk"}, plant: func(s *sim.Steps) {
			s.RecordRisk = func(b *risk.Book, e risk.Event, o risk.Offering, now time.Time) {
				if e != risk.Interrupted {
					b.Add(e, o, now)
				}
			}
		}},
		{name: "risk does not decay", seed: 540, rules: []string{"risk"}, plant: func(s *sim.Steps) {
			s.RecordRisk = func(b *risk.Book, e risk.Event, o risk.Offering, now time.Time) { b.Add(e, o, now.Add(24*time.Hour)) }
		}},
		{name: "pools whose nodes do not register are not backed off", seed: 8, rules: []string{"RH-02"}, plant: func(s *sim.Steps) {
			s.RegistrationOf = func([]metav1.Condition, []pool.Result) pool.Registration { return pool.RegistrationOpen }
		}},
		{name: "nodes are initialized before their devices are published", seed: 24, rules: []string{"DR-08"}, plant: func(s *sim.Steps) {
			s.CompleteDrivers = func([]*resourcev1.ResourceSlice, string) []string { return []string{"gpu.example.com"} }
		}},
		{name: "launches know of no overlays", seed: 39, rules: []string{"G8", "G13", "G14", "one node after another", "no oscillation"}, plant: func(s *sim.Steps) {
			s.LaunchTypes = func(_ *overlay.State, of overlay.Pool) []catalog.InstanceType { return of.Types }
		}},
	}
}

// withWeights evaluates overlays as if they had other weights.
func withWeights(weigh func(weight int32, i int) int32) func([]v1alpha1.NodeOverlay, []overlay.Pool, resources.Table, reqs.Vocabulary) (*overlay.Set, []overlay.Verdict) {
	return func(objects []v1alpha1.NodeOverlay, pools []overlay.Pool, table resources.Table, words reqs.Vocabulary) (*overlay.Set, []overlay.Verdict) {
		objects = slices.Clone(objects)
		for i := range objects {
			weight := int32(0)
			if w := objects[i].Spec.Weight; w != nil {
				weight = *w
			}
			objects[i].Spec.Weight = new(weigh(weight, i))
		}
		return overlay.Evaluate(objects, pools, table, words)
	}
}

// allCounted returns instance types whose reservations are said to have counted the instance of every claim of a run.
func allCounted(list []catalog.InstanceType) []catalog.InstanceType {
	var claims []string
	for i := range 5000 {
		claims = append(claims, "claim-"+strconv.Itoa(i))
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Offerings = slices.Clone(list[i].Offerings)
		for j := range list[i].Offerings {
			if o := &list[i].Offerings[j]; o.Reservation != "" {
				o.Takers = claims
			}
		}
	}
	return list
}

// goneNode and goneClaim take every instance for terminated.
type (
	goneNode  struct{ drain.NodeShell }
	goneClaim struct{ drain.ClaimShell }
)

func (goneNode) Terminate(context.Context) error  { return &cloud.Error{Kind: cloud.NotFound} }
func (goneClaim) Terminate(context.Context) error { return &cloud.Error{Kind: cloud.NotFound} }

// The simulator finds bugs in the steps that it shares with the controller. TestSeeds shows that the same seeds find nothing
// without them. When runs have changed, -search looks for another seed.
func TestPlantedBugs(t *testing.T) {
	t.Parallel()
	for _, bug := range slices.Concat(plantedBugs(), drainBugs(), poolBugs()) {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			first, last := bug.seed, bug.seed
			if *search {
				first, last = *from, *from+1999
			}
			for seed := first; seed <= last; seed++ {
				c := sim.Generate(seed)
				bug.plant(&c.Steps)
				c.FirstOnly = true
				if found := sim.Run(c).Violations; len(found) > 0 && slices.Contains(bug.rules, found[0].Rule) {
					if *search {
						t.Logf("seed %d: %s: %s", seed, found[0].Rule, found[0].Text)
					}
					return
				}
			}
			t.Errorf("seeds %d to %d do not find it; look for another one with -search", first, last)
		})
	}
}
