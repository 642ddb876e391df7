package policy

import (
	"slices"
	"strings"
)

// Request is one action that a principal requests.
type Request struct {
	Action   string              // such as iam:PassRole
	Resource string              // ARN, or * for actions without one; empty when it cannot be said yet, which helps the caller
	Context  map[string][]string // what conditions can test, by key such as aws:RequestTag/Name
	// Unknown are the prefixes of keys whose values are unknown, such as the tags of what does not exist. They count in
	// favour of the caller, so that the operation can say what is missing.
	Unknown []string
	// Principal is the caller, for documents that name principals.
	Principal Principal
}

// Principal is the caller: a kind as documents name it (AWS, Service or Federated), and every name that it is known by,
// such as the ARN of a role and that of its session.
type Principal struct {
	Kind  string
	Names []string
}

// value is what a request has for a key. Keys are the same in any case.
func (r *Request) value(key string) (values []string, present bool) {
	if values, present = r.Context[key]; present {
		return values, true
	}
	for name, values := range r.Context {
		if strings.EqualFold(name, key) {
			return values, true
		}
	}
	return nil, false
}

func (r *Request) isUnknownKey(key string) bool {
	return slices.ContainsFunc(r.Unknown, func(prefix string) bool {
		return len(key) >= len(prefix) && strings.EqualFold(key[:len(prefix)], prefix)
	})
}

// Verdict is what documents say about a request.
type Verdict struct {
	Allowed bool
	Denied  string // the statement that denies it explicitly
}

// Evaluate says what documents together say about a request. A statement that denies wins over all that allow.
func Evaluate(r *Request, documents ...*Document) Verdict {
	var v Verdict
	for _, d := range documents {
		for n := range d.statements {
			s := &d.statements[n]
			if !s.appliesTo(r) || !s.deny && v.Allowed {
				continue
			}
			if _, missed := firstUnmet(s.conditions, r, !s.deny); missed {
				continue
			}
			if s.deny {
				return Verdict{Denied: s.name}
			}
			v.Allowed = true
		}
	}
	return v
}

// Missed says which conditions kept statements from allowing a request that is not allowed, by statement.
func Missed(r *Request, documents ...*Document) []string {
	var list []string
	for _, d := range documents {
		for n := range d.statements {
			s := &d.statements[n]
			if s.deny || !s.appliesTo(r) {
				continue
			}
			if text, missed := firstUnmet(s.conditions, r, true); missed {
				list = append(list, s.name+" wants "+text)
			}
		}
	}
	return list
}

// appliesTo reports whether a statement speaks of this principal, action and resource.
func (s *statement) appliesTo(r *Request) bool {
	if !s.actions.matchesName(r.Action, matchAction) || !s.names(r.Principal) {
		return false
	}
	if r.Resource == "" {
		return !s.deny
	}
	return s.resources.matchesName(r.Resource, matchWildcard)
}

func (s *statement) names(p Principal) bool {
	return s.anybody || slices.ContainsFunc(s.principals[p.Kind], func(name string) bool { return name == "*" || slices.Contains(p.Names, name) })
}

func (p patterns) matchesName(name string, matches func(pattern, name string) bool) bool {
	for _, pattern := range p.list {
		if matches(pattern, name) {
			return !p.not
		}
	}
	return p.not
}
