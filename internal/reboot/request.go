package reboot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/drain"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
)

// Request returns a claim with a reboot requested (V15-34); false if it reboots already or is terminating. bound is
// the timeout of the drain; nil: that of the claim, if it has one. because names the condition of the node and its
// reason.
func Request(claim *karpv1.NodeClaim, bound *time.Duration, because string, now time.Time) (*karpv1.NodeClaim, bool) {
	if claim.DeletionTimestamp != nil || condition.True(claim.Status.Conditions, karpv1.ConditionRebooting) {
		return nil, false
	}
	out := claim.DeepCopy()
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	delete(out.Annotations, karpv1.AnnotationRebootPreBootID) // of an earlier one
	switch {
	case bound != nil:
		out.Annotations[karpv1.AnnotationRebootTerminationGracePeriod] = bound.String()
	case claim.Spec.TerminationGracePeriod != "":
		out.Annotations[karpv1.AnnotationRebootTerminationGracePeriod] = string(claim.Spec.TerminationGracePeriod)
	default:
		delete(out.Annotations, karpv1.AnnotationRebootTerminationGracePeriod)
	}
	object := condition.Object{Generation: claim.Generation, Created: claim.CreationTimestamp}
	out.Status.Conditions = lifecycle.Conditions().Apply(out.Status.Conditions, object, metav1.NewTime(now),
		condition.Change{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: string(karpv1.ReasonUnhealthy), Message: because},
		condition.Change{Type: karpv1.ConditionRebooting, Status: metav1.ConditionTrue, Reason: cluster.RebootRequested, Message: because},
	)
	return out, true
}

// boundOf reads how long the drain before a reboot may take; not bounded: as long as it needs.
func boundOf(claim *karpv1.NodeClaim) (bound time.Duration, bounded bool, err error) {
	text, set := claim.Annotations[karpv1.AnnotationRebootTerminationGracePeriod]
	if !set {
		return 0, false, nil
	}
	bound, err = time.ParseDuration(text)
	if err == nil && bound < 0 {
		err = fmt.Errorf("%s is below 0", bound)
	}
	return bound, true, err
}

// drainAndRequest drains the node and calls the cloud (V15-36 to V15-38).
func (m *decision) drainAndRequest() {
	bound, bounded, err := boundOf(m.claim)
	if err != nil {
		m.endFailed(InvalidRequest, fmt.Sprintf("annotation %s=%q cannot be used: %v", karpv1.AnnotationRebootTerminationGracePeriod, m.claim.Annotations[karpv1.AnnotationRebootTerminationGracePeriod], err))
		return
	}
	if m.node == nil {
		m.awaitMissingNode()
		return
	}
	before, marked := m.claim.Annotations[karpv1.AnnotationRebootPreBootID]
	now := m.node.Status.NodeInfo.BootID
	if marked && now != "" && now != before { // an earlier call, of which we do not know, has worked
		m.recordAccepted()
		return
	}
	m.setTaint(true)
	if !marked {
		if !m.drainIsOver(bound, bounded) {
			return
		}
		if m.claim.Annotations == nil {
			m.claim.Annotations = map[string]string{}
		}
		m.claim.Annotations[karpv1.AnnotationRebootPreBootID], before = now, now
	}
	switch response := m.facts.Response; {
	case response == nil:
		m.step.Call = m.operationToken(before)
	case response.Err == nil:
		m.recordAccepted()
	case Final(response.Err):
		m.endFailed(ProviderError, response.Err.Error())
	case !m.facts.FirstCall.IsZero() && m.facts.Now.Sub(m.facts.FirstCall) >= CallTime:
		m.endFailed(ProviderError, "the cloud did not accept it for "+CallTime.String()+": "+response.Err.Error())
	default:
		m.step.Retry = true
	}
}

// Final reports whether calling the cloud again cannot help (V15-38).
func Final(err error) bool {
	return slices.Contains([]cloud.Kind{cloud.NotFound, cloud.Denied, cloud.Invalid, cloud.Unsupported}, cloud.KindOf(err))
}

// awaitMissingNode waits for a node that is not there.
func (m *decision) awaitMissingNode() {
	until := m.since.Add(CallTime)
	if called := m.facts.FirstCall.Add(CallTime); called.After(until) {
		until = called
	}
	if left := until.Sub(m.facts.Now); left > 0 {
		m.step.After = min(poll, left)
		return
	}
	m.endFailed(ProviderError, "there is not exactly one node with provider id "+m.claim.Status.ProviderID)
}

// drainIsOver reports whether the pods have left, or had their time: then they ride through.
func (m *decision) drainIsOver(bound time.Duration, bounded bool) bool {
	limit := drain.Limit{Stay: true}
	if bounded {
		if bound == 0 {
			return true
		}
		limit.At = m.since.Add(max(bound, MinDrain))
		if !m.facts.Now.Before(limit.At) {
			return true
		}
	}
	leaving := slices.DeleteFunc(slices.Clone(m.facts.Pods), func(p *corev1.Pod) bool { return !cluster.DrainWaits(p, karpv1.DisruptedTaint(), m.facts.Now) })
	pods := drain.Order(leaving, karpv1.RebootingTaint(), limit, m.facts.Now)
	m.step.After = recheck
	if bounded {
		m.step.After = min(recheck, limit.At.Sub(m.facts.Now))
	}
	if len(pods.Waiting) > 0 {
		m.step.Pods, m.step.Limit = pods, limit
		return false
	}
	if left := MinDrain - m.facts.Now.Sub(m.since); left > 0 {
		m.step.After = min(m.step.After, left)
		return false
	}
	m.step.After = 0
	return true
}

// operationToken is the same for each repetition of one request, whichever process sends it.
func (m *decision) operationToken(boot string) string {
	sum := sha256.Sum256([]byte(string(m.claim.UID) + "\n" + m.since.UTC().Format(time.RFC3339) + "\n" + boot))
	const enough = 16
	return hex.EncodeToString(sum[:enough])
}

// setTaint puts the taint on the node or takes it off.
func (m *decision) setTaint(on bool) {
	if m.node == nil {
		return
	}
	ours := func(t corev1.Taint) bool { return t.Key == karpv1.TaintKeyRebooting }
	switch there := slices.ContainsFunc(m.node.Spec.Taints, ours); {
	case there && !on:
		m.node.Spec.Taints = slices.DeleteFunc(m.node.Spec.Taints, ours)
	case !there && on:
		m.node.Spec.Taints = append(m.node.Spec.Taints, karpv1.RebootingTaint())
	}
}

func sameNode(a, b *corev1.Node) bool {
	return maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints)
}

func sameClaim(a, b *karpv1.NodeClaim) bool {
	return maps.Equal(a.Annotations, b.Annotations) && equality.Semantic.DeepEqual(a.Status.Conditions, b.Status.Conditions)
}
