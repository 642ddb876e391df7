package command

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/drain"
)

// ErrNotHeld means that a node is no longer held for a command.
var ErrNotHeld = errors.New("its node is not held for this command any more")

// Claims of a command that are deleted at a time. Few claims are deleted one by one, so that their pods are
// rescheduled in the order of the plan.
const (
	fewClaims       = 5
	deletionWorkers = 20
)

// DeletionWorkers returns how many claims of a command are deleted at a time.
func DeletionWorkers(claims int) int {
	if claims <= fewClaims {
		return 1
	}
	return deletionWorkers
}

// HeldObjects are the objects of a node that a command removes, as the API server has them now.
type HeldObjects struct {
	Claim       *karpv1.NodeClaim // nil: it is gone
	UID         types.UID         // of the claim when the command last observed it
	Node        *corev1.Node      // nil: it is gone
	ProtectedBy string            // what protects the node, as text (L-15, LC-62); empty: nothing
}

// CheckDelete reports whether a command deletes a claim now. If the claim is gone or terminating there is nothing
// to delete and nothing failed. An error says why the claim has to stay: a process that was paused for long must
// not delete a node that its successor released (FM C03).
func CheckDelete(r *disrupt.Running, o HeldObjects) (remove bool, why error) {
	switch {
	case o.Claim == nil || o.Claim.UID != o.UID || o.Claim.DeletionTimestamp != nil:
		return false, nil
	case condition.Find(o.Claim.Status.Conditions, karpv1.ConditionDisruptionReason) == nil,
		o.Node != nil && o.Node.Annotations[karpv1.AnnotationHeldBy] != r.Token():
		return false, ErrNotHeld
	case r.Reason != karpv1.ReasonUnhealthy && o.ProtectedBy != "":
		return false, errors.New(o.ProtectedBy + " now")
	}
	return true, nil
}

// DrainBound returns how long the drain of a claim may take because of a command; nil: the command says nothing.
func DrainBound(r *disrupt.Running, claim *karpv1.NodeClaim) *time.Duration {
	if r.Bound == nil {
		return nil
	}
	return new(drain.BoundedPeriod(claim, *r.Bound))
}

// DrainDeadline returns when the drain of a claim has to be over because of a command; zero: the command says
// nothing.
func DrainDeadline(r *disrupt.Running, claim *karpv1.NodeClaim, now time.Time) time.Time {
	if bound := DrainBound(r, claim); bound != nil {
		return now.Add(*bound)
	}
	return time.Time{}
}

// RebootRefusal returns why a reboot that was decided is not requested: the budget was spent meanwhile. It is empty
// if nothing keeps it from being requested.
func RebootRefusal(c *disrupt.Command, fresh disrupt.View) (node, text string) {
	for _, o := range disrupt.OverBudget([]disrupt.Command{*c}, fresh)[0] {
		return o.Node, o.Text
	}
	return "", ""
}
