package drain

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// CacheDelay is how long the cache may take to show what was done to a pod. Nothing is done to it meanwhile.
const CacheDelay = 10 * time.Second

// ReasonOf returns why a node is removed, as the events and metrics of its pods have it.
func ReasonOf(claim *karpv1.NodeClaim) string {
	if claim != nil {
		if c := condition.Find(claim.Status.Conditions, karpv1.ConditionDisruptionReason); c != nil && condition.True(claim.Status.Conditions, c.Type) {
			return c.Reason
		}
	}
	return "forceful termination"
}

// EvictionResponse is what the response of the API server to an eviction or a deletion of a pod means.
type EvictionResponse int

// The responses.
const (
	EvictionAccepted  EvictionResponse = iota // the pod terminates
	EvictionObsolete                          // there is no such pod any more
	EvictionNotNeeded                         // its namespace is terminating, and the pod with it
	EvictionForbidden                         // a PodDisruptionBudget allows none now, or several select the pod
	EvictionThrottled                         // too many requests
	EvictionFailed                            // anything else: the request is repeated, and the error is logged
)

// ReadEvictionResponse reads what the API server said to an eviction (LC-35); no error: it accepted.
func ReadEvictionResponse(err error) EvictionResponse {
	switch {
	case err == nil:
		return EvictionAccepted
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return EvictionObsolete
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return EvictionNotNeeded
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause),
		apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget"):
		return EvictionForbidden
	case apierrors.IsTooManyRequests(err):
		return EvictionThrottled
	}
	return EvictionFailed
}

// ResponseText is what the API server said, without what only helps programs.
func ResponseText(err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.Status().Message != "" {
		return status.Status().Message + budgetCause(err)
	}
	return err.Error()
}

// budgetCause is what the API server says about the budget, in brackets.
func budgetCause(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.Status().Details == nil {
		return ""
	}
	for _, c := range status.Status().Details.Causes {
		if c.Type == policyv1.DisruptionBudgetCause && c.Message != "" {
			return " (" + c.Message + ")"
		}
	}
	return ""
}

// FailedEviction is the event about a pod that could not be evicted or deleted.
func FailedEviction(p *corev1.Pod, err error) event.Event { return failedEviction(p, err.Error()) }

// ForbiddenEviction is the event about a pod that budgets hold: which do, and what would free it. Budgets are those of
// its namespace.
func ForbiddenEviction(p *corev1.Pod, budgets []policyv1.PodDisruptionBudget, err error) event.Event {
	var names []string
	var cannot, fix string
	for i := range budgets {
		b := &budgets[i]
		if selector, err := cluster.NewSelector(b.Spec.Selector); err == nil && !selector.Inert() && selector.Matches(p.Labels) {
			names = append(names, b.Name)
			cannot, fix = Cannot(b)
		}
	}
	slices.Sort(names)
	switch {
	case len(names) > 1:
		return failedEviction(p, "more than one PodDisruptionBudget selects it ("+strings.Join(names, ", ")+") and the API refuses then; leave it to one of them")
	case cannot != "":
		return failedEviction(p, "PodDisruptionBudget "+names[0]+" "+cannot+"; "+fix+", delete the pod, or wait for the terminationGracePeriod of the node")
	}
	return failedEviction(p, "PodDisruptionBudget "+strings.Join(names, "")+" allows no disruption now"+budgetCause(err)+
		"; it is evicted when another replica is ready, the budget allows more, or the terminationGracePeriod of the node is over")
}

func failedEviction(p *corev1.Pod, why string) event.Event {
	name := p.Namespace + "/" + p.Name
	return event.Event{Reason: event.FailedDraining, Text: "Pod " + name + " cannot be evicted: " + why, Key: name}
}
