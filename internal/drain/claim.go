package drain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// ClaimFacts are the inputs of a decision about one claim.
type ClaimFacts struct {
	Claim     *karpv1.NodeClaim // being deleted
	Launching bool              // a request to launch its instance is under way
	Launched  bool              // there is an instance to end, or there was: InstanceOf has an id
	Nodes     []*corev1.Node    // with the provider id of the claim
	Instance  State
	Refusal   Refusal   // of the cloud; only if the instance stays
	Said      time.Time // when a condition was last written; zero: not that we know
	Accepted  time.Time // when the cloud last accepted to end the instance, or said that it is gone; zero: not that we know
	Now       time.Time
}

// InstanceOf is the instance to end with a claim: that of its status, or one that was launched and is not written there yet
// (FM A06). It is empty if nothing was launched.
func InstanceOf(claim *karpv1.NodeClaim, launched cloud.ID) cloud.ID {
	if id := claim.Status.ProviderID; id != "" {
		return cloud.ID(id)
	}
	return launched
}

// ClaimStep is what to do, in the order of the fields. Doing it again changes nothing.
type ClaimStep struct {
	Stamp       string // deadline to be written on the claim; empty: as it is
	Unstamp     bool   // the deadline there cannot be read and nothing gives another: take it off
	Unreadable  string // what was found instead of a deadline, for the log
	Events      []event.Event
	DeleteNodes []*corev1.Node
	Query       bool // query the cloud about the instance, then decide again
	Marks       []Mark
	Waits       []Wait // what holds the claim once its Node is deleted, or if it has none
	Terminate   bool   // end the instance, then decide again
	Release     bool   // remove the finalizer
	After       time.Duration
}

// NextClaim decides about a claim that is being deleted (LC-20 to LC-23).
func NextClaim(f ClaimFacts) ClaimStep {
	var step ClaimStep
	if f.Launching { // the instance that comes has to be terminated with the claim
		step.After = recheckLaunch
		return step
	}
	step.setDeadline(f.Claim)
	if isTrue(f.Claim, karpv1.ConditionRegistered) && len(f.Nodes) > 0 {
		for _, n := range f.Nodes {
			if n.DeletionTimestamp == nil {
				step.DeleteNodes = append(step.DeleteNodes, n)
			}
		}
		step.After = recheckCloud // the end of a Node wakes us earlier
		if marks := terminatingCondition(f.Claim); len(marks) > 0 && ourFinalizersRemoved(f.Nodes) {
			step.Query = f.Instance == NotQueried
			if f.Instance == Gone {
				step.Marks = marks
			}
		}
		return step
	}
	switch {
	case !f.Launched, f.Instance == Gone:
		step.Release = true
	case f.Instance == Staying:
		step.After = recheckCloud
		step.explainInstanceWait(f)
	case f.Instance == Ending:
		step.Marks = terminatingCondition(f.Claim)
		step.After = terminateBackoff(f.Claim, f.Now)
		step.explainInstanceWait(f)
	case f.Now.Sub(f.Accepted) < terminateBackoff(f.Claim, f.Accepted):
		step.Marks = terminatingCondition(f.Claim)
		step.After = terminateBackoff(f.Claim, f.Accepted) - f.Now.Sub(f.Accepted)
		step.explainInstanceWait(f)
	default:
		step.Terminate = true
	}
	return step
}

// ourFinalizersRemoved reports whether Nodes that are being deleted have no finalizer of ours; others may still
// hold them.
func ourFinalizersRemoved(nodes []*corev1.Node) bool {
	return !slices.ContainsFunc(nodes, func(n *corev1.Node) bool {
		return n.DeletionTimestamp == nil || slices.Contains(n.Finalizers, karpv1.FinalizerTermination)
	})
}

// explainInstanceWait reports an instance that should be gone.
func (s *ClaimStep) explainInstanceWait(f ClaimFacts) {
	waits, marks := instanceWaits(f.Claim, f.Instance, f.Refusal, f.Said, f.Now)
	s.Waits, s.Marks = waits, append(s.Marks, marks...)
	if len(waits) > 0 {
		s.Events = append(s.Events, longWaitEvents("claim", waits, waits[0].Since, time.Time{}, f.Now)...)
	}
}

// setDeadline writes the deadline once. A valid deadline stays, since it may be earlier on purpose. An invalid
// one would hold the node forever and is replaced (L18).
func (s *ClaimStep) setDeadline(claim *karpv1.NodeClaim) {
	text, stamped := claim.Annotations[karpv1.AnnotationTerminationTimestamp]
	_, readable := parsedDeadline(claim)
	if stamped && readable {
		return
	}
	if stamped {
		s.Unreadable = text
	}
	at := computedDeadline(claim)
	switch {
	case !at.IsZero():
		s.Stamp = at.UTC().Format(time.RFC3339)
		if claim.Status.ProviderID != "" { // else there is no node that pods could be on
			s.Events = append(s.Events, expiring(at))
		}
	case stamped:
		s.Unstamp = true
	}
}
