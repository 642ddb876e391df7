package pool

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/budget"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/drift"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/reason"
	"github.com/dovetail-sh/dovetail/internal/reqs"
)

// ValidationFailed is the reason of ValidationSucceeded=False.
const ValidationFailed = "NodePoolValidationFailed"

// Facts are what a decision about one pool rests on.
type Facts struct {
	Pool   *karpv1.NodePool   // as stored
	Claims []karpv1.NodeClaim // only looked at when another version stamped the pool
	Class  *Class             // nil: there is none of the name
	Words  reqs.Vocabulary
	Strict bool
	Now    metav1.Time

	Launches Launches
}

// Step is what to write. Writing it again changes nothing.
type Step struct {
	Conditions  []metav1.Condition // the whole list
	ClassSeen   int64              // generation of the node class these conditions were decided with
	Launches    Ring               // to keep until the next decision
	Events      []event.Event      // about the pool
	Annotations map[string]string  // to be on the pool; nil when they are
	Restamp     []Stamp            // claims to write before the pool
	Assumed     []reason.Reason    // what was read into the pool; reported once per generation
	Ignored     []reason.Reason    // what has no effect or cannot be read, for the log; once per generation
	After       time.Duration      // decide again after this time; 0: when something changes
}

// Stamp is the annotations to be put on one claim.
type Stamp struct {
	Claim       string
	Annotations map[string]string
}

// Conditions says which conditions decide whether a pool is ready.
func Conditions() condition.Kind {
	return condition.Kind{Root: karpv1.ConditionReady, Dependents: []string{karpv1.ConditionValidationSucceeded, karpv1.ConditionNodeClassReady}}
}

// Next decides. The error is one of encoding the pool for its hash; nothing is to be written then.
func Next(f Facts) (Step, error) {
	effective, notes := f.Pool.Effective(f.Strict)
	problems, ignored := effective.Validate(f.Words)
	ignored = append(ignored, unreadableBudgets(effective, f.Now.Time)...)
	problems = append(reason.Refusals(notes), problems...)
	if f.Class != nil {
		problems = append(problems, f.Class.Refusals...)
	}
	change := condition.Change{Type: karpv1.ConditionValidationSucceeded, Status: metav1.ConditionTrue}
	if len(problems) > 0 {
		change.Status, change.Reason, change.Message = metav1.ConditionFalse, ValidationFailed, reason.Join(problems, 0)
	}
	ready, events := classReady(effective.Spec.Template.Spec.NodeClassRef, f.Class)
	changes := []condition.Change{change}
	wait := f.expectsClass()
	if wait > 0 {
		events = nil
	} else {
		changes = append(changes, ready)
	}
	ring, registers := DecideHealth(f)
	object := condition.Object{Generation: f.Pool.Generation, Created: f.Pool.CreationTimestamp, Deleting: !f.Pool.DeletionTimestamp.IsZero()}
	step := Step{
		Conditions: Conditions().Apply(f.Pool.Status.Conditions, object, f.Now, append(changes, registers)...),
		ClassSeen:  f.Pool.Status.NodeClassObservedGeneration,
		Launches:   ring, Events: events, After: wait,
	}
	if f.Class != nil {
		step.ClassSeen = f.Class.Generation
	}

	seen := condition.Find(f.Pool.Status.Conditions, karpv1.ConditionValidationSucceeded)
	if seen == nil || seen.ObservedGeneration != f.Pool.Generation || seen.Reason == condition.AwaitingReconciliation {
		step.Ignored = ignored
		if len(problems) == 0 {
			step.Assumed = notes
		}
	}
	hash, err := drift.PoolHash(f.Pool)
	if err != nil {
		return Step{}, err
	}
	step.stampHashes(f, hash)
	return step, nil
}

// unreadableBudgets names the budgets that allow nothing because they cannot be read (API 5). That is
// no reason not to launch nodes, so the pool stays valid.
func unreadableBudgets(p *karpv1.NodePool, now time.Time) []reason.Reason {
	_, broken := budget.Limit(cluster.Budgets(p.Spec.Disruption.Budgets), "", 1, now)
	return broken
}

// stampHashes keeps the hashes (API 8). Claims of another version are restamped before the pool, so that a
// crash in between repeats the work instead of leaving claims that look drifted.
func (s *Step) stampHashes(f Facts, hash drift.Hash) {
	have, stamps := f.Pool.Annotations, hash.OnPool()
	if drift.Stamped(have, stamps) {
		return
	}
	s.Annotations = stamps
	if have[karpv1.AnnotationNodePoolHashVersion] == drift.PoolHashVersion {
		return // the pool changed: claims keep the hash they were made with, and drift
	}
	for i := range f.Claims {
		claim := &f.Claims[i]
		if claim.Annotations[karpv1.AnnotationNodePoolHashVersion] == drift.PoolHashVersion {
			continue
		}
		stamp := Stamp{Claim: claim.Name, Annotations: map[string]string{karpv1.AnnotationNodePoolHashVersion: drift.PoolHashVersion}}
		if !condition.True(claim.Status.Conditions, karpv1.ConditionDrifted) {
			stamp.Annotations = stamps
		}
		s.Restamp = append(s.Restamp, stamp)
	}
}
