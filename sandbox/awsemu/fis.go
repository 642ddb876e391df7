package awsemu

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// FISState is the templates and the experiments of the fault injection service, by id.
type FISState struct {
	Templates   map[string]*ExperimentTemplate `json:"templates"`
	Experiments map[string]*Experiment         `json:"experiments"`
}

// ExperimentTemplate is what an experiment does, as it was sent.
type ExperimentTemplate struct {
	ID             string                      `json:"id"`
	Description    string                      `json:"description"`
	RoleARN        string                      `json:"roleArn"`
	Targets        map[string]ExperimentTarget `json:"targets"`
	Actions        map[string]ExperimentAction `json:"actions"`
	StopConditions []map[string]string         `json:"stopConditions"`
	Tags           map[string]string           `json:"tags,omitempty"`
	Created        time.Time                   `json:"created"`
}

// ExperimentTarget chooses instances.
type ExperimentTarget struct {
	ResourceType  string             `json:"resourceType"`
	ResourceARNs  []string           `json:"resourceArns,omitempty"`
	ResourceTags  map[string]string  `json:"resourceTags,omitempty"`
	Filters       []ExperimentFilter `json:"filters,omitempty"`
	SelectionMode string             `json:"selectionMode"` // ALL, COUNT(n) or PERCENT(n)
	Parameters    map[string]string  `json:"parameters,omitempty"`
}

// ExperimentFilter compares an attribute of an instance, named as DescribeInstances shows it.
type ExperimentFilter struct {
	Path   string   `json:"path"`
	Values []string `json:"values"`
}

// ExperimentAction is one thing that is done to targets.
type ExperimentAction struct {
	ActionID    string            `json:"actionId"`
	Description string            `json:"description,omitempty"`
	Parameters  map[string]string `json:"parameters,omitempty"`
	Targets     map[string]string `json:"targets,omitempty"`
}

// Experiment is a run of a template.
type Experiment struct {
	ID        string             `json:"id"`
	Template  ExperimentTemplate `json:"template"` // as it was at the start
	Started   time.Time          `json:"started"`
	Ends      time.Time          `json:"ends,omitzero"`
	Stopped   time.Time          `json:"stopped,omitzero"`
	Failure   string             `json:"failure,omitempty"`
	Instances []string           `json:"instances,omitempty"` // that it reached
	Tags      map[string]string  `json:"tags,omitempty"`
}

// The one action that is emulated, and what it wants.
const (
	actionInterrupt   = "aws:ec2:send-spot-instance-interruptions"
	targetSpot        = "aws:ec2:spot-instance"
	parameterDuration = "durationBeforeInterruption"
	spotWarning       = 2 * time.Minute
	longestDuration   = 15 * time.Minute
)

func (e *Emulator) registerFIS() {
	e.register(wire.FIS, "GetExperiment", e.getExperiment)
	e.register(wire.FIS, "ListExperiments", e.listExperiments)
	e.register(wire.FIS, "GetExperimentTemplate", e.getExperimentTemplate)
	e.register(wire.FIS, "ListExperimentTemplates", e.listExperimentTemplates)
	e.registerMutating(wire.FIS, "CreateExperimentTemplate", e.createExperimentTemplate)
	e.registerMutating(wire.FIS, "DeleteExperimentTemplate", e.deleteExperimentTemplate)
	e.registerMutating(wire.FIS, "StartExperiment", e.startExperiment)
	e.registerMutating(wire.FIS, "StopExperiment", e.stopExperiment)
}

// fisState is the state, whole even after a partial import. The emulator must be locked.
func (e *Emulator) fisState() *FISState {
	if e.model.FIS == nil {
		e.model.FIS = &FISState{}
	}
	fillMap(&e.model.FIS.Templates)
	fillMap(&e.model.FIS.Experiments)
	return e.model.FIS
}

func invalidExperiment(format string, args ...any) error {
	return wire.Errorf("ValidationException", format, args...)
}

func (e *Emulator) createExperimentTemplate(c *call) (any, error) {
	t := &ExperimentTemplate{}
	if err := c.JSON(t); err != nil {
		return nil, err
	}
	for name, action := range t.Actions {
		if err := t.checkAction(action); err != nil {
			return nil, invalidExperiment("action %s: %s", name, err)
		}
	}
	for name, target := range t.Targets {
		if _, err := target.targetCount(1); err != nil {
			return nil, invalidExperiment("target %s: %s", name, err)
		}
	}
	if len(t.Actions) == 0 {
		return nil, invalidExperiment("a template needs an action")
	}
	t.ID, t.Created = "EXT"+e.nextID(""), c.now
	e.fisState().Templates[t.ID] = t
	return map[string]any{"experimentTemplate": e.templateOutput(t)}, nil
}

func (t *ExperimentTemplate) checkAction(a ExperimentAction) error {
	if a.ActionID != actionInterrupt {
		return fmt.Errorf("%s is not emulated; %s is", a.ActionID, actionInterrupt)
	}
	target, found := t.Targets[a.Targets["SpotInstances"]]
	if !found {
		return fmt.Errorf("SpotInstances names the target %q, which is not there", a.Targets["SpotInstances"])
	}
	if target.ResourceType != targetSpot {
		return fmt.Errorf("SpotInstances takes targets of the type %s, not %s", targetSpot, target.ResourceType)
	}
	if d, err := isoDuration(a.Parameters[parameterDuration]); err != nil || d < spotWarning || d > longestDuration {
		return fmt.Errorf("%s: want PT2M to PT15M, not %q", parameterDuration, a.Parameters[parameterDuration])
	}
	return nil
}

// isoDuration reads durations of minutes and seconds such as PT2M30S.
func isoDuration(text string) (time.Duration, error) {
	rest, found := strings.CutPrefix(text, "PT")
	if !found {
		return 0, fmt.Errorf("%q is no duration", text)
	}
	return time.ParseDuration(strings.ToLower(rest))
}

// targetCount is how many of n instances a target takes.
func (t ExperimentTarget) targetCount(n int) (int, error) {
	if t.SelectionMode == "ALL" {
		return n, nil
	}
	mode, rest, _ := strings.Cut(t.SelectionMode, "(")
	number, err := strconv.Atoi(strings.TrimSuffix(rest, ")"))
	switch {
	case err == nil && mode == "COUNT" && number > 0:
		return min(n, number), nil
	case err == nil && mode == "PERCENT" && number > 0 && number <= 100:
		return int(math.Round(float64(n) * float64(number) / 100)), nil
	}
	return 0, fmt.Errorf("selectionMode: want ALL, COUNT(n) or PERCENT(n), not %q", t.SelectionMode)
}

// instancesOf are the instances that a target takes. Which ones, when it does not take all, the seed says.
func (e *Emulator) instancesOf(t ExperimentTarget) []*Instance {
	var list []*Instance
	for _, i := range e.ec2().Instances {
		if i.CapacityType == capacitySpot && i.holdsResources() && i.State != stateShuttingDown && e.isTargeted(t, i) {
			list = append(list, i)
		}
	}
	sortInstances(list)
	n, err := t.targetCount(len(list))
	if err != nil {
		return nil // the template was checked
	}
	e.random.Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
	return list[:n]
}

func (e *Emulator) isTargeted(t ExperimentTarget, i *Instance) bool {
	for key, value := range t.ResourceTags {
		if have, found := i.Tags[key]; !found || have != value {
			return false
		}
	}
	values := map[string]string{
		"State.Name": i.State, "Placement.AvailabilityZone": i.Zone, "InstanceType": i.Type, "SubnetId": i.Subnet, "VpcId": i.VPC, "ImageId": i.ImageID,
	}
	for _, f := range t.Filters {
		if !slices.Contains(f.Values, values[f.Path]) {
			return false
		}
	}
	if zone := t.Parameters["availabilityZoneIdentifier"]; zone != "" && zone != i.Zone && zone != i.ZoneID {
		return false
	}
	return len(t.ResourceARNs) == 0 || slices.Contains(t.ResourceARNs, e.accountARN("ec2", "instance/"+i.ID))
}

// startExperiment recommends at once that the instances be replaced. The warning comes two minutes ahead of
// their end.
func (e *Emulator) startExperiment(c *call) (any, error) {
	var in struct {
		Template string            `json:"experimentTemplateId"`
		Tags     map[string]string `json:"tags"`
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	t := e.fisState().Templates[in.Template]
	if t == nil {
		return nil, noExperiment(in.Template)
	}
	x := &Experiment{ID: "EXP" + e.nextID(""), Template: *t, Started: c.now, Tags: in.Tags}
	for _, name := range slices.Sorted(maps.Keys(t.Actions)) {
		action := t.Actions[name]
		lasts, err := isoDuration(action.Parameters[parameterDuration])
		if err != nil {
			return nil, invalidExperiment("action %s: %s", name, err)
		}
		list := e.instancesOf(t.Targets[action.Targets["SpotInstances"]])
		if len(list) == 0 {
			x.Failure = "Target resolution returned empty set"
		}
		for _, i := range list {
			e.publishEvent(c.now, EventRebalance, []string{e.accountARN("ec2", "instance/"+i.ID)}, map[string]string{"instance-id": i.ID})
			i.Warning = c.now
			if ahead := lasts - spotWarning; ahead > 0 {
				i.Warning = c.now.Add(time.Duration(e.scaledDuration(Duration(ahead))))
			}
			x.Instances = append(x.Instances, i.ID)
		}
		if end := c.now.Add(time.Duration(e.scaledDuration(Duration(lasts)))); end.After(x.Ends) {
			x.Ends = end
		}
	}
	e.fisState().Experiments[x.ID] = x
	e.advanceModel(c.now) // a warning may be due at once
	return map[string]any{"experiment": x.experimentOutput(c.now)}, nil
}

// stopExperiment takes back what was not announced yet.
func (e *Emulator) stopExperiment(c *call) (any, error) {
	x, err := e.findExperiment(c)
	if err != nil {
		return nil, err
	}
	if status, _ := x.status(c.now); status == "running" {
		x.Stopped = c.now
		for _, id := range x.Instances {
			if i := e.ec2().Instances[id]; i != nil {
				i.Warning = time.Time{}
			}
		}
	}
	return map[string]any{"experiment": x.experimentOutput(c.now)}, nil
}

// sendSpotWarning sends the warning of a spot interruption.
func (e *Emulator) sendSpotWarning(at time.Time, i *Instance, end time.Time) {
	e.publishEvent(at, EventSpotInterruption, []string{"arn:aws:ec2:" + i.Zone + ":instance/" + i.ID},
		map[string]string{"instance-id": i.ID, "instance-action": "terminate"})
	i.SpotMarked, i.Interrupt, i.Warning = true, end, time.Time{}
}

func (x *Experiment) status(now time.Time) (status, why string) {
	switch {
	case x.Failure != "":
		return "failed", x.Failure
	case !x.Stopped.IsZero():
		return "stopped", ""
	case now.Before(x.Ends):
		return "running", ""
	default:
		return "completed", ""
	}
}

func noExperiment(id string) error {
	return wire.Errorf("ResourceNotFoundException", "%s does not exist", id)
}

// lastPart is the id at the end of a path.
func lastPart(path string) string { return path[strings.LastIndex(path, "/")+1:] }

func (e *Emulator) findExperiment(c *call) (*Experiment, error) {
	if x := e.fisState().Experiments[lastPart(c.Path)]; x != nil {
		return x, nil
	}
	return nil, noExperiment(lastPart(c.Path))
}

func (e *Emulator) experimentTemplate(c *call) (*ExperimentTemplate, error) {
	if t := e.fisState().Templates[lastPart(c.Path)]; t != nil {
		return t, nil
	}
	return nil, noExperiment(lastPart(c.Path))
}

func (e *Emulator) getExperiment(c *call) (any, error) {
	x, err := e.findExperiment(c)
	if err != nil {
		return nil, err
	}
	return map[string]any{"experiment": x.experimentOutput(c.now)}, nil
}

func (e *Emulator) getExperimentTemplate(c *call) (any, error) {
	t, err := e.experimentTemplate(c)
	if err != nil {
		return nil, err
	}
	return map[string]any{"experimentTemplate": e.templateOutput(t)}, nil
}

func (e *Emulator) deleteExperimentTemplate(c *call) (any, error) {
	t, err := e.experimentTemplate(c)
	if err != nil {
		return nil, err
	}
	delete(e.fisState().Templates, t.ID)
	return map[string]any{"experimentTemplate": e.templateOutput(t)}, nil
}

func (e *Emulator) listExperiments(c *call) (any, error) {
	list := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(e.fisState().Experiments)) {
		list = append(list, e.fisState().Experiments[id].experimentOutput(c.now))
	}
	return map[string]any{"experiments": list}, nil
}

func (e *Emulator) listExperimentTemplates(*call) (any, error) {
	list := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(e.fisState().Templates)) {
		list = append(list, e.templateOutput(e.fisState().Templates[id]))
	}
	return map[string]any{"experimentTemplates": list}, nil
}

func (t *ExperimentTemplate) templateContent() map[string]any {
	return map[string]any{
		"description": t.Description, "roleArn": t.RoleARN, "targets": t.Targets, "actions": t.Actions, "stopConditions": t.StopConditions, "tags": t.Tags,
	}
}

func (e *Emulator) templateOutput(t *ExperimentTemplate) map[string]any {
	out := t.templateContent()
	out["id"], out["arn"] = t.ID, e.accountARN("fis", "experiment-template/"+t.ID)
	out["creationTime"], out["lastUpdateTime"] = wire.Epoch(t.Created), wire.Epoch(t.Created)
	return out
}

func (x *Experiment) experimentOutput(now time.Time) map[string]any {
	out := x.Template.templateContent()
	status, why := x.status(now)
	state := map[string]string{"status": status}
	if why != "" {
		state["reason"] = why
	}
	out["id"], out["experimentTemplateId"], out["state"] = x.ID, x.Template.ID, state
	out["creationTime"], out["startTime"], out["tags"] = wire.Epoch(x.Started), wire.Epoch(x.Started), x.Tags
	if status != "running" {
		out["endTime"] = wire.Epoch(x.Ends)
	}
	return out
}
