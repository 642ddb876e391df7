package awsemu

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// Permission allows or denies an action. Every member that is set must match; of the permissions that
// do, the last one counts, and an action that none speaks of is allowed.
type Permission struct {
	Name   string `json:"name,omitempty"` // for refusals, such as AllowScopedDeletion
	Key    string `json:"key,omitempty"`  // access key id; empty matches every caller
	Role   string `json:"role,omitempty"` // that the caller assumed; empty matches every caller
	Action string `json:"action"`         // pattern such as ec2:CreateFleet or iam:*
	// Resources are patterns of ARNs; none matches every resource. What a call creates has the ARN
	// that ends in /*.
	Resources  []string   `json:"resources,omitempty"`
	Conditions Conditions `json:"conditions,omitempty"`
	Deny       bool       `json:"deny"`
	Message    string     `json:"message,omitempty"` // ends the refusal, such as: because no identity-based policy allows the action
}

// access is one thing that a call wants to do. Most calls want one; a launch wants many.
type access struct {
	action   string              // such as iam:PassRole
	resource string              // ARN; empty when it cannot be said yet
	context  map[string][]string // what conditions can ask for, by key such as aws:RequestTag/Name
	// unsure are the beginnings of the keys that nobody can tell: the tags of what does not exist. They
	// count in favour of the caller, so that the operation can say what is missing.
	unsure []string
}

// with adds a value that conditions can ask for.
func (a access) with(key string, values ...string) access {
	context := maps.Clone(a.context)
	if context == nil {
		context = map[string][]string{}
	}
	context[key] = values
	a.context = context
	return a
}

// withTags adds tags below a prefix such as aws:ResourceTag/.
func (a access) withTags(prefix string, tags map[string]string) access {
	for key, value := range tags {
		a = a.with(prefix+key, value)
	}
	return a
}

// Prefixes and names of the keys that conditions know.
const (
	keyRequestTag   = "aws:RequestTag/"
	keyResourceTag  = "aws:ResourceTag/"
	keyTagKeys      = "aws:TagKeys"
	keyRegion       = "aws:RequestedRegion"
	keyCreateAction = "ec2:CreateAction"
	keyPassedTo     = "iam:PassedToService"
	keyShifted      = "arc-zonal-shift:ResourceIdentifier"
)

// withRequestTags adds the tags that a call sends for a resource.
func (a access) withRequestTags(tags map[string]string) access {
	if len(tags) == 0 {
		return a
	}
	return a.withTags(keyRequestTag, tags).with(keyTagKeys, slices.Sorted(maps.Keys(tags))...)
}

// permit says which of the things that a call wants its caller may not do. The emulator must be locked.
func (e *Emulator) permit(c *call, wanted ...access) error {
	for _, a := range wanted {
		a = a.with(keyRegion, c.Region)
		var decides *Permission
		for n := range e.rules.Permissions {
			if p := &e.rules.Permissions[n]; e.concerns(p, c.Key, a) && p.holds(a) {
				decides = p
			}
		}
		if decides != nil && decides.Deny {
			return e.refuse(c, a, decides.Message)
		}
	}
	return nil
}

// concerns reports whether a permission speaks of this caller, action and resource.
func (e *Emulator) concerns(p *Permission, key string, a access) bool {
	if p.Key != "" && p.Key != key || p.Role != "" && p.Role != e.iam().Sessions[key].Role || !matchAction(p.Action, a.action) {
		return false
	}
	if len(p.Resources) == 0 {
		return true
	}
	if a.resource == "" {
		return !p.Deny
	}
	return slices.ContainsFunc(p.Resources, func(pattern string) bool { return ec2Wildcard(pattern, a.resource) })
}

// holds reports whether the conditions are met. What is not known helps the caller.
func (p *Permission) holds(a access) bool {
	_, unmet := p.Conditions.unmet(a, !p.Deny)
	return !unmet
}

// refuse words a refusal as the service does. The end names the condition that was missed, which AWS
// does not: a missing tag should not take an hour to find.
func (e *Emulator) refuse(c *call, a access, message string) error {
	if message == "" {
		message = "because no identity-based policy allows the " + a.action + " action"
	}
	code := "AccessDenied"
	switch c.Service {
	case wire.EC2:
		code = "UnauthorizedOperation"
	case wire.SQS, wire.SSM, wire.Pricing, wire.EKS, wire.EKSAuth, wire.ZonalShift, wire.Events, wire.FIS:
		code = "AccessDeniedException"
	case wire.IAM, wire.STS:
	}
	resource := ""
	if a.resource != "" && a.resource != "*" {
		resource = " on resource: " + a.resource
	}
	return wire.Errorf(code, "You are not authorized to perform this operation. User: %s is not authorized to perform: %s%s %s%s",
		e.callerARN(c.Key), a.action, resource, message, e.missed(c.Key, a))
}

// missed says what would have allowed it: the conditions that were not met.
func (e *Emulator) missed(key string, a access) string {
	var hints []string
	for n := range e.rules.Permissions {
		p := &e.rules.Permissions[n]
		if p.Deny || !e.concerns(p, key, a) {
			continue
		}
		if condition, unmet := p.Conditions.unmet(a, true); unmet {
			hints = append(hints, strings.TrimSpace(p.Name+" wants "+condition))
		}
	}
	if len(hints) == 0 {
		return ""
	}
	return " (" + strings.Join(hints, "; ") + ")"
}

// callerARN is who an access key belongs to.
func (e *Emulator) callerARN(key string) string {
	if session, found := e.iam().Sessions[key]; found {
		return e.arn("sts", "assumed-role/"+session.Role+"/"+session.Name)
	}
	return e.arn("iam", "user/"+key)
}

// permissionProfile is a body of the control "permissions" that stands for a whole list.
type permissionProfile struct {
	Profile  string `json:"profile"`            // open or strict
	NodeRole string `json:"nodeRole,omitempty"` // that strict lets the controller pass; the one of the fixture if absent
	Key      string `json:"key,omitempty"`      // whom strict binds; everybody if both are absent
	Role     string `json:"role,omitempty"`
}

// Profiles of permissions.
const (
	profileOpen   = "open"
	profileStrict = "strict"
)

// permissionsControl shows the permissions. PUT replaces them by a list or a profile, POST adds one.
func (e *Emulator) permissionsControl() control {
	add := func(r *controlRequest) (any, error) {
		var p Permission
		if err := r.decode(&p); err != nil {
			return nil, err
		}
		if err := p.check(); err != nil {
			return nil, err
		}
		e.rules.Permissions = append(e.rules.Permissions, p)
		return nil, nil
	}
	replace := func(r *controlRequest) (any, error) {
		var list []Permission
		if err := r.decode(&list); err != nil {
			return nil, err
		}
		for n := range list {
			if err := list[n].check(); err != nil {
				return nil, fmt.Errorf("element %d: %w", n, err)
			}
		}
		e.rules.Permissions = list
		return nil, nil
	}
	orProfile := func(otherwise func(*controlRequest) (any, error)) func(*controlRequest) (any, error) {
		return func(r *controlRequest) (any, error) {
			if !namesProfile(r.body) {
				return otherwise(r)
			}
			return nil, e.setPermissionProfile(r)
		}
	}
	return control{
		http.MethodGet:    func(*controlRequest) (any, error) { return append([]Permission{}, e.rules.Permissions...), nil },
		http.MethodPut:    orProfile(replace),
		http.MethodPost:   orProfile(add),
		http.MethodDelete: func(*controlRequest) (any, error) { e.rules.Permissions = nil; return nil, nil },
	}
}

func (e *Emulator) setPermissionProfile(r *controlRequest) error {
	var body permissionProfile
	if err := r.decode(&body); err != nil {
		return err
	}
	switch body.Profile {
	case profileOpen:
		e.rules.Permissions = nil
	case profileStrict:
		e.rules.Permissions = e.strictPermissions(body)
	default:
		return fmt.Errorf("profile: %q is not known; want %s or %s", body.Profile, profileOpen, profileStrict)
	}
	return nil
}

// check finds what would make a permission match never.
func (p *Permission) check() error {
	if p.Action == "" {
		return fmt.Errorf("action: is required; a pattern such as ec2:CreateFleet")
	}
	return p.Conditions.check()
}
