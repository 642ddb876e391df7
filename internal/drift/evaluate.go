package drift

import (
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// interval is how often a claim is compared with what is wanted, even if nothing is known to have changed.
const interval = 5 * time.Minute

// NextCheck returns in what time a claim is compared again, given after what time something else looks at it; zero:
// nothing does.
func NextCheck(after time.Duration) time.Duration {
	if after == 0 {
		return interval
	}
	return min(after, interval)
}

// Sources are what a claim is compared with besides its pool. Each is called only if nothing before it drifted.
type Sources struct {
	Words     reqs.Vocabulary
	Catalogue func() reason.Reason          // whether its instance type is still offered; nil: not compared
	Class     func() (reason.Reason, error) // whether the instance is what its node class wants; nil: not compared
}

// Evaluate says why a claim is not what is wanted now, in the order of LC-57: the first reason found counts, and no code
// means none. A claim that is not launched has nothing that could drift. After an error it is not known whether it
// drifted, which must not replace a fleet.
func Evaluate(pool *karpv1.NodePool, claim *karpv1.NodeClaim, s Sources) (reason.Reason, error) {
	if !condition.True(claim.Status.Conditions, karpv1.ConditionLaunched) {
		return reason.Reason{}, nil
	}
	if why := Pool(pool, claim, s.Words); why.Code != "" {
		return why, nil
	}
	if s.Catalogue != nil {
		if why := s.Catalogue(); why.Code != "" {
			return why, nil
		}
	}
	if s.Class == nil {
		return reason.Reason{}, nil
	}
	return s.Class()
}
