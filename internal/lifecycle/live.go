package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/condition"
)

// How long a claim may take.
const (
	LaunchTimeout       = 5 * time.Minute
	RegistrationTimeout = 15 * time.Minute
)

// RegistrationFailed is why a claim that was launched never became a node.
const RegistrationFailed = "RegistrationFailed"

// removeIfTimedOut removes a claim that exceeds a timeout (LC-13 to LC-15). The launch timeout is counted by
// our own clock from the first call to the cloud: a claim that waited for a slot was not tried. The
// registration timeout is counted from the launch, or from when the condition last changed.
func (m *decision) removeIfTimedOut() {
	if m.conditionIsTrue(karpv1.ConditionRegistered) {
		return
	}
	launched, registered := m.findCondition(karpv1.ConditionLaunched), m.findCondition(karpv1.ConditionRegistered)
	if launched.Status != metav1.ConditionTrue {
		if m.facts.Tried.IsZero() {
			return
		}
		left := m.timeLeft(m.facts.Tried, LaunchTimeout)
		if left <= 0 {
			m.removeTimedOut(RemovedLaunchTimeout, LaunchTimeout, Failure{Reason: launched.Reason, Message: launched.Message})
			return
		}
		m.requeueAfter(left)
		return
	}
	since := registered.LastTransitionTime.Time
	if launched.LastTransitionTime.After(since) {
		since = launched.LastTransitionTime.Time
	}
	left := m.timeLeft(since, RegistrationTimeout)
	if left <= 0 {
		m.removeTimedOut(RemovedRegistrationTimeout, RegistrationTimeout, Failure{
			Reason: RegistrationFailed, Message: "Claim " + m.claim.Name + " was launched but its node did not register within " + RegistrationTimeout.String(),
		})
		return
	}
	m.requeueAfter(left)
}

// NodeMissing reports whether the Node of a registered claim may have been deleted, given the Nodes that the cache has for
// it. The cache may be behind, so NodeReplaced confirms it with what the API server has.
func NodeMissing(claim *karpv1.NodeClaim, cached []*corev1.Node) bool {
	return len(cached) == 0 && claim.Status.NodeName != "" && condition.True(claim.Status.Conditions, karpv1.ConditionRegistered)
}

// NodeReplaced reports whether the Node that has the name of a claim's Node now is that of another instance.
func NodeReplaced(claim *karpv1.NodeClaim, live *corev1.Node) bool {
	return live.Spec.ProviderID != claim.Status.ProviderID
}

// removeIfNodeGone removes a claim whose Node was deleted by another client (FM L12). No pod can run on the
// instance any more, and plans would wait for it.
func (m *decision) removeIfNodeGone() {
	if m.facts.NodeGone && m.conditionIsTrue(karpv1.ConditionRegistered) {
		m.step.Remove = &Removal{Reason: RemovedCollected}
		m.addLogLine("garbage collected nodeclaim", "provider-id", m.claim.Status.ProviderID, "Node", Ref{m.claim.Status.NodeName})
	}
}

func (m *decision) removeTimedOut(reason string, after time.Duration, failure Failure) {
	m.step.Remove = &Removal{Reason: reason, Failure: &failure}
	m.step.After = 0
	m.addLogLine("terminating due to timeout", "reason", reason, "timeout", after.String())
}

// timeLeft is what remains of a timeout. A start in the future counts as now (FM N08).
func (m *decision) timeLeft(since time.Time, timeout time.Duration) time.Duration {
	return timeout - max(0, m.facts.Now.Sub(since))
}
