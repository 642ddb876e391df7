package awsemu

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// EventRule sends events of some kinds to queues. It is a part of SQSState.
type EventRule struct {
	Name     string            `json:"name"`
	Pattern  EventPattern      `json:"pattern"`
	Disabled bool              `json:"disabled,omitempty"`
	Targets  map[string]string `json:"targets"` // ARN of a queue by target id
	Tags     map[string]string `json:"tags,omitempty"`

	Description string `json:"description,omitempty"`
}

// EventPattern is which events a rule takes; an empty list takes all.
type EventPattern struct {
	Source     []string    `json:"source,omitempty"`
	DetailType []EventKind `json:"detail-type,omitempty"`
}

const (
	enabledState  = "ENABLED"
	disabledState = "DISABLED"
	// ruleTarget is the target id that the installation guides use.
	ruleTarget = "KarpenterInterruptionQueueTarget"
)

// eventRules are the rules of the installation guides, by the last part of their name.
func eventRules() map[EventKind]string {
	return map[EventKind]string{
		EventHealth: "ScheduledChangeRule", EventSpotInterruption: "SpotInterruptionRule", EventRebalance: "RebalanceRule",
		EventStateChange: "InstanceStateChangeRule", EventReservationInterruption: "CapacityReservationInterruptionRule",
	}
}

func (e *Emulator) registerEvents() {
	e.register(wire.Events, "ListRules", e.listRules)
	e.register(wire.Events, "DescribeRule", e.describeRule)
	e.register(wire.Events, "ListTargetsByRule", e.listTargetsByRule)
	e.register(wire.Events, "ListRuleNamesByTarget", e.listRuleNamesByTarget)
	e.register(wire.Events, "ListTagsForResource", e.listRuleTags)
	e.registerMutating(wire.Events, "TagResource", e.tagRule)
	e.registerMutating(wire.Events, "UntagResource", e.untagRule)
	e.registerMutating(wire.Events, "PutRule", e.putRule)
	e.registerMutating(wire.Events, "DeleteRule", e.deleteRule)
	e.registerMutating(wire.Events, "PutTargets", e.putTargets)
	e.registerMutating(wire.Events, "RemoveTargets", e.removeTargets)
}

func (e *Emulator) resetEvents() {
	if !e.fixture.hasQueue() {
		return
	}
	for kind := range eventRules() {
		e.routeEvents(kind, []string{e.fixture.Queue})
	}
}

func sourceOf(kind EventKind) string {
	if kind == EventHealth {
		return "aws.health"
	}
	return "aws.ec2"
}

// routeEvents makes the rule of one kind send to exactly these queues; none removes the rule.
func (e *Emulator) routeEvents(kind EventKind, queues []string) {
	name := "Karpenter-" + e.fixture.Cluster + "-" + eventRules()[kind]
	if len(queues) == 0 {
		delete(e.sqsState().Rules, name)
		return
	}
	rule := &EventRule{Name: name, Pattern: EventPattern{Source: []string{sourceOf(kind)}, DetailType: []EventKind{kind}}, Targets: map[string]string{}}
	for i, queue := range queues {
		id := ruleTarget
		if i > 0 {
			id += itoa(i + 1)
		}
		rule.Targets[id] = e.accountARN("sqs", queue)
	}
	e.sqsState().Rules[name] = rule
}

func (p EventPattern) matchesKind(kind EventKind) bool {
	return (len(p.Source) == 0 || slices.Contains(p.Source, sourceOf(kind))) && (len(p.DetailType) == 0 || slices.Contains(p.DetailType, kind))
}

// queuesFor names the queues that events of a kind go to, each as often as rules name it: two rules
// that overlap deliver twice. The emulator must be locked.
func (e *Emulator) queuesFor(kind EventKind) []string {
	var queues []string
	for _, name := range slices.Sorted(maps.Keys(e.sqsState().Rules)) {
		rule := e.sqsState().Rules[name]
		if rule == nil || rule.Disabled || !rule.Pattern.matchesKind(kind) {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(rule.Targets)) {
			if queue, found := strings.CutPrefix(rule.Targets[id], e.accountARN("sqs", "")); found {
				queues = append(queues, queue)
			}
		}
	}
	return queues
}

// eventsControl shows which kinds reach which queues. PUT changes the kinds it names and leaves the
// others; an empty list is a missing rule.
func (e *Emulator) eventsControl() control {
	return control{
		http.MethodGet: func(*controlRequest) (any, error) {
			out := map[EventKind][]string{}
			for kind := range eventRules() {
				out[kind] = append([]string{}, e.queuesFor(kind)...)
			}
			return out, nil
		},
		http.MethodPut: func(r *controlRequest) (any, error) {
			var in map[EventKind][]string
			if err := r.decode(&in); err != nil {
				return nil, err
			}
			for kind := range in {
				if _, known := eventRules()[kind]; !known {
					return nil, fmt.Errorf("%q is no kind of event; there are %q", kind, slices.Sorted(maps.Keys(eventRules())))
				}
			}
			for kind, queues := range in {
				e.routeEvents(kind, queues)
			}
			return nil, nil
		},
	}
}

type ruleOutput struct {
	Name         string
	Arn          string
	EventPattern string `json:",omitempty"`
	State        string
	Description  string `json:",omitempty"`
	EventBusName string
}

func (e *Emulator) renderRule(r *EventRule) ruleOutput {
	pattern, err := json.Marshal(r.Pattern)
	if err != nil {
		pattern = nil // cannot happen: texts only
	}
	out := ruleOutput{Name: r.Name, Arn: e.accountARN("events", "rule/"+r.Name), EventPattern: string(pattern), State: enabledState, Description: r.Description, EventBusName: "default"}
	if r.Disabled {
		out.State = disabledState
	}
	return out
}

func (e *Emulator) findRule(name string) (*EventRule, error) {
	if rule := e.sqsState().Rules[name]; rule != nil {
		return rule, nil
	}
	return nil, wire.Errorf("ResourceNotFoundException", "Rule %s does not exist on EventBus default.", name)
}

func (e *Emulator) listRules(c *call) (any, error) {
	var in struct {
		NamePrefix string
		Limit      int
		NextToken  string
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if in.Limit < 1 || in.Limit > 100 {
		in.Limit = 100
	}
	out := struct {
		Rules     []ruleOutput
		NextToken string `json:",omitempty"`
	}{Rules: []ruleOutput{}}
	for _, name := range slices.Sorted(maps.Keys(e.sqsState().Rules)) {
		rule := e.sqsState().Rules[name]
		if rule == nil || !strings.HasPrefix(name, in.NamePrefix) || name <= in.NextToken {
			continue
		}
		if len(out.Rules) == in.Limit {
			out.NextToken = out.Rules[in.Limit-1].Name
			break
		}
		out.Rules = append(out.Rules, e.renderRule(rule))
	}
	return out, nil
}

func (e *Emulator) describeRule(c *call) (any, error) {
	var in struct{ Name string }
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	rule, err := e.findRule(in.Name)
	if err != nil {
		return nil, err
	}
	return e.renderRule(rule), nil
}

type ruleTargetJSON struct {
	ID  string `json:"Id"`
	Arn string
}

func (e *Emulator) listTargetsByRule(c *call) (any, error) {
	var in struct{ Rule string }
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	rule, err := e.findRule(in.Rule)
	if err != nil {
		return nil, err
	}
	targets := []ruleTargetJSON{}
	for _, id := range slices.Sorted(maps.Keys(rule.Targets)) {
		targets = append(targets, ruleTargetJSON{ID: id, Arn: rule.Targets[id]})
	}
	return map[string]any{"Targets": targets}, nil
}

func (e *Emulator) listRuleNamesByTarget(c *call) (any, error) {
	var in struct{ TargetArn string }
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	names := []string{}
	for _, name := range slices.Sorted(maps.Keys(e.sqsState().Rules)) {
		if rule := e.sqsState().Rules[name]; rule != nil && slices.Contains(slices.Collect(maps.Values(rule.Targets)), in.TargetArn) {
			names = append(names, name)
		}
	}
	return map[string]any{"RuleNames": names}, nil
}

// putRule takes patterns on source and detail-type. Others are refused: they would silently match
// more than they say.
func (e *Emulator) putRule(c *call) (any, error) {
	var in struct {
		Name, EventPattern, State, Description string
		Tags                                   []tagXML
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if err := validName("name", in.Name, 64); err != nil {
		return nil, wire.Errorf("ValidationException", "%s", err.Error())
	}
	if in.State != "" && in.State != enabledState && in.State != disabledState {
		return nil, wire.Errorf("ValidationException", "state: %q is not emulated", in.State)
	}
	rule := &EventRule{Name: in.Name, Disabled: in.State == disabledState, Description: in.Description, Targets: map[string]string{}, Tags: withTags(nil, in.Tags)}
	decoder := json.NewDecoder(strings.NewReader(in.EventPattern))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&rule.Pattern); err != nil {
		return nil, wire.Errorf("InvalidEventPatternException", "Event pattern is not valid, or more than source and detail-type: %s", err.Error())
	}
	if old := e.sqsState().Rules[in.Name]; old != nil { // tags are those of its creation: a later PutRule does not change them
		rule.Tags = old.Tags
		if old.Targets != nil {
			rule.Targets = old.Targets
		}
	}
	e.sqsState().Rules[in.Name] = rule
	return map[string]string{"RuleArn": e.accountARN("events", "rule/"+in.Name)}, nil
}

// withTags adds tags to those that are there.
func withTags(have map[string]string, added []tagXML) map[string]string {
	tags := map[string]string{}
	maps.Copy(tags, have)
	for _, tag := range added {
		tags[tag.Key] = tag.Value
	}
	return tags
}

// taggedRule finds the rule of a call about tags.
func (e *Emulator) taggedRule(c *call, into any) (*EventRule, error) {
	var in struct{ ResourceARN string }
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if into != nil {
		if err := c.JSON(into); err != nil {
			return nil, err
		}
	}
	return e.findRule(strings.TrimPrefix(in.ResourceARN, e.accountARN("events", "rule/")))
}

func (e *Emulator) listRuleTags(c *call) (any, error) {
	rule, err := e.taggedRule(c, nil)
	if err != nil {
		return nil, err
	}
	return map[string]any{"Tags": append([]tagXML{}, renderTags(rule.Tags).Member...)}, nil
}

func (e *Emulator) tagRule(c *call) (any, error) {
	var in struct{ Tags []tagXML }
	rule, err := e.taggedRule(c, &in)
	if err != nil {
		return nil, err
	}
	rule.Tags = withTags(rule.Tags, in.Tags)
	return nil, nil
}

func (e *Emulator) untagRule(c *call) (any, error) {
	var in struct{ TagKeys []string }
	rule, err := e.taggedRule(c, &in)
	if err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		delete(rule.Tags, key)
	}
	return nil, nil
}

// deleteRule succeeds for a rule that does not exist, as EventBridge does.
func (e *Emulator) deleteRule(c *call) (any, error) {
	var in struct{ Name string }
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if rule := e.sqsState().Rules[in.Name]; rule != nil && len(rule.Targets) > 0 {
		return nil, wire.Errorf("ValidationException", "Rule can't be deleted since it has targets.")
	}
	delete(e.sqsState().Rules, in.Name)
	return nil, nil
}

func (e *Emulator) putTargets(c *call) (any, error) {
	var in struct {
		Rule    string
		Targets []ruleTargetJSON
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	rule, err := e.findRule(in.Rule)
	if err != nil {
		return nil, err
	}
	for _, target := range in.Targets {
		if target.ID == "" || !strings.HasPrefix(target.Arn, e.accountARN("sqs", "")) {
			return nil, wire.Errorf("ValidationException", "Parameter %s is not valid. Reason: only queues of this account are emulated as targets.", target.Arn)
		}
	}
	targets := maps.Clone(rule.Targets)
	if targets == nil {
		targets = map[string]string{}
	}
	for _, target := range in.Targets {
		targets[target.ID] = target.Arn
	}
	rule.Targets = targets
	return noFailures(), nil
}

func (e *Emulator) removeTargets(c *call) (any, error) {
	var in struct {
		Rule string
		IDs  []string `json:"Ids"`
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	rule, err := e.findRule(in.Rule)
	if err != nil {
		return nil, err
	}
	for _, id := range in.IDs {
		delete(rule.Targets, id)
	}
	return noFailures(), nil
}

func noFailures() any {
	return map[string]any{"FailedEntryCount": 0, "FailedEntries": []string{}}
}
