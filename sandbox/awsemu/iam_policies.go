package awsemu

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Policy is a policy of the account that can be attached to roles. It is kept, not evaluated: what a
// caller may do is a matter of permissions.
type Policy struct {
	Name     string    `json:"name"`
	ID       string    `json:"id"`
	Path     string    `json:"path"`
	Document string    `json:"document"`
	Created  time.Time `json:"created"`
}

func (e *Emulator) registerPolicies() {
	for action, run := range map[string]func(*call) (any, error){
		"GetPolicy": e.getPolicy, "GetPolicyVersion": e.getPolicyVersion, "ListPolicies": e.listPolicies,
		"GetRolePolicy": e.getRolePolicy, "ListRolePolicies": e.listRolePolicies,
	} {
		e.register(wire.IAM, action, run)
	}
	for action, run := range map[string]func(*call) (any, error){
		"CreatePolicy": e.createPolicy, "DeletePolicy": e.deletePolicy, "PutRolePolicy": e.putRolePolicy, "DeleteRolePolicy": e.deleteRolePolicy,
	} {
		e.registerMutating(wire.IAM, action, run)
	}
}

type policyXML struct {
	PolicyName       string
	PolicyID         string `xml:"PolicyId"`
	Arn              string
	Path             string
	DefaultVersionID string `xml:"DefaultVersionId"`
	AttachmentCount  int
	IsAttachable     bool
	CreateDate       string
	UpdateDate       string
}

type policyResult struct{ Policy policyXML }

// policyVersion is the only version that a policy has here.
const policyVersion = "v1"

func (e *Emulator) renderPolicy(arn string, p Policy) policyXML {
	created := wire.Time(p.Created)
	return policyXML{
		PolicyName: p.Name, PolicyID: p.ID, Arn: arn, Path: p.Path, DefaultVersionID: policyVersion, AttachmentCount: e.attachments(arn),
		IsAttachable: true, CreateDate: created, UpdateDate: created,
	}
}

func (e *Emulator) attachments(arn string) (roles int) {
	for _, role := range e.iam().Roles {
		if slices.Contains(role.Policies, arn) {
			roles++
		}
	}
	return roles
}

func (e *Emulator) findPolicy(arn string) (Policy, error) {
	if policy, found := e.iam().Policies[arn]; found {
		return policy, nil
	}
	return Policy{}, wire.Errorf("NoSuchEntity", "Policy %s was not found.", arn)
}

// attachable reports whether a policy exists: every policy of AWS does, of ours those that were made.
func (e *Emulator) attachable(arn string) error {
	if strings.HasPrefix(arn, "arn:aws:iam::aws:policy/") {
		return nil
	}
	_, err := e.findPolicy(arn)
	return err
}

func validDocument(document string) error {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(document), &members) != nil || members["Statement"] == nil {
		return wire.Errorf("MalformedPolicyDocument", "Syntax errors in policy.")
	}
	return nil
}

func (e *Emulator) createPolicy(c *call) (any, error) {
	name, path, document := c.Form.String("PolicyName"), pathOf(c.Form.String("Path")), c.Form.String("PolicyDocument")
	if err := validName("policyName", name, 128); err != nil {
		return nil, err
	}
	if err := validPath("path", path); err != nil {
		return nil, err
	}
	if err := validDocument(document); err != nil {
		return nil, err
	}
	for _, existing := range e.iam().Policies {
		if strings.EqualFold(existing.Name, name) {
			return nil, wire.Errorf("EntityAlreadyExists", "A policy called %s already exists. Duplicate names are not allowed.", name)
		}
	}
	arn := e.arn("iam", "policy"+path+name)
	policy := Policy{Name: name, ID: e.iamID("ANPA"), Path: path, Document: document, Created: c.now}
	e.iam().Policies[arn] = policy
	return policyResult{Policy: e.renderPolicy(arn, policy)}, nil
}

func (e *Emulator) getPolicy(c *call) (any, error) {
	arn := c.Form.String("PolicyArn")
	policy, err := e.findPolicy(arn)
	if err != nil {
		return nil, err
	}
	return policyResult{Policy: e.renderPolicy(arn, policy)}, nil
}

func (e *Emulator) getPolicyVersion(c *call) (any, error) {
	policy, err := e.findPolicy(c.Form.String("PolicyArn"))
	if err != nil {
		return nil, err
	}
	if version := c.Form.String("VersionId"); version != policyVersion {
		return nil, wire.Errorf("NoSuchEntity", "Policy %s version %s does not exist or is not attachable.", policy.Name, version)
	}
	type versionXML struct {
		Document         string
		VersionID        string `xml:"VersionId"`
		IsDefaultVersion bool
		CreateDate       string
	}
	return struct{ PolicyVersion versionXML }{versionXML{
		Document: url.QueryEscape(policy.Document), VersionID: policyVersion, IsDefaultVersion: true, CreateDate: wire.Time(policy.Created),
	}}, nil
}

// listPolicies lists those of the account; those of AWS are not kept.
func (e *Emulator) listPolicies(c *call) (any, error) {
	prefix, arns := pathOf(c.Form.String("PathPrefix")), []string{}
	for _, arn := range slices.Sorted(maps.Keys(e.iam().Policies)) {
		if c.Form.String("Scope") != "AWS" && strings.HasPrefix(e.iam().Policies[arn].Path, prefix) {
			arns = append(arns, arn)
		}
	}
	arns, marker, err := iamPage(c, arns)
	if err != nil {
		return nil, err
	}
	out := struct {
		Policies    members[policyXML]
		IsTruncated bool
		Marker      string `xml:",omitempty"`
	}{IsTruncated: marker != "", Marker: marker}
	for _, arn := range arns {
		out.Policies.Member = append(out.Policies.Member, e.renderPolicy(arn, e.iam().Policies[arn]))
	}
	return out, nil
}

func (e *Emulator) deletePolicy(c *call) (any, error) {
	arn := c.Form.String("PolicyArn")
	if _, err := e.findPolicy(arn); err != nil {
		return nil, err
	}
	if e.attachments(arn) > 0 {
		return nil, wire.Errorf("DeleteConflict", "Cannot delete a policy attached to entities.")
	}
	delete(e.iam().Policies, arn)
	return nil, nil
}

func (e *Emulator) putRolePolicy(c *call) (any, error) {
	role, err := e.findRole(c.Form.String("RoleName"))
	if err != nil {
		return nil, err
	}
	name, document := c.Form.String("PolicyName"), c.Form.String("PolicyDocument")
	if err := validName("policyName", name, 128); err != nil {
		return nil, err
	}
	if err := validDocument(document); err != nil {
		return nil, err
	}
	inline := maps.Clone(role.Inline)
	if inline == nil {
		inline = map[string]string{}
	}
	inline[name] = document
	role.Inline = inline
	e.iam().Roles[role.Name] = role
	return nil, nil
}

// inlineOf finds an inline policy of a role.
func (e *Emulator) inlineOf(c *call) (role Role, name string, err error) {
	if role, err = e.findRole(c.Form.String("RoleName")); err != nil {
		return role, "", err
	}
	name = c.Form.String("PolicyName")
	if _, found := role.Inline[name]; !found {
		return role, name, wire.Errorf("NoSuchEntity", "The role policy with name %s cannot be found.", name)
	}
	return role, name, nil
}

func (e *Emulator) getRolePolicy(c *call) (any, error) {
	role, name, err := e.inlineOf(c)
	if err != nil {
		return nil, err
	}
	return struct{ RoleName, PolicyName, PolicyDocument string }{role.Name, name, url.QueryEscape(role.Inline[name])}, nil
}

func (e *Emulator) deleteRolePolicy(c *call) (any, error) {
	role, name, err := e.inlineOf(c)
	if err != nil {
		return nil, err
	}
	role.Inline = maps.Clone(role.Inline)
	delete(role.Inline, name)
	e.iam().Roles[role.Name] = role
	return nil, nil
}

func (e *Emulator) listRolePolicies(c *call) (any, error) {
	role, err := e.findRole(c.Form.String("RoleName"))
	if err != nil {
		return nil, err
	}
	names, marker, err := iamPage(c, slices.Sorted(maps.Keys(role.Inline)))
	if err != nil {
		return nil, err
	}
	return struct {
		PolicyNames members[string]
		IsTruncated bool
		Marker      string `xml:",omitempty"`
	}{members[string]{Member: names}, marker != "", marker}, nil
}
