package sim_test

import (
	"slices"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/buffer"
	"github.com/dovetail-sh/dovetail/internal/execute"
	"github.com/dovetail-sh/dovetail/internal/pool"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// poolBugs are bugs in what is decided about NodePools and CapacityBuffers.
func poolBugs() []plantedBug {
	return []plantedBug{
		{name: "room for buffers is not planned again", seed: 10, rules: []string{"CB-12"}, plant: func(s *sim.Steps) {
			s.ReplanDue = func(pending int, _ bool) bool { return pending > 0 }
		}},
		{name: "plans do not wait for buffers", seed: 95, rules: []string{"CB-17"}, plant: func(s *sim.Steps) {
			s.EndBufferPass = func(p *buffer.Passes, failed bool, now time.Time) (time.Duration, bool) {
				next, _ := p.End(failed, now)
				return next, true
			}
		}},
		{name: "plans wait for buffers for ever", seed: 95, rules: []string{"CB-17"}, plant: func(s *sim.Steps) {
			s.EndBufferPass = func(p *buffer.Passes, failed bool, now time.Time) (time.Duration, bool) {
				next, _ := p.End(failed, now)
				return next, !failed
			}
		}},
		{name: "denied claims of static pools are forgotten", seed: 22, rules: []string{"FM-A14"}, plant: func(s *sim.Steps) {
			s.DeniedPools = func(created []execute.Created) []string {
				return slices.DeleteFunc(execute.DeniedPools(created), func(name string) bool { return name == "fixed" })
			}
		}},
		{name: "how launches ended is not counted", seed: 8, rules: []string{"LC-53"}, plant: func(s *sim.Steps) {
			s.NextPool = func(f pool.Facts) (pool.Step, error) {
				f.Launches.Results = nil
				return pool.Next(f)
			}
		}},
		{name: "a pool keeps the hash of its first template", seed: 3, rules: []string{"LC-50"}, plant: func(s *sim.Steps) {
			s.NextPool = func(f pool.Facts) (pool.Step, error) {
				step, err := pool.Next(f)
				if f.Pool.Annotations[karpv1.AnnotationNodePoolHash] != "" {
					step.Annotations = nil
				}
				return step, err
			}
		}},
		{name: "conditions of a pool are those of an earlier generation", seed: 3, rules: []string{"LC-51"}, plant: func(s *sim.Steps) {
			s.NextPool = func(f pool.Facts) (pool.Step, error) {
				step, err := pool.Next(f)
				if len(f.Pool.Status.Conditions) > 0 {
					step.Conditions = f.Pool.Status.Conditions
				}
				return step, err
			}
		}},
	}
}
