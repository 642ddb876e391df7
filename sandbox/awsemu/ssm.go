package awsemu

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// SSMState is the parameters: those that AWS publishes for images, and those of the account.
type SSMState struct {
	Parameters map[string]Parameter `json:"parameters"` // by name, which is a path
}

// Parameter is the newest version of a parameter.
type Parameter struct {
	Value    string    `json:"value"`
	Version  int       `json:"version"`
	Modified time.Time `json:"modified"`
}

// Kubernetes minor versions that images are published for.
const (
	oldestMinor = 31
	newestMinor = 36
)

// publicPrefix is where AWS publishes parameters; they belong to no account.
const publicPrefix = "/aws/service/"

func (e *Emulator) registerSSM() {
	e.register(wire.SSM, "GetParameter", e.getParameter)
	e.register(wire.SSM, "GetParameters", e.getParameters)
	e.register(wire.SSM, "GetParametersByPath", e.getParametersByPath)
	e.controls["parameters"] = e.parametersControl()
}

func (e *Emulator) resetSSM(now time.Time) {
	e.model.SSM = nil
	for _, version := range e.emulatedVersions() {
		for _, image := range aliasPaths(version) {
			e.ssmState().Parameters[image.Path] = Parameter{Value: image.imageID(), Version: 1, Modified: now}
			if folder, recommended := strings.CutSuffix(image.Path, "/recommended/image_id"); recommended {
				release := image.Name[strings.LastIndex(image.Name, "-v")+len("-v"):]
				e.ssmState().Parameters[folder+"/recommended/image_name"] = Parameter{Value: image.Name, Version: 1, Modified: now}
				e.ssmState().Parameters[folder+"/recommended/release_version"] = Parameter{Value: version + ".0-" + release, Version: 1, Modified: now}
			}
		}
	}
}

// ssmState is the state, whole even after a partial import. The emulator must be locked.
func (e *Emulator) ssmState() *SSMState {
	if e.model.SSM == nil {
		e.model.SSM = &SSMState{}
	}
	if e.model.SSM.Parameters == nil {
		e.model.SSM.Parameters = map[string]Parameter{}
	}
	return e.model.SSM
}

type parameterOutput struct {
	Name             string
	Type             string
	Value            string
	Version          int
	Selector         string `json:",omitempty"`
	ARN              string
	DataType         string
	LastModifiedDate float64
}

func (e *Emulator) renderParameter(name, selector string, p Parameter) parameterOutput {
	return parameterOutput{
		Name: name, Type: "String", Value: p.Value, Version: p.Version, Selector: selector, ARN: e.parameterARN(name), DataType: "text",
		LastModifiedDate: wire.Epoch(p.Modified),
	}
}

func (e *Emulator) parameterARN(name string) string {
	if strings.HasPrefix(name, publicPrefix) {
		return fmt.Sprintf("arn:aws:ssm:%s::parameter%s", e.fixture.Region, name)
	}
	return e.accountARN("ssm", "parameter/"+strings.TrimPrefix(name, "/"))
}

// findParameter takes a name or an ARN, either with a version after a colon.
func (e *Emulator) findParameter(requested string) (parameterOutput, error) {
	name, selector := requested, ""
	if _, resource, isARN := strings.Cut(requested, ":parameter/"); isARN && strings.HasPrefix(requested, "arn:") {
		name = "/" + resource
	}
	if base, version, found := strings.Cut(name, ":"); found {
		name, selector = base, ":"+version
	}
	p, found := e.ssmState().Parameters[name]
	if !found && strings.HasPrefix(requested, "arn:") {
		name = strings.TrimPrefix(name, "/") // names outside a hierarchy have no slash, their ARN does
		p, found = e.ssmState().Parameters[name]
	}
	if !found {
		return parameterOutput{}, wire.Errorf("ParameterNotFound", "Parameter %s not found.", requested)
	}
	if version, isVersion := strings.CutPrefix(selector, ":"); isVersion && version != strconv.Itoa(p.Version) {
		return parameterOutput{}, wire.Errorf("ParameterVersionNotFound", "Systems Manager could not find version %s of %s.", version, name)
	}
	return e.renderParameter(name, selector, p), nil
}

func (e *Emulator) getParameter(c *call) (any, error) {
	var in struct{ Name string }
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if in.Name == "" {
		return nil, wire.Errorf("ValidationException", "1 validation error detected: Value null at 'name' failed to satisfy constraint: Member must not be null")
	}
	p, err := e.findParameter(in.Name)
	if err != nil {
		return nil, err
	}
	return map[string]any{"Parameter": p}, nil
}

func (e *Emulator) getParameters(c *call) (any, error) {
	var in struct{ Names []string }
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if len(in.Names) < 1 || len(in.Names) > 10 {
		return nil, wire.Errorf("ValidationException", "1 validation error detected: Value at 'names' failed to satisfy constraint: Member must have length between 1 and 10")
	}
	found, missing := []parameterOutput{}, []string{}
	for _, name := range in.Names {
		if p, err := e.findParameter(name); err == nil {
			found = append(found, p)
		} else {
			missing = append(missing, name)
		}
	}
	return map[string]any{"Parameters": found, "InvalidParameters": missing}, nil
}

func (e *Emulator) getParametersByPath(c *call) (any, error) {
	var in struct {
		Path       string
		Recursive  bool
		MaxResults int
		NextToken  string
	}
	if err := c.JSON(&in); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(in.Path, "/") {
		return nil, wire.Errorf("ValidationException", "The parameter path must begin with a slash.")
	}
	if in.MaxResults < 1 || in.MaxResults > 10 {
		in.MaxResults = 10
	}
	prefix := strings.TrimSuffix(in.Path, "/") + "/"
	out := struct {
		Parameters []parameterOutput
		NextToken  string `json:",omitempty"`
	}{Parameters: []parameterOutput{}}
	for _, name := range slices.Sorted(maps.Keys(e.ssmState().Parameters)) {
		below, inside := strings.CutPrefix(name, prefix)
		if !inside || (!in.Recursive && strings.Contains(below, "/")) || name <= in.NextToken {
			continue
		}
		if len(out.Parameters) == in.MaxResults {
			out.NextToken = out.Parameters[in.MaxResults-1].Name
			break
		}
		out.Parameters = append(out.Parameters, e.renderParameter(name, "", e.ssmState().Parameters[name]))
	}
	return out, nil
}

// parametersControl shows the parameters, and sets or (null) removes those in the body.
func (e *Emulator) parametersControl() control {
	return control{
		http.MethodGet: func(*controlRequest) (any, error) { return marshalLocked(e.ssmState().Parameters) },
		http.MethodPut: func(r *controlRequest) (any, error) {
			var in map[string]*string
			if err := r.decode(&in); err != nil {
				return nil, err
			}
			for name, value := range in {
				if value == nil {
					delete(e.ssmState().Parameters, name)
					continue
				}
				e.ssmState().Parameters[name] = Parameter{Value: *value, Version: e.ssmState().Parameters[name].Version + 1, Modified: r.now}
			}
			return nil, nil
		},
	}
}
