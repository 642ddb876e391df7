package awsemu

import (
	"encoding/json"
	"slices"
	"strings"
)

// trustPolicy says who may use a role.
type trustPolicy struct {
	Statement oneOrMore[trustStatement] `json:"Statement"`
}

type trustStatement struct {
	Effect    string
	Principal principals
	Action    Texts
	Condition Conditions
}

// oneOrMore is a list whose only element may be written without brackets.
type oneOrMore[T any] []T

// UnmarshalJSON reads an element or a list of them.
func (l *oneOrMore[T]) UnmarshalJSON(data []byte) error {
	if strings.HasPrefix(strings.TrimSpace(string(data)), "[") {
		var list []T
		err := json.Unmarshal(data, &list)
		*l = list
		return err
	}
	var one T
	err := json.Unmarshal(data, &one)
	*l = []T{one}
	return err
}

// principals are names by their kind: AWS, Service or Federated. A star alone is everybody.
type principals map[string]Texts

// UnmarshalJSON reads principals, or a star.
func (p *principals) UnmarshalJSON(data []byte) error {
	var star string
	if json.Unmarshal(data, &star) == nil {
		*p = principals{principalAWS: {star}}
		return nil
	}
	var plain map[string]Texts
	err := json.Unmarshal(data, &plain)
	*p = plain
	return err
}

// Kinds of principals.
const (
	principalAWS       = "AWS"
	principalService   = "Service"
	principalFederated = "Federated"
)

// principal is who wants to use a role, by all the names that a policy may have for it.
type principal struct {
	kind  string
	names []string
}

// trusts reports whether a role lets a principal take an action such as sts:AssumeRole: a statement must allow it, and none deny it.
func (r Role) trusts(who principal, action string, context map[string][]string) bool {
	var policy trustPolicy
	if json.Unmarshal([]byte(r.Trust), &policy) != nil {
		return false
	}
	allowed := false
	for _, s := range policy.Statement {
		if !s.concerns(who, action, context) {
			continue
		}
		if s.Effect != "Allow" {
			return false
		}
		allowed = true
	}
	return allowed
}

func (s trustStatement) concerns(who principal, action string, context map[string][]string) bool {
	named := slices.ContainsFunc(s.Principal[who.kind], func(name string) bool { return name == "*" || slices.Contains(who.names, name) })
	asked := slices.ContainsFunc(s.Action, func(pattern string) bool { return matchAction(pattern, action) })
	if !named || !asked {
		return false
	}
	_, unmet := s.Condition.unmet(access{context: context}, false)
	return !unmet
}
