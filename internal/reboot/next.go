package reboot

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/event"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// Reasons of condition Rebooting (V15-10), and that of Initialized meanwhile.
const (
	Issued    = "RebootIssued"
	Over      = "RebootSucceeded"
	Failed    = "RebootFailed"
	Rebooting = "Rebooting"
)

// Results as the metrics name them (V15-43).
const (
	Succeeded       = "succeeded"
	ProviderError   = "provider_error"
	RecoveryTimeout = "recovery_timeout"
	InvalidRequest  = "invalid_request"
)

// Back-off of reconciles that fail.
const (
	FirstRetry = time.Second
	LastRetry  = 30 * time.Second
)

// How long things may take (V15-37 to V15-39).
const (
	MinDrain = 5 * time.Second // a pod bound before the taint was seen shows up in this time
	CallTime = 5 * time.Minute // for the cloud to accept
	BackTime = 20 * time.Minute
	recheck  = 5 * time.Second // while pods leave
	poll     = 15 * time.Second
)

// Facts are what a decision about one claim rests on.
type Facts struct {
	Claim     *karpv1.NodeClaim // as stored
	Node      *corev1.Node      // nil: there is not exactly one
	Pods      []*corev1.Pod     // bound to the node
	Response  *Response         // nil: the cloud was not called yet, or may be called again
	FirstCall time.Time         // when the cloud was first called for this reboot; zero: not known
	Now       time.Time
}

// Response is the response of the cloud to the request.
type Response struct{ Err error }

// Step is what to do, in the order of the fields. Performing it again changes nothing.
type Step struct {
	Node   *corev1.Node      // as wanted; nil: as it is
	Pods   drain.Pods        // that have to leave
	Limit  drain.Limit       // for them
	Claim  *karpv1.NodeClaim // as wanted, status before metadata; nil: as it is
	Call   string            // operation: request the reboot from the cloud, then decide again
	Again  bool              // decide again with what was written
	Retry  bool              // call the cloud again after a while
	Delete bool              // delete the claim, in the version that was just written
	End    *End              // it is over, once all that is done
	Events []event.Event     // about the claim, then too
	After  time.Duration     // when to reconcile again
}

// End is how a reboot ended.
type End struct {
	Result string
	Took   time.Duration // since the request
	Back   time.Duration // since the cloud accepted; only of one that succeeded
}

// Next decides. A claim that is being deleted is the business of its termination (V15-35).
func Next(f Facts) Step {
	c := condition.Find(f.Claim.Status.Conditions, karpv1.ConditionRebooting)
	if f.Claim.DeletionTimestamp != nil {
		return Step{}
	}
	m := &decision{facts: f, claim: f.Claim.DeepCopy()}
	switch {
	case c == nil || c.Status != metav1.ConditionTrue:
		m.dropPreBootID()
	case c.Reason == Issued:
		m.beginReboot(c)
		m.awaitNode()
	default:
		m.beginReboot(c)
		m.drainAndRequest()
	}
	m.dropUnchanged()
	return m.step
}

// decision is a decision in the making. claim and node become what is wanted.
type decision struct {
	facts   Facts
	since   time.Time // the request
	message string    // what the reboot is for
	claim   *karpv1.NodeClaim
	node    *corev1.Node // nil: there is none
	step    Step
}

func (m *decision) beginReboot(c *metav1.Condition) {
	m.since, m.message = c.LastTransitionTime.Time, c.Message
	if m.facts.Node != nil {
		m.node = m.facts.Node.DeepCopy()
	}
}

// dropUnchanged keeps of what is wanted only what changes something.
func (m *decision) dropUnchanged() {
	if m.node != nil && !sameNode(m.node, m.facts.Node) {
		m.step.Node = m.node
	}
	if !sameClaim(m.claim, m.facts.Claim) {
		m.step.Claim = m.claim
	}
}

// dropPreBootID removes what a process that died between two writes left behind.
func (m *decision) dropPreBootID() { delete(m.claim.Annotations, karpv1.AnnotationRebootPreBootID) }

// awaitNode waits for the node to come back (V15-39).
func (m *decision) awaitNode() {
	at := m.markUninitialized()
	if m.node != nil {
		delete(m.node.Labels, karpv1.LabelInitialized)
		before, marked := m.claim.Annotations[karpv1.AnnotationRebootPreBootID]
		now := m.node.Status.NodeInfo.BootID
		fresh := marked && now != "" && now != before
		m.setTaint(!fresh)
		if fresh {
			m.addEvent(event.RebootObserved, "Node "+m.node.Name+" has booted anew")
		}
		if fresh && cluster.NodeReady(m.node) {
			m.endSucceeded(at)
			return
		}
	}
	left := BackTime - m.facts.Now.Sub(at)
	if left <= 0 {
		m.endFailed(RecoveryTimeout, "the node is not back "+BackTime.String()+" after the cloud accepted the reboot")
		return
	}
	m.step.After = min(poll, left)
}

// markUninitialized makes sure that the claim counts as not initialized, and returns since when it does because
// of this reboot.
func (m *decision) markUninitialized() time.Time {
	c := condition.Find(m.claim.Status.Conditions, karpv1.ConditionInitialized)
	if c == nil || c.Status != metav1.ConditionUnknown || c.Reason != Rebooting {
		m.apply(condition.Change{Type: karpv1.ConditionInitialized, Status: metav1.ConditionUnknown, Reason: Rebooting, Message: m.message})
		c = condition.Find(m.claim.Status.Conditions, karpv1.ConditionInitialized)
	}
	if c.LastTransitionTime.Time.Before(m.since) {
		return m.since
	}
	return c.LastTransitionTime.Time
}

// recordAccepted takes note that the cloud accepted. A claim that never was initialized counts as not so from now
// on, too: the time to come back runs from here.
func (m *decision) recordAccepted() {
	m.apply(
		condition.Change{Type: karpv1.ConditionRebooting, Status: metav1.ConditionTrue, Reason: Issued, Message: m.message},
		condition.Change{Type: karpv1.ConditionInitialized, Status: metav1.ConditionUnknown, Reason: Rebooting, Message: m.message},
	)
	condition.Find(m.claim.Status.Conditions, karpv1.ConditionInitialized).LastTransitionTime = metav1.NewTime(m.facts.Now)
	m.step.Again = true
}

// endSucceeded ends a reboot after which the node is ready (V15-40). Whether the fault is gone is seen later.
func (m *decision) endSucceeded(issued time.Time) {
	m.apply(condition.Change{Type: karpv1.ConditionRebooting, Status: metav1.ConditionFalse, Reason: Over, Message: "The node is back; it was rebooted because of " + m.message})
	delete(m.claim.Annotations, karpv1.AnnotationRebootPreBootID)
	m.step.End = &End{Result: Succeeded, Took: m.facts.Now.Sub(m.since), Back: m.facts.Now.Sub(issued)}
}

// endFailed ends a reboot that did not help: the node is replaced, without a replacement first, unless it was
// only the request that made no sense (V15-41).
func (m *decision) endFailed(result, why string) {
	m.setTaint(false)
	m.step.End = &End{Result: result, Took: m.facts.Now.Sub(m.since)}
	if result == InvalidRequest {
		m.addEvent(event.RebootFailed, "The node is not rebooted: "+why)
		m.apply(condition.Change{Type: karpv1.ConditionRebooting, Status: metav1.ConditionFalse, Reason: Failed, Message: why})
		delete(m.claim.Annotations, karpv1.AnnotationRebootPreBootID)
		return
	}
	m.addEvent(event.RebootFailed, "The reboot failed, the node is replaced: "+why)
	if bound, bounded, err := boundOf(m.claim); err == nil && bounded {
		drain.AdvanceDeadline(m.claim, m.facts.Now.Add(drain.BoundedPeriod(m.claim, bound)))
	}
	m.step.Delete = true
}

func (m *decision) apply(changes ...condition.Change) {
	object := condition.Object{Generation: m.claim.Generation, Created: m.claim.CreationTimestamp}
	m.claim.Status.Conditions = lifecycle.Conditions().Apply(m.claim.Status.Conditions, object, metav1.NewTime(m.facts.Now), changes...)
}

// addEvent is once for each reboot.
func (m *decision) addEvent(what event.Reason, text string) {
	m.step.Events = append(m.step.Events, event.Event{Reason: what, Text: lifecycle.Cut(text), Key: m.since.UTC().Format(time.RFC3339)})
}
