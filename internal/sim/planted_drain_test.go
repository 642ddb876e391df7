package sim_test

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// drainBugs are bugs in how nodes are drained and their instances terminated.
func drainBugs() []plantedBug {
	return []plantedBug{
		{name: "evictions that a budget refuses are repeated at once", seed: 2, rules: []string{"G12"}, plant: func(s *sim.Steps) {
			s.RecordEviction = afterRefusal(drain.FirstRetry)
		}},
		{name: "evictions that a budget refuses are not repeated", seed: 2, rules: []string{"LC-34"}, plant: func(s *sim.Steps) {
			s.RecordEviction = afterRefusal(24 * time.Hour)
		}},
		{name: "the eviction queue does not know the deadline of a node", seed: 2, rules: []string{"LC-36"}, plant: func(s *sim.Steps) {
			s.AddEvictions = func(q *drain.EvictionQueue, now time.Time, list ...drain.Eviction) []cluster.PodID {
				for i := range list {
					list[i].Limit = drain.Limit{}
				}
				return q.Add(now, list...)
			}
		}},
		{name: "a Node that is gone is not noticed", seed: 22, rules: []string{"FM-L12"}, plant: func(s *sim.Steps) {
			s.NodeMissing = func(*karpv1.NodeClaim, []*corev1.Node) bool { return false }
		}},
		{name: "a termination that the cloud refuses counts as accepted", seed: 22, rules: []string{"FM-L16"}, plant: func(s *sim.Steps) {
			s.AdvanceNode = func(ctx context.Context, f drain.Facts, calls *drain.Calls, shell drain.NodeShell) (time.Duration, error) {
				return drain.AdvanceNode(ctx, f, calls, deafNode{shell})
			}
		}},
		{name: "a termination that the cloud refuses is not repeated", seed: 47, rules: []string{"FM-L16"}, plant: func(s *sim.Steps) {
			s.AdvanceNode = func(ctx context.Context, f drain.Facts, calls *drain.Calls, shell drain.NodeShell) (time.Duration, error) {
				if f.Claim != nil && refusal(f.Claim) != nil {
					return drain.LastRetry, nil
				}
				return drain.AdvanceNode(ctx, f, calls, shell)
			}
		}},
		{name: "claims do not say that the cloud refuses to terminate their instance", seed: 22, rules: []string{"G13"}, plant: func(s *sim.Steps) {
			s.AdvanceNode = func(ctx context.Context, f drain.Facts, calls *drain.Calls, shell drain.NodeShell) (time.Duration, error) {
				return drain.AdvanceNode(ctx, f, calls, silentNode{shell})
			}
		}},
	}
}

// afterRefusal has evictions that a budget refused be repeated after a time.
func afterRefusal(wait time.Duration) func(*drain.EvictionQueue, cluster.PodID, drain.Act, error, time.Time) drain.EvictionOutcome {
	return func(q *drain.EvictionQueue, id cluster.PodID, act drain.Act, err error, now time.Time) drain.EvictionOutcome {
		out := q.Record(id, act, err, now)
		if out.Response == drain.EvictionForbidden {
			out.After = wait
		}
		return out
	}
}

// refusal is the condition of a claim whose instance the cloud does not terminate.
func refusal(claim *karpv1.NodeClaim) *metav1.Condition {
	i := slices.IndexFunc(claim.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == karpv1.ConditionInstanceTerminating && c.Status == metav1.ConditionUnknown && c.Message != ""
	})
	if i < 0 {
		return nil
	}
	return &claim.Status.Conditions[i]
}

// deafNode takes every response of the cloud for a yes, but that there is no instance.
type deafNode struct{ drain.NodeShell }

func (n deafNode) Terminate(ctx context.Context) error {
	if err := n.NodeShell.Terminate(ctx); cloud.Is(err, cloud.NotFound) {
		return err
	}
	return nil
}

// silentNode writes no condition about refused terminations.
type silentNode struct{ drain.NodeShell }

func (n silentNode) Perform(ctx context.Context, f *drain.Facts, s drain.Step) (bool, error) {
	s.Marks = slices.DeleteFunc(slices.Clone(s.Marks), func(m drain.Mark) bool {
		return m.Type == karpv1.ConditionInstanceTerminating && m.Status == metav1.ConditionUnknown
	})
	return n.NodeShell.Perform(ctx, f, s)
}
