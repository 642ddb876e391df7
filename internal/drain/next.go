package drain

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Reasons of conditions.
const (
	Draining                      = "Draining"
	AwaitingVolumeDetachment      = "AwaitingVolumeDetachment"
	TerminationGracePeriodElapsed = "TerminationGracePeriodElapsed"
)

// balancerLabelValue says who took the node out of load balancers.
const balancerLabelValue = "karpenter"

// Messages of conditions as long as there is nothing to explain.
const (
	leaving       = "pods are leaving the node"
	attachedStill = "volumes are still attached to the instance"
)

const (
	minDrain           = 5 * time.Second // a pod bound before the taint was seen shows up in this time (LC-30)
	timestampPrecision = time.Second     // times of the API are in whole seconds: it may have been almost this much later
	recheckPods        = time.Second
	recheckVolume      = time.Second
	recheckCloud       = 5 * time.Second
	recheckLaunch      = time.Second // the launch of an instance that is under way
	recheckFirst       = time.Second // of an instance whose termination was just requested: many terminate at once
)

// State is the response of the cloud about the instance in this pass.
type State int

// What the cloud can say.
const (
	NotQueried State = iota
	Unsure           // it was queried and did not respond; nothing follows from that (G3)
	Present
	Ending  // it accepted to terminate the instance
	Staying // it refused to terminate the instance
	Gone
)

// Facts are the inputs of a decision about one node.
type Facts struct {
	Node        *corev1.Node                    // being deleted, with our finalizer
	Claim       *karpv1.NodeClaim               // nil: none has the provider id of the node, or several have
	Pods        []*corev1.Pod                   // bound to the node
	Budgets     []*policyv1.PodDisruptionBudget // of the namespaces of the pods; nil: not read
	Attachments []*storagev1.VolumeAttachment
	Volumes     map[types.NamespacedName]string // names of PersistentVolumes, by the claims of the pods
	Tries       map[types.UID]Try               // how far the eviction queue is with the pods; nil: not known
	Instance    State
	Refusal     Refusal   // of the cloud; only if the instance stays
	Queried     time.Time // when the cloud was last queried about the instance; zero: not known
	Accepted    time.Time // when it last accepted to terminate it, or reported it as terminated; zero: not known
	Said        time.Time // when the message of the condition was last written; zero: not that we know
	Now         time.Time
}

// Step is what to do, in the order of the fields. Doing it again changes nothing.
type Step struct {
	DeleteClaim bool
	Query       bool              // query the cloud about the instance, then decide again; nothing below is set
	Taints      []corev1.Taint    // all taints of the node; nil: unchanged
	Labels      map[string]string // to be put on the node; nil: they are there
	Events      []event.Event     // about the node
	ClaimEvents []event.Event     // about the claim
	Pods        Pods              // empty once the drain is over
	Waits       []Wait            // what holds the node, once that is worth explaining
	Limit       Limit             // for the pods
	Marks       []Mark            // conditions of the claim
	Drained     bool              // the drain ends with this step
	Terminate   bool              // end the instance, then decide again
	Release     bool              // remove the finalizer
	After       time.Duration     // when to reconcile again
}

// Mark is a condition of a NodeClaim to be set.
type Mark struct {
	Type    string
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// Next decides about a node that is being deleted (LC-24 to LC-37).
func Next(f Facts) Step {
	step := Step{DeleteClaim: f.Claim != nil && f.Claim.DeletionTimestamp == nil}
	ending := f.Instance == Ending || !f.Accepted.IsZero() || f.Claim != nil && isTrue(f.Claim, karpv1.ConditionInstanceTerminating)
	if !ready(f.Node) && !ending { // LC-25; a Ready node is trusted to be alive
		switch {
		case f.Instance == Gone:
			step.Release = true
			return step
		case f.Instance == NotQueried && f.Now.Sub(f.Queried) >= recheckCloud:
			step.Query = true
			return step
		}
	}
	step.addTaintAndLabel(f.Node)
	step.Limit = Limit{At: Deadline(f.Claim)}
	if !step.Limit.At.IsZero() {
		step.Events = append(step.Events, expiring(step.Limit.At))
	}
	if step.DeleteClaim {
		// Its deletion may set a deadline and changes it under our hands: nothing is written on it now.
		step.Pods, step.After = Order(f.Pods, karpv1.DisruptedTaint(), step.Limit, f.Now), recheckPods
		return step
	}
	if !ending && (!step.drainPods(f) || !step.awaitDetachment(f)) {
		return step
	}
	step.terminateInstance(f)
	return step
}

// addTaintAndLabel keeps pods and traffic away from the node (LC-27). A taint or label that another client
// removes is added again.
func (s *Step) addTaintAndLabel(n *corev1.Node) {
	want := karpv1.DisruptedTaint()
	ours := func(t corev1.Taint) bool { return t.Key == want.Key }
	if i := slices.IndexFunc(n.Spec.Taints, ours); i < 0 || n.Spec.Taints[i].Effect != want.Effect || n.Spec.Taints[i].Value != want.Value ||
		slices.ContainsFunc(n.Spec.Taints[i+1:], ours) {
		s.Taints = append(slices.DeleteFunc(slices.Clone(n.Spec.Taints), ours), want)
	}
	if n.Labels[corev1.LabelNodeExcludeBalancers] != balancerLabelValue {
		s.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: balancerLabelValue}
	}
}

// drainPods reports whether no pod is left to wait for (7.3).
func (s *Step) drainPods(f Facts) bool {
	s.Pods = Order(f.Pods, karpv1.DisruptedTaint(), s.Limit, f.Now)
	since := f.Node.DeletionTimestamp.Time // without a claim there is no better record
	drained := false
	if f.Claim != nil {
		since = f.Now
		c := find(f.Claim, karpv1.ConditionDrained)
		if c != nil && c.Status == metav1.ConditionUnknown && c.Reason == Draining {
			since = c.LastTransitionTime.Time
		}
		drained = c != nil && c.Status == metav1.ConditionTrue
	}
	left := minDrain + timestampPrecision - f.Now.Sub(since)
	switch {
	case len(s.Pods.Waiting) > 0:
		s.explainPodWait(f, since)
		s.After = recheckPods
		return false
	case drained:
		return true
	case left > 0:
		s.Marks = append(s.Marks, Mark{Type: karpv1.ConditionDrained, Status: metav1.ConditionUnknown, Reason: Draining, Message: leaving})
		s.After = min(left, recheckPods)
		return false
	}
	s.Drained = f.Claim != nil
	s.Marks = append(s.Marks, Mark{Type: karpv1.ConditionDrained, Status: metav1.ConditionTrue})
	return true
}

// explainPodWait reports what the drain waits for.
func (s *Step) explainPodWait(f Facts, began time.Time) {
	s.Waits = explain(f, s.Pods.Waiting, began)
	text := Explain(s.Waits, s.Limit.At)
	s.Events = append(s.Events, failedDraining(s.Pods.Waiting, text))
	s.emitLongWait(f, began, s.Limit.At)
	s.Marks = append(s.Marks, Mark{
		Type: karpv1.ConditionDrained, Status: metav1.ConditionUnknown, Reason: Draining,
		Message: f.steadyMessage(karpv1.ConditionDrained, leaving, text),
	})
}

// emitLongWait emits events about a long wait, on the node and on the claim.
func (s *Step) emitLongWait(f Facts, began, deadline time.Time) {
	events := longWaitEvents("node", s.Waits, began, deadline, f.Now)
	s.Events = append(s.Events, events...)
	if f.Claim != nil {
		s.ClaimEvents = append(s.ClaimEvents, events...)
	}
}

// steadyMessage is the message of a condition that explains a wait. It is not changed more often than once a
// minute: pods come and go, and every change is a write.
func (f *Facts) steadyMessage(kind, plain, text string) string {
	if f.Claim == nil {
		return cmp.Or(text, plain)
	}
	return rateLimitedMessage(find(f.Claim, kind), plain, text, f.Said, f.Now)
}

func rateLimitedMessage(c *metav1.Condition, plain, text string, said, now time.Time) string {
	if c == nil || c.Status != metav1.ConditionUnknown || c.Message == "" || c.Message == plain || now.Sub(said) >= messageInterval {
		return cmp.Or(text, plain)
	}
	return c.Message
}

// awaitDetachment reports whether the instance no longer waits for volumes (7.5).
func (s *Step) awaitDetachment(f Facts) bool {
	waiting := attached(f, karpv1.DisruptedTaint())
	deadline := s.Limit.At
	m := Mark{Type: karpv1.ConditionVolumesDetached}
	switch {
	case len(waiting) == 0:
		m.Status = metav1.ConditionTrue
	case !deadline.IsZero() && !f.Now.Before(deadline):
		m.Status, m.Reason = metav1.ConditionFalse, TerminationGracePeriodElapsed
		m.Message = "volumes were still attached when the terminationGracePeriod was over"
	default:
		s.Waits = []Wait{volumeWait(waiting, detachmentWaitSince(f, karpv1.ConditionVolumesDetached))}
		m.Status, m.Reason = metav1.ConditionUnknown, AwaitingVolumeDetachment
		m.Message = f.steadyMessage(karpv1.ConditionVolumesDetached, attachedStill, volumeExplanation(f, s.Waits, deadline))
		s.Events = append(s.Events, awaitingDetachment(waiting, deadline))
		s.emitLongWait(f, s.Waits[0].Since, deadline)
		s.After = recheckVolume
	}
	s.Marks = append(s.Marks, m)
	return m.Status != metav1.ConditionUnknown
}

// detachmentWaitSince is when the wait began: when its condition became Unknown, or now.
func detachmentWaitSince(f Facts, kind string) time.Time {
	if f.Claim != nil {
		if c := find(f.Claim, kind); c != nil && c.Status == metav1.ConditionUnknown && c.Reason == AwaitingVolumeDetachment {
			return c.LastTransitionTime.Time
		}
	}
	return f.Now
}

// volumeExplanation names the volumes that are waited for, once the wait is long enough to explain.
func volumeExplanation(f Facts, waits []Wait, deadline time.Time) string {
	if f.Now.Sub(waits[0].Since) < explainAfter {
		return ""
	}
	return Explain(waits, deadline)
}

// terminateInstance terminates the instance and then releases the node (LC-28). Without a claim it is not known
// whether the instance is ours; the garbage collector of instances decides that.
func (s *Step) terminateInstance(f Facts) {
	switch {
	case f.Claim == nil:
		s.Drained, s.Release = true, true
	case f.Instance == Gone:
		s.Marks = append(s.Marks, terminatingCondition(f.Claim)...)
		s.Release = true
	case f.Instance == Staying:
		s.After = recheckCloud
		s.explainInstanceWait(f)
	case f.Instance == Ending:
		s.Marks = append(s.Marks, terminatingCondition(f.Claim)...)
		s.After = terminateBackoff(f.Claim, f.Now)
		s.explainInstanceWait(f)
	case f.Now.Sub(f.Accepted) < terminateBackoff(f.Claim, f.Accepted):
		// The write after the call may have failed, and nothing else would write it again.
		s.Marks = append(s.Marks, terminatingCondition(f.Claim)...)
		s.After = terminateBackoff(f.Claim, f.Accepted) - f.Now.Sub(f.Accepted)
		s.explainInstanceWait(f)
	default:
		s.Terminate = true
	}
}

// explainInstanceWait reports an instance that should be gone.
func (s *Step) explainInstanceWait(f Facts) {
	waits, marks := instanceWaits(f.Claim, f.Instance, f.Refusal, f.Said, f.Now)
	s.Waits, s.Marks = waits, append(s.Marks, marks...)
	if len(waits) > 0 {
		s.emitLongWait(f, waits[0].Since, time.Time{})
	}
}

func ready(n *corev1.Node) bool {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func find(claim *karpv1.NodeClaim, name string) *metav1.Condition {
	for i := range claim.Status.Conditions {
		if claim.Status.Conditions[i].Type == name {
			return &claim.Status.Conditions[i]
		}
	}
	return nil
}

func isTrue(claim *karpv1.NodeClaim, name string) bool {
	c := find(claim, name)
	return c != nil && c.Status == metav1.ConditionTrue
}
