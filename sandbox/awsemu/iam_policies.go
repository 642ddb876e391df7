package awsemu

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Policy is a policy of the account that can be attached to roles: a principal with such a role may do what its default
// version says.
type Policy struct {
	Name     string    `json:"name"`
	ID       string    `json:"id"`
	Path     string    `json:"path"`
	Document string    `json:"document"` // of the default version
	Created  time.Time `json:"created"`

	Description string            `json:"description,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`
	Default     string            `json:"default,omitempty"`  // version id; empty: v1
	Versions    []PolicyVersion   `json:"versions,omitempty"` // oldest first; none: v1 is all there was
}

// PolicyVersion is one of the texts that a policy had.
type PolicyVersion struct {
	ID       string    `json:"id"`
	Document string    `json:"document"`
	Created  time.Time `json:"created"`
}

// maxVersions of a policy are kept; a sixth must wait until one is deleted.
const maxVersions = 5

// sortedVersions are all of them, oldest first.
func (p Policy) sortedVersions() []PolicyVersion {
	if len(p.Versions) == 0 {
		return []PolicyVersion{{ID: policyVersion, Document: p.Document, Created: p.Created}}
	}
	return p.Versions
}

func (p Policy) defaultVersion() string { return cmp.Or(p.Default, policyVersion) }

func (e *Emulator) registerPolicies() {
	for action, run := range map[string]func(*call) (any, error){
		"GetPolicy": e.getPolicy, "GetPolicyVersion": e.getPolicyVersion, "ListPolicies": e.listPolicies,
		"GetRolePolicy": e.getRolePolicy, "ListRolePolicies": e.listRolePolicies, "ListPolicyVersions": e.listPolicyVersions, "ListPolicyTags": e.listPolicyTags,
		"ListEntitiesForPolicy": e.listEntitiesForPolicy,
	} {
		e.register(wire.IAM, action, run)
	}
	for action, run := range map[string]func(*call) (any, error){
		"CreatePolicy": e.createPolicy, "DeletePolicy": e.deletePolicy, "PutRolePolicy": e.putRolePolicy, "DeleteRolePolicy": e.deleteRolePolicy,
		"CreatePolicyVersion": e.createPolicyVersion, "DeletePolicyVersion": e.deletePolicyVersion, "SetDefaultPolicyVersion": e.setDefaultPolicyVersion,
		"TagPolicy": e.tagPolicy, "UntagPolicy": e.untagPolicy,
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
	Description      string           `xml:",omitempty"`
	Tags             *members[tagXML] `xml:",omitempty"`
}

type policyResult struct{ Policy policyXML }

// policyVersion is the first version of a policy.
const policyVersion = "v1"

func (e *Emulator) renderPolicy(arn string, p Policy) policyXML {
	versions := p.sortedVersions()
	return policyXML{
		PolicyName: p.Name, PolicyID: p.ID, Arn: arn, Path: p.Path, DefaultVersionID: p.defaultVersion(), AttachmentCount: e.countAttachments(arn),
		IsAttachable: true, CreateDate: wire.Time(p.Created), UpdateDate: wire.Time(versions[len(versions)-1].Created), Description: p.Description,
	}
}

// policyWithTags is the response of the calls that show one policy; lists leave the tags out.
func (e *Emulator) policyWithTags(arn string, p Policy) policyResult {
	out := policyResult{Policy: e.renderPolicy(arn, p)}
	out.Policy.Tags = new(renderTags(p.Tags))
	return out
}

func (e *Emulator) countAttachments(arn string) (roles int) {
	for _, role := range e.iamState().Roles {
		if slices.Contains(role.Policies, arn) {
			roles++
		}
	}
	return roles
}

func (e *Emulator) findPolicy(arn string) (Policy, error) {
	if policy, found := e.iamState().Policies[arn]; found {
		return policy, nil
	}
	return Policy{}, wire.Errorf("NoSuchEntity", "Policy %s was not found.", arn)
}

// checkAttachable reports whether a policy exists: every policy of AWS does, of ours those that were made.
func (e *Emulator) checkAttachable(arn string) error {
	if strings.HasPrefix(arn, awsPolicies) {
		return nil
	}
	_, err := e.findPolicy(arn)
	return err
}

// escapeDocument encodes a document as RFC 3986 does, and so IAM: a blank is not a plus.
func escapeDocument(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

func (e *Emulator) createPolicy(c *call) (any, error) {
	name, path, document := c.Form.String("PolicyName"), pathOf(c.Form.String("Path")), c.Form.String("PolicyDocument")
	if err := validName("policyName", name, 128); err != nil {
		return nil, err
	}
	if err := validPath("path", path); err != nil {
		return nil, err
	}
	if err := validManaged(document); err != nil {
		return nil, err
	}
	tags, err := tagsOf(c, nil)
	if err != nil {
		return nil, err
	}
	for _, existing := range e.iamState().Policies {
		if strings.EqualFold(existing.Name, name) {
			return nil, wire.Errorf("EntityAlreadyExists", "A policy called %s already exists. Duplicate names are not allowed.", name)
		}
	}
	arn := e.accountARN("iam", "policy"+path+name)
	policy := Policy{Name: name, ID: e.iamID("ANPA"), Path: path, Document: document, Created: c.now, Description: c.Form.String("Description"), Tags: tags}
	e.iamState().Policies[arn] = policy
	return e.policyWithTags(arn, policy), nil
}

func (e *Emulator) getPolicy(c *call) (any, error) {
	arn := c.Form.String("PolicyArn")
	policy, err := e.findPolicy(arn)
	if err != nil {
		return nil, err
	}
	return e.policyWithTags(arn, policy), nil
}

type versionXML struct {
	Document         string `xml:",omitempty"`
	VersionID        string `xml:"VersionId"`
	IsDefaultVersion bool
	CreateDate       string
}

func (p Policy) renderVersion(v PolicyVersion, withDocument bool) versionXML {
	out := versionXML{VersionID: v.ID, IsDefaultVersion: v.ID == p.defaultVersion(), CreateDate: wire.Time(v.Created)}
	if withDocument {
		out.Document = escapeDocument(v.Document)
	}
	return out
}

// version finds a version, by its place.
func (p Policy) version(id string) (int, error) {
	at := slices.IndexFunc(p.sortedVersions(), func(v PolicyVersion) bool { return v.ID == id })
	if at < 0 {
		return 0, wire.Errorf("NoSuchEntity", "Policy %s version %s does not exist or is not attachable.", p.Name, id)
	}
	return at, nil
}

func (e *Emulator) getPolicyVersion(c *call) (any, error) {
	policy, err := e.findPolicy(c.Form.String("PolicyArn"))
	if err != nil {
		return nil, err
	}
	at, err := policy.version(c.Form.String("VersionId"))
	if err != nil {
		return nil, err
	}
	return struct{ PolicyVersion versionXML }{policy.renderVersion(policy.sortedVersions()[at], true)}, nil
}

func (e *Emulator) listPolicyVersions(c *call) (any, error) {
	policy, err := e.findPolicy(c.Form.String("PolicyArn"))
	if err != nil {
		return nil, err
	}
	out := struct {
		Versions    members[versionXML]
		IsTruncated bool
	}{}
	for _, v := range slices.Backward(policy.sortedVersions()) { // newest first
		out.Versions.Member = append(out.Versions.Member, policy.renderVersion(v, false))
	}
	return out, nil
}

// changePolicy changes the policy that a call names.
func (e *Emulator) changePolicy(c *call, change func(*Policy) error) error {
	arn := c.Form.String("PolicyArn")
	policy, err := e.findPolicy(arn)
	if err != nil {
		return err
	}
	policy.Versions, policy.Tags = slices.Clone(policy.sortedVersions()), maps.Clone(policy.Tags)
	if err := change(&policy); err != nil {
		return err
	}
	e.iamState().Policies[arn] = policy
	return nil
}

func (e *Emulator) createPolicyVersion(c *call) (any, error) {
	var made versionXML
	err := e.changePolicy(c, func(p *Policy) error {
		document := c.Form.String("PolicyDocument")
		if err := validManaged(document); err != nil {
			return err
		}
		if len(p.Versions) >= maxVersions {
			return wire.Errorf("LimitExceeded", "A managed policy can have up to %d versions. Before you create a new version, you must delete an existing version.", maxVersions)
		}
		last, err := strconv.Atoi(strings.TrimPrefix(p.Versions[len(p.Versions)-1].ID, "v"))
		if err != nil {
			return err
		}
		v := PolicyVersion{ID: "v" + strconv.Itoa(last+1), Document: document, Created: c.now}
		p.Versions = append(p.Versions, v)
		if c.Form.Bool("SetAsDefault") {
			p.Default, p.Document = v.ID, v.Document
		}
		made = p.renderVersion(v, false)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return struct{ PolicyVersion versionXML }{made}, nil
}

func (e *Emulator) deletePolicyVersion(c *call) (any, error) {
	return nil, e.changePolicy(c, func(p *Policy) error {
		at, err := p.version(c.Form.String("VersionId"))
		if err != nil {
			return err
		}
		if p.Versions[at].ID == p.defaultVersion() {
			return wire.Errorf("DeleteConflict", "Cannot delete the default version of a policy.")
		}
		p.Versions = slices.Delete(p.Versions, at, at+1)
		return nil
	})
}

func (e *Emulator) setDefaultPolicyVersion(c *call) (any, error) {
	return nil, e.changePolicy(c, func(p *Policy) error {
		at, err := p.version(c.Form.String("VersionId"))
		if err != nil {
			return err
		}
		p.Default, p.Document = p.Versions[at].ID, p.Versions[at].Document
		return nil
	})
}

func (e *Emulator) tagPolicy(c *call) (any, error) {
	return nil, e.changePolicy(c, func(p *Policy) (err error) {
		p.Tags, err = tagsOf(c, p.Tags)
		return err
	})
}

func (e *Emulator) untagPolicy(c *call) (any, error) {
	return nil, e.changePolicy(c, func(p *Policy) error {
		for _, key := range c.Form.Strings("TagKeys") {
			delete(p.Tags, key)
		}
		return nil
	})
}

func (e *Emulator) listPolicyTags(c *call) (any, error) {
	policy, err := e.findPolicy(c.Form.String("PolicyArn"))
	if err != nil {
		return nil, err
	}
	return tagList(policy.Tags), nil
}

// listEntitiesForPolicy names the roles that have a policy; users and groups are not emulated.
func (e *Emulator) listEntitiesForPolicy(c *call) (any, error) {
	arn := c.Form.String("PolicyArn")
	if err := e.checkAttachable(arn); err != nil {
		return nil, err
	}
	type roleXML struct {
		RoleName string
		RoleID   string `xml:"RoleId"`
	}
	out := struct {
		PolicyGroups members[string]
		PolicyUsers  members[string]
		PolicyRoles  members[roleXML]
		IsTruncated  bool
	}{}
	for _, name := range slices.Sorted(maps.Keys(e.iamState().Roles)) {
		if role := e.iamState().Roles[name]; slices.Contains(role.Policies, arn) {
			out.PolicyRoles.Member = append(out.PolicyRoles.Member, roleXML{RoleName: name, RoleID: role.ID})
		}
	}
	return out, nil
}

// listPolicies lists those of the account; those of AWS are not kept.
func (e *Emulator) listPolicies(c *call) (any, error) {
	prefix, arns := pathOf(c.Form.String("PathPrefix")), []string{}
	for _, arn := range slices.Sorted(maps.Keys(e.iamState().Policies)) {
		if c.Form.String("Scope") != "AWS" && strings.HasPrefix(e.iamState().Policies[arn].Path, prefix) {
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
		out.Policies.Member = append(out.Policies.Member, e.renderPolicy(arn, e.iamState().Policies[arn]))
	}
	return out, nil
}

func (e *Emulator) deletePolicy(c *call) (any, error) {
	arn := c.Form.String("PolicyArn")
	if _, err := e.findPolicy(arn); err != nil {
		return nil, err
	}
	if e.countAttachments(arn) > 0 {
		return nil, wire.Errorf("DeleteConflict", "Cannot delete a policy attached to entities.")
	}
	if policy := e.iamState().Policies[arn]; len(policy.sortedVersions()) > 1 {
		return nil, wire.Errorf("DeleteConflict", "This policy has more than one version. Before you delete a policy, you must delete the policy's versions. The default version is deleted with the policy.")
	}
	delete(e.iamState().Policies, arn)
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
	if err := validInline(role.Name, inline); err != nil {
		return nil, err
	}
	role.Inline = inline
	e.iamState().Roles[role.Name] = role
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
	return struct{ RoleName, PolicyName, PolicyDocument string }{role.Name, name, escapeDocument(role.Inline[name])}, nil
}

func (e *Emulator) deleteRolePolicy(c *call) (any, error) {
	role, name, err := e.inlineOf(c)
	if err != nil {
		return nil, err
	}
	role.Inline = maps.Clone(role.Inline)
	delete(role.Inline, name)
	e.iamState().Roles[role.Name] = role
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
