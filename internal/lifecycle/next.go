package lifecycle

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/condition"
	"github.com/dovetail-sh/dovetail/internal/event"
)

// Facts are what a decision about one claim rests on.
type Facts struct {
	Claim   *karpv1.NodeClaim // effective form
	Nodes   []*corev1.Node    // those with the provider id of the claim
	Launch  *Outcome          // nil: not tried, or long enough ago to be tried again
	Tried   time.Time         // when this process first queried the cloud for an instance; zero: not yet
	Gates   []GateState       // nil: not queried yet
	Gated   bool              // the cloud has gates
	Drivers *Drivers          // nil: dynamic resource allocation is off
	Now     time.Time

	Launching bool // a launch is in flight
	NodeGone  bool // it had a node, and the API server knows it no more
}

// Outcome is what the cloud returned for a launch.
type Outcome struct {
	Instance cloud.Instance
	Err      error
	Wait     time.Duration // until it may be tried again; only with Err
	Reported bool          // an earlier reconcile has reported it
}

// GateState is what a registration gate returned.
type GateState struct {
	Name   string
	Labels map[string]string
	Wait   time.Duration // above zero: not open yet
	Err    error
}

// Drivers are the DRA drivers that published a complete pool for the node.
type Drivers struct {
	Ready []string
}

// Step is what to do. Performing it again changes nothing.
type Step struct {
	Launch      bool // call the cloud, then decide again with its response; nothing else is set
	CallGates   bool // call the gates, then decide again; nothing else is set
	DecideAgain bool // once the rest is written

	Claim  *karpv1.NodeClaim // metadata and status as wanted; written after the node, metadata first
	Node   *corev1.Node      // as wanted; nil: nothing to write
	Remove *Removal          // nil: the claim stays

	Events     []event.Event // about the claim
	PodEvents  []event.Event // about each pod that was planned onto the claim
	News       []News        // for the log, once everything is written
	Registered bool          // became so in this step
	Nominate   string        // node that pods are about to be let onto: those that were planned for it should have it; before the node is written
	After      time.Duration // decide again after this time; 0: when something changes
}

// News is a line for the log.
type News struct {
	Message string
	Fields  []any // keys and values
	Err     error // not nil: the line is an error
}

// Ref names an object in a line of the log.
type Ref struct {
	Name string `json:"name"`
}

// Removal is the deletion of a claim. Registration health wants to know of it if Failure is set.
type Removal struct {
	Reason  string // label of the disruption metric
	Failure *Failure
}

// Failure is why a claim never became a node, in the words of a condition.
type Failure struct {
	Reason, Message string
}

// Conditions says which conditions decide whether a claim is ready.
func Conditions() condition.Kind {
	return condition.Kind{
		Root:       karpv1.ConditionReady,
		Dependents: []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized},
	}
}

// Next decides. A claim that is being deleted is not its business and gets an empty step.
func Next(f Facts) Step {
	if f.Claim.DeletionTimestamp != nil {
		return Step{Claim: f.Claim}
	}
	m := &decision{facts: f, claim: f.Claim.DeepCopy()}
	m.refreshConditions()
	if !slices.Contains(m.claim.Finalizers, karpv1.FinalizerTermination) { // LC-01
		claim := f.Claim.DeepCopy()
		claim.Finalizers = append(claim.Finalizers, karpv1.FinalizerTermination)
		return Step{Claim: claim, DecideAgain: true}
	}
	if f.Launching && f.Claim.Status.ProviderID == "" {
		return Step{Claim: f.Claim} // the launch wakes the claim when there is a result
	}
	for _, stage := range []func(){m.removeIfNodeGone, m.launch, m.register, m.initialize, m.removeIfTimedOut} {
		if stage(); m.step.Launch || m.step.CallGates || m.step.Remove != nil {
			break
		}
	}
	if m.step.Launch || m.step.CallGates {
		return Step{Launch: m.step.Launch, CallGates: m.step.CallGates, Claim: f.Claim}
	}
	m.step.Claim = m.claim
	return m.step
}

// decision is a step that is being decided. claim becomes the wanted claim.
type decision struct {
	facts Facts
	claim *karpv1.NodeClaim
	step  Step
}

// refreshConditions adds conditions that were never set, and renews those that are decided (LC-05).
func (m *decision) refreshConditions() {
	var decided []condition.Change
	for _, name := range Conditions().Dependents {
		c := m.findCondition(name)
		if c != nil && c.Status != metav1.ConditionUnknown {
			decided = append(decided, condition.Change{Type: name, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
	m.apply(decided...)
}

func (m *decision) apply(changes ...condition.Change) {
	object := condition.Object{Generation: m.claim.Generation, Created: m.claim.CreationTimestamp}
	m.claim.Status.Conditions = Conditions().Apply(m.claim.Status.Conditions, object, metav1.NewTime(m.facts.Now), changes...)
}

func (m *decision) setConditionTrue(name string) {
	m.apply(condition.Change{Type: name, Status: metav1.ConditionTrue})
}

func (m *decision) setConditionUnknown(name, reason, message string) {
	m.apply(condition.Change{Type: name, Status: metav1.ConditionUnknown, Reason: reason, Message: message})
}

func (m *decision) findCondition(name string) *metav1.Condition {
	return condition.Find(m.claim.Status.Conditions, name)
}

func (m *decision) conditionIsTrue(name string) bool {
	return condition.True(m.claim.Status.Conditions, name)
}

// requeueAfter requests another decision after some time; the shortest wins.
func (m *decision) requeueAfter(after time.Duration) {
	if m.step.After == 0 || after < m.step.After {
		m.step.After = after
	}
}

func (m *decision) addEvent(reason event.Reason, text string) {
	m.step.Events = append(m.step.Events, event.Event{Reason: reason, Text: Cut(text)})
}

func (m *decision) addLogLine(message string, fields ...any) {
	m.step.News = append(m.step.News, News{Message: message, Fields: fields})
}

// logOnce logs an error unless a condition says the text already.
func (m *decision) logOnce(conditionType, text, message string, fields ...any) {
	if c := m.findCondition(conditionType); c == nil || c.Message != text {
		m.step.News = append(m.step.News, News{Message: message, Fields: fields, Err: errors.New(text)})
	}
}

// maxText is the most characters of an error that a user is shown (V15-62).
const maxText = 1024

// Cut shortens a text to what events and conditions hold, dots included.
func Cut(text string) string {
	const dots = "..."
	runes := []rune(text)
	if len(runes) <= maxText {
		return text
	}
	return string(runes[:maxText-len(dots)]) + dots
}
