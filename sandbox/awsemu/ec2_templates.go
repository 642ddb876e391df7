package awsemu

import (
	"encoding/base64"
	"net/url"
	"slices"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// maxUserData is how long user data may be before it is encoded.
const maxUserData = 16384

type templateItem struct {
	ID      string    `xml:"launchTemplateId"`
	Name    string    `xml:"launchTemplateName"`
	Created string    `xml:"createTime"`
	By      string    `xml:"createdBy"`
	Default int       `xml:"defaultVersionNumber"`
	Latest  int       `xml:"latestVersionNumber"`
	Tags    []tagItem `xml:"tagSet>item"`
}

type templateResponse struct {
	Item templateItem `xml:"launchTemplate"`
}

type templatesResponse struct {
	Items []templateItem `xml:"launchTemplates>item"`
	Next  string         `xml:"nextToken,omitempty"`
}

func (e *Emulator) templateItem(t *LaunchTemplate) templateItem {
	return templateItem{
		ID: t.ID, Name: t.Name, Created: wire.Time(t.Created), By: e.accountARN("iam", "root"), Default: 1, Latest: 1, Tags: tagItems(t.Tags),
	}
}

// dataForm reads the data of a template.
func (t *LaunchTemplate) dataForm() wire.Form {
	values := url.Values{}
	for key, value := range t.Data {
		values.Set(key, value)
	}
	return wire.NewForm(values)
}

// templateNamed finds a template that can be seen already.
func (e *Emulator) templateNamed(c *call, name string) (*LaunchTemplate, error) {
	for _, t := range e.ec2().Templates {
		if t.Name == name && !c.now.Before(t.Visible) {
			return t, nil
		}
	}
	return nil, wire.Errorf("InvalidLaunchTemplateName.NotFoundException", "At least one of the launch templates specified in the request does not exist: %s", name)
}

func (e *Emulator) templateWithID(c *call, id string) (*LaunchTemplate, error) {
	if t := e.ec2().Templates[id]; t != nil && !c.now.Before(t.Visible) {
		return t, nil
	}
	return nil, wire.Errorf("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
}

// templateOf resolves the LaunchTemplateName or LaunchTemplateId of a form.
func (e *Emulator) templateOf(c *call, f wire.Form) (*LaunchTemplate, error) {
	if id := f.String("LaunchTemplateId"); id != "" {
		return e.templateWithID(c, id)
	}
	if name := f.String("LaunchTemplateName"); name != "" {
		return e.templateNamed(c, name)
	}
	return nil, wire.Errorf("MissingParameter", "Either a launch template ID or a launch template name must be specified")
}

func (e *Emulator) describeTemplates(c *call) (any, error) {
	filters, err := ec2Filters(c, "launch-template-name", "create-time")
	if err != nil {
		return nil, err
	}
	names, ids := c.Form.Strings("LaunchTemplateName"), c.Form.Strings("LaunchTemplateId")
	for _, name := range names {
		if _, err := e.templateNamed(c, name); err != nil {
			return nil, err
		}
	}
	for _, id := range ids {
		if _, err := e.templateWithID(c, id); err != nil {
			return nil, err
		}
	}
	var list []*LaunchTemplate
	for _, t := range e.ec2().Templates {
		if c.now.Before(t.Visible) || len(names)+len(ids) > 0 && !slices.Contains(names, t.Name) && !slices.Contains(ids, t.ID) {
			continue
		}
		if filters.matchTags(t.Tags, map[string]string{"launch-template-name": t.Name, "create-time": wire.Time(t.Created)}) {
			list = append(list, t)
		}
	}
	page, next, err := ec2Page(c, list, func(t *LaunchTemplate) string { return t.ID }, 200, 200)
	response := templatesResponse{Next: next}
	for _, t := range page {
		response.Items = append(response.Items, e.templateItem(t))
	}
	return response, err
}

func (e *Emulator) createTemplate(c *call) (any, error) {
	name, data := c.Form.String("LaunchTemplateName"), c.Form.Sub("LaunchTemplateData")
	if name == "" {
		return nil, wire.Errorf("MissingParameter", "The request must contain the parameter LaunchTemplateName")
	}
	tags, err := tagsFor(c.Form, "launch-template")
	if err != nil {
		return nil, err
	}
	if err := checkUserData(data.String("UserData")); err != nil {
		return nil, err
	}
	if c.Form.Bool("DryRun") {
		return nil, errDryRun()
	}
	if old, err := e.findClientToken(c); err != nil {
		return nil, err
	} else if old != nil && old.Template != nil {
		return old.Template, nil
	}
	for _, t := range e.ec2().Templates { // also one that cannot be seen yet
		if t.Name == name {
			return nil, wire.Errorf("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use: %s", name)
		}
	}
	t := &LaunchTemplate{ID: e.nextID("lt-"), Name: name, Created: c.now, Visible: c.now.Add(e.currentLag("templates")), Data: data.Map(), Tags: tags}
	e.ec2().Templates[t.ID] = t
	response := &templateResponse{Item: e.templateItem(t)}
	e.storeClientToken(c, clientToken{Template: response})
	return response, nil
}

func checkUserData(encoded string) error {
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return wire.Errorf("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(decoded) > maxUserData {
		return wire.Errorf("InvalidUserData.Malformed", "User data is limited to %d bytes", maxUserData)
	}
	return nil
}

func (e *Emulator) deleteTemplate(c *call) (any, error) {
	t, err := e.templateOf(c, c.Form)
	if err != nil {
		return nil, err
	}
	delete(e.ec2().Templates, t.ID)
	return templateResponse{Item: e.templateItem(t)}, nil
}
