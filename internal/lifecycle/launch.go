package lifecycle

import (
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// LaunchFailed is the reason of Launched=Unknown when the cloud gives none of its own.
const LaunchFailed = "LaunchFailed"

// Reasons why a claim is removed, as the disruption metrics count them.
const (
	RemovedNoCapacity          = "insufficient_capacity"
	RemovedNodeClassNotReady   = "nodeclass_not_ready"
	RemovedLaunchTimeout       = "launch_timeout"
	RemovedRegistrationTimeout = "registration_timeout"
	RemovedExpired             = "expired"
	RemovedCollected           = "garbage_collected"
	RemovedScaledDown          = "scaled_down"            // a static pool that shrinks
	RemovedBlockExpired        = "capacity_block_expired" // it ran in a capacity block that ends
)

// launch gets the claim its instance, once (LC-02 to LC-04).
func (m *decision) launch() {
	c := m.findCondition(karpv1.ConditionLaunched)
	if c.Status != metav1.ConditionUnknown {
		return
	}
	if m.claim.Status.ProviderID != "" { // an instance that is paid for is never launched again
		m.setConditionTrue(karpv1.ConditionLaunched)
		return
	}
	switch outcome := m.facts.Launch; {
	case outcome == nil:
		// A claim that was tried for long enough is not launched once more: the pods that wait for it are planned again.
		if m.removeIfTimedOut(); m.step.Remove == nil {
			m.step.Launch = true
		}
	case outcome.Err == nil:
		m.recordInstance(outcome.Instance)
	default:
		m.handleLaunchError(*outcome)
	}
}

// recordInstance merges what the instance is into the claim (LC-03). Labels of the claim win, except where
// they would lie about the instance (FM A18).
func (m *decision) recordInstance(i cloud.Instance) {
	labels := maps.Clone(i.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, m.claim.Labels)
	for key, value := range map[string]string{
		corev1.LabelInstanceTypeStable: i.Type,
		corev1.LabelTopologyZone:       i.Zone,
		karpv1.LabelCapacityType:       i.CapacityType,
	} {
		if value != "" {
			labels[key] = value
		}
	}
	m.claim.Labels = labels
	m.claim.Annotations = union(m.claim.Annotations, i.Annotations)
	s := &m.claim.Status
	s.ProviderID, s.ImageID = string(i.ID), i.Image
	s.Capacity, s.Allocatable = i.Capacity.DeepCopy(), i.Allocatable.DeepCopy()
	m.setConditionTrue(karpv1.ConditionLaunched)
	m.addLogLine("launched nodeclaim", "provider-id", string(i.ID), "instance-type", i.Type, "zone", i.Zone, "capacity-type", i.CapacityType, "allocatable", i.Allocatable)
}

// handleLaunchError reacts to a failed launch (LC-04, V15-61, V15-62).
func (m *decision) handleLaunchError(o Outcome) {
	if !o.Reported {
		m.step.News = append(m.step.News, News{Message: "failed launching nodeclaim", Err: o.Err})
	}
	switch cloud.KindOf(o.Err) {
	case cloud.NoCapacity:
		text := "Claim " + m.claim.Name + " cannot be launched and is deleted, its pods are planned anew: " + o.Err.Error()
		m.addEvent(event.InsufficientCapacityError, text)
		m.step.PodEvents = []event.Event{{Reason: event.InsufficientCapacityError, Text: Cut(text)}}
		m.step.Remove = &Removal{Reason: RemovedNoCapacity}
	case cloud.NotReady:
		m.addEvent(event.NodeClassNotReady, "Claim "+m.claim.Name+" is deleted because its node class "+m.claim.Spec.NodeClassRef.Name+" is not ready: "+o.Err.Error())
		m.step.Remove = &Removal{Reason: RemovedNodeClassNotReady}
	case cloud.Denied, cloud.Invalid, cloud.Unsupported: // only a person can help
		if !o.Reported {
			text := "Claim " + m.claim.Name + " cannot be launched and is tried again: " + o.Err.Error()
			m.addEvent(event.LaunchFailed, text)
			m.step.PodEvents = []event.Event{{Reason: event.LaunchFailed, Text: Cut(text)}}
		}
		m.recordLaunchError(o)
	case cloud.Unknown, cloud.Throttled, cloud.NotFound:
		m.recordLaunchError(o)
	}
}

// recordLaunchError sets the condition to why there is no instance yet, and requests a retry.
func (m *decision) recordLaunchError(o Outcome) {
	reason, message := launchError(o.Err)
	m.setConditionUnknown(karpv1.ConditionLaunched, reason, message)
	m.requeueAfter(o.Wait)
}

// launchError is an error in the words of a condition. The cloud's own reason counts only with its
// message.
func launchError(err error) (reason, message string) {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Reason != "" {
		if e.Message != "" {
			return e.Reason, Cut(e.Message)
		}
		return e.Reason, Cut(e.Error())
	}
	return LaunchFailed, Cut(err.Error())
}

// union returns both maps in one; the second wins.
func union(first, second map[string]string) map[string]string {
	if len(first) == 0 && len(second) == 0 {
		return first
	}
	out := make(map[string]string, len(first)+len(second))
	maps.Copy(out, first)
	maps.Copy(out, second)
	return out
}
