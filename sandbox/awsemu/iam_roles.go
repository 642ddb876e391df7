package awsemu

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/policy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Role is what a principal or an instance acts as.
type Role struct {
	Name     string            `json:"name"`
	ID       string            `json:"id"`
	Path     string            `json:"path"`
	Trust    string            `json:"trust"`              // policy document
	Policies []string          `json:"policies,omitempty"` // ARNs, in the order they were attached
	Inline   map[string]string `json:"inline,omitempty"`   // policy documents by name
	Tags     map[string]string `json:"tags,omitempty"`
	Created  time.Time         `json:"created"`

	Description string `json:"description,omitempty"`
	MaxSession  int    `json:"maxSession,omitempty"` // seconds; 0: an hour
}

// Trust policies of the fixture.
const (
	ec2Trust  = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
	podTrust  = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]}]}`
	spotTrust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"spot.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
)

type roleXML struct {
	Path                     string
	RoleName                 string
	RoleID                   string `xml:"RoleId"`
	Arn                      string
	CreateDate               string
	AssumeRolePolicyDocument string `xml:",omitempty"` // URL-encoded, as AWS sends it
	Description              string `xml:",omitempty"`
	MaxSessionDuration       int
	Tags                     *members[tagXML] `xml:",omitempty"`
}

type roleResult struct{ Role roleXML }

func (e *Emulator) newRole(now time.Time, name, path, trust string) Role {
	return Role{Name: name, ID: e.iamID("AROA"), Path: path, Trust: trust, Created: now}
}

func (e *Emulator) renderRole(r Role) roleXML {
	return roleXML{
		Path: r.Path, RoleName: r.Name, RoleID: r.ID, Arn: e.accountARN("iam", "role"+r.Path+r.Name), CreateDate: wire.Time(r.Created),
		AssumeRolePolicyDocument: escapeDocument(r.Trust), Description: r.Description, MaxSessionDuration: cmp.Or(r.MaxSession, usualSession),
	}
}

func (e *Emulator) findRole(name string) (Role, error) {
	if role, found := e.iamState().Roles[name]; found {
		return role, nil
	}
	return Role{}, wire.Errorf("NoSuchEntity", "The role with name %s cannot be found.", name)
}

func (e *Emulator) getRole(c *call) (any, error) {
	role, err := e.findRole(c.Form.String("RoleName"))
	if err != nil {
		return nil, err
	}
	return e.roleWithTags(role), nil
}

// roleWithTags is the response of the calls that show one role; lists leave the tags out.
func (e *Emulator) roleWithTags(r Role) roleResult {
	out := roleResult{Role: e.renderRole(r)}
	out.Role.Tags = new(renderTags(r.Tags))
	return out
}

func (e *Emulator) listRoles(c *call) (any, error) {
	prefix, state := pathOf(c.Form.String("PathPrefix")), e.iamState()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(state.Roles)) {
		if strings.HasPrefix(state.Roles[name].Path, prefix) {
			names = append(names, name)
		}
	}
	names, marker, err := iamPage(c, names)
	if err != nil {
		return nil, err
	}
	out := struct {
		Roles       members[roleXML]
		IsTruncated bool
		Marker      string `xml:",omitempty"`
	}{IsTruncated: marker != "", Marker: marker}
	for _, name := range names {
		out.Roles.Member = append(out.Roles.Member, e.renderRole(state.Roles[name]))
	}
	return out, nil
}

func (e *Emulator) createRole(c *call) (any, error) {
	name, path, trust := c.Form.String("RoleName"), pathOf(c.Form.String("Path")), c.Form.String("AssumeRolePolicyDocument")
	if err := validName("roleName", name, 64); err != nil {
		return nil, err
	}
	if err := validPath("path", path); err != nil {
		return nil, err
	}
	if err := validTrust(trust); err != nil {
		return nil, err
	}
	tags, err := tagsOf(c, nil)
	if err != nil {
		return nil, err
	}
	for existing := range e.iamState().Roles {
		if strings.EqualFold(existing, name) {
			return nil, wire.Errorf("EntityAlreadyExists", "Role with name %s already exists.", name)
		}
	}
	role := e.newRole(c.now, name, path, trust)
	role.Tags, role.Description, role.MaxSession = tags, c.Form.String("Description"), c.Form.Int("MaxSessionDuration", usualSession)
	if err := validSession(role.MaxSession); err != nil {
		return nil, err
	}
	e.iamState().Roles[name] = role
	return e.roleWithTags(role), nil
}

func validTrust(document string) error {
	if !json.Valid([]byte(document)) {
		return wire.Errorf("MalformedPolicyDocument", "This policy contains invalid Json")
	}
	if _, err := policy.Parse(policy.Trust, document); err != nil {
		return wire.Errorf("MalformedPolicyDocument", "%s", err.Error())
	}
	return nil
}

// usualSession is how many seconds a session of a role lasts at most, unless the role says otherwise.
const usualSession = 3600

func validSession(seconds int) error {
	if seconds < usualSession || seconds > 12*usualSession {
		return wire.Errorf("ValidationError", "1 validation error detected: Value '%d' at 'maxSessionDuration' failed to satisfy constraint: Member must be between 3600 and 43200", seconds)
	}
	return nil
}

// changeRole changes the role that a call names.
func (e *Emulator) changeRole(c *call, change func(*Role) error) (any, error) {
	role, err := e.findRole(c.Form.String("RoleName"))
	if err != nil {
		return nil, err
	}
	role.Tags = maps.Clone(role.Tags)
	if err := change(&role); err != nil {
		return nil, err
	}
	e.iamState().Roles[role.Name] = role
	return nil, nil
}

func (e *Emulator) updateTrust(c *call) (any, error) {
	return e.changeRole(c, func(r *Role) error {
		r.Trust = c.Form.String("PolicyDocument")
		return validTrust(r.Trust)
	})
}

func (e *Emulator) updateRole(c *call) (any, error) {
	return e.changeRole(c, func(r *Role) error {
		if c.Form.Has("Description") {
			r.Description = c.Form.String("Description")
		}
		r.MaxSession = c.Form.Int("MaxSessionDuration", cmp.Or(r.MaxSession, usualSession))
		return validSession(r.MaxSession)
	})
}

func (e *Emulator) tagRole(c *call) (any, error) {
	return e.changeRole(c, func(r *Role) (err error) {
		r.Tags, err = tagsOf(c, r.Tags)
		return err
	})
}

func (e *Emulator) untagRole(c *call) (any, error) {
	return e.changeRole(c, func(r *Role) error {
		for _, key := range c.Form.Strings("TagKeys") {
			delete(r.Tags, key)
		}
		return nil
	})
}

func (e *Emulator) listRoleTags(c *call) (any, error) {
	role, err := e.findRole(c.Form.String("RoleName"))
	if err != nil {
		return nil, err
	}
	return tagList(role.Tags), nil
}

func (e *Emulator) deleteRole(c *call) (any, error) {
	role, err := e.findRole(c.Form.String("RoleName"))
	if err != nil {
		return nil, err
	}
	for _, profile := range e.iamState().Profiles {
		if profile.Role == role.Name {
			return nil, wire.Errorf("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
		}
	}
	if len(role.Inline) > 0 {
		return nil, wire.Errorf("DeleteConflict", "Cannot delete entity, must delete policies first.")
	}
	if len(role.Policies) > 0 {
		return nil, wire.Errorf("DeleteConflict", "Cannot delete entity, must detach all policies first.")
	}
	delete(e.iamState().Roles, role.Name)
	return nil, nil
}

func (e *Emulator) attachRolePolicy(c *call) (any, error) {
	role, err := e.findRole(c.Form.String("RoleName"))
	if err != nil {
		return nil, err
	}
	arn := c.Form.String("PolicyArn")
	if !strings.HasPrefix(arn, "arn:") {
		return nil, wire.Errorf("InvalidInput", "ARN %s is not valid.", arn)
	}
	if err := e.checkAttachable(arn); err != nil {
		return nil, err
	}
	if !slices.Contains(role.Policies, arn) {
		if len(role.Policies) >= maxAttachments {
			return nil, wire.Errorf("LimitExceeded", "Cannot exceed quota for PoliciesPerRole: %d", maxAttachments)
		}
		role.Policies = append(slices.Clone(role.Policies), arn)
		e.iamState().Roles[role.Name] = role
	}
	return nil, nil
}

func (e *Emulator) detachRolePolicy(c *call) (any, error) {
	role, err := e.findRole(c.Form.String("RoleName"))
	if err != nil {
		return nil, err
	}
	arn := c.Form.String("PolicyArn")
	at := slices.Index(role.Policies, arn)
	if at < 0 {
		return nil, wire.Errorf("NoSuchEntity", "Policy %s was not found.", arn)
	}
	role.Policies = slices.Delete(slices.Clone(role.Policies), at, at+1)
	e.iamState().Roles[role.Name] = role
	return nil, nil
}

func (e *Emulator) listAttachedRolePolicies(c *call) (any, error) {
	role, err := e.findRole(c.Form.String("RoleName"))
	if err != nil {
		return nil, err
	}
	type policyXML struct{ PolicyName, PolicyArn string }
	out := struct {
		AttachedPolicies members[policyXML]
		IsTruncated      bool
	}{}
	for _, arn := range role.Policies {
		out.AttachedPolicies.Member = append(out.AttachedPolicies.Member, policyXML{PolicyName: arn[strings.LastIndex(arn, "/")+1:], PolicyArn: arn})
	}
	return out, nil
}

// createServiceLinkedRole knows the role of spot; guides create it and accept that it is there.
func (e *Emulator) createServiceLinkedRole(c *call) (any, error) {
	if service := c.Form.String("AWSServiceName"); service != spotServiceName {
		return nil, wire.Errorf("InvalidInput", "Service linked roles of %s are not emulated; only those of %s.", service, spotServiceName)
	}
	if e.spotRolePresent() {
		return nil, wire.Errorf("InvalidInput", "Service role name %s has been taken in this account, please try a different suffix.", spotRoleName)
	}
	role := e.newRole(c.now, spotRoleName, "/aws-service-role/"+spotServiceName+"/", spotTrust)
	role.Description = c.Form.String("Description")
	e.iamState().Roles[spotRoleName] = role
	return roleResult{Role: e.renderRole(role)}, nil
}

// rolesControl lists the roles, or makes the account have exactly these: what is not named is gone,
// also from profiles. Without AWSServiceRoleForEC2Spot the account cannot launch spot instances.
func (e *Emulator) rolesControl() control {
	return control{
		http.MethodGet: func(*controlRequest) (any, error) {
			return slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(e.iamState().Roles)))), nil
		},
		http.MethodPut: func(r *controlRequest) (any, error) {
			var names []string
			if err := r.decode(&names); err != nil {
				return nil, err
			}
			for _, name := range names {
				if err := validName("role name", name, 64); err != nil {
					return nil, err
				}
			}
			e.setRoles(r.now, names)
			return nil, nil
		},
	}
}

func (e *Emulator) setRoles(now time.Time, names []string) {
	state := e.iamState()
	maps.DeleteFunc(state.Roles, func(name string, _ Role) bool { return !slices.Contains(names, name) })
	for _, name := range names {
		if _, found := state.Roles[name]; found {
			continue
		}
		path, trust := "/", ec2Trust
		if name == spotRoleName {
			path, trust = "/aws-service-role/"+spotServiceName+"/", spotTrust
		}
		state.Roles[name] = e.newRole(now, name, path, trust)
	}
	for name, profile := range state.Profiles {
		if _, found := state.Roles[profile.Role]; !found {
			profile.Role = ""
			state.Profiles[name] = profile
		}
	}
}
