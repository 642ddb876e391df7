package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Kind is what a document is attached to.
type Kind int

// Kinds of documents.
const (
	Identity Kind = iota // to a role: its holder is the principal
	Resource             // to a resource such as a queue: statements name principals
	Trust                // to a role: who may assume it; the role is the resource
)

// Document is a policy that was read. It does not change, and many may use it at once.
type Document struct{ statements []statement }

type statement struct {
	name       string // for refusals: its Sid, or which one it is
	deny       bool
	principals map[string][]string // patterns by kind such as Service; nil: the principal it is attached to
	anybody    bool                // the principal is *
	actions    patterns
	resources  patterns
	conditions []condition
}

// patterns are what Action and NotAction, or Resource and NotResource, say.
type patterns struct {
	list []string
	not  bool
}

// Texts is a list that may also be written as a single text.
type Texts []string

// UnmarshalJSON reads a text or a list of them.
func (t *Texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = Texts{one}
		return nil
	}
	var list []*string
	if err := json.Unmarshal(data, &list); err != nil {
		return errors.New("want a text or a list of texts")
	}
	*t = make(Texts, 0, len(list))
	for _, text := range list {
		if text == nil {
			return errors.New("want a text or a list of texts, not null")
		}
		*t = append(*t, *text)
	}
	return nil
}

// written is a statement as the document has it.
type written struct {
	Sid          string
	Effect       string
	Principal    *principal
	NotPrincipal json.RawMessage
	Action       Texts
	NotAction    Texts
	Resource     Texts
	NotResource  Texts
	Condition    Conditions
}

// principal is "*" or names by kind.
type principal struct {
	anybody bool
	names   map[string]Texts
}

// UnmarshalJSON reads either form.
func (p *principal) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		if text != "*" {
			return fmt.Errorf("the Principal %q: want *, or names under AWS, Service or Federated", text)
		}
		p.anybody = true
		return nil
	}
	return json.Unmarshal(data, &p.names)
}

// statements is one statement or a list of them.
type statements []written

// UnmarshalJSON reads either form.
func (s *statements) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		var list []written
		if err := decodeStrictly(data, &list); err != nil {
			return err
		}
		*s = list
		return nil
	}
	var one written
	if err := decodeStrictly(data, &one); err != nil {
		return err
	}
	*s = statements{one}
	return nil
}

// decodeStrictly refuses members that it does not know: IAM does, and a Deny with a typo would deny nothing.
func decodeStrictly(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the document")
	}
	return nil
}

// Parse reads a document.
func Parse(kind Kind, text string) (*Document, error) {
	var d struct {
		Version   string
		ID        string `json:"Id"`
		Statement statements
	}
	if err := decodeStrictly([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if d.Version != "" && d.Version != "2012-10-17" && d.Version != "2008-10-17" {
		return nil, fmt.Errorf("policy: version %q; want 2012-10-17", d.Version)
	}
	if len(d.Statement) == 0 {
		return nil, errors.New("policy: no Statement")
	}
	document := &Document{}
	for n := range d.Statement {
		w := &d.Statement[n]
		name := w.Sid
		if name == "" {
			name = fmt.Sprintf("statement %d", n+1)
		}
		s, err := w.read(kind)
		if err != nil {
			return nil, fmt.Errorf("policy: %s: %w", name, err)
		}
		s.name = name
		document.statements = append(document.statements, s)
	}
	return document, nil
}

func (w *written) read(kind Kind) (s statement, err error) {
	switch w.Effect {
	case "Allow":
	case "Deny":
		s.deny = true
	default:
		return s, fmt.Errorf("the Effect %q: want Allow or Deny", w.Effect)
	}
	if err := w.readPrincipal(kind, &s); err != nil {
		return s, err
	}
	if s.actions, err = oneOf("Action", w.Action, w.NotAction); err != nil {
		return s, err
	}
	for _, action := range s.actions.list {
		if service, rest, found := strings.Cut(action, ":"); action != "*" && (!found || rest == "" || service == "" || strings.ContainsAny(service, "*?")) {
			return s, fmt.Errorf("the Action %q: want a service and an action, such as ec2:DescribeSubnets, or *", action)
		}
	}
	if err := w.readResources(kind, &s); err != nil {
		return s, err
	}
	if s.conditions, err = w.Condition.compileConditions(); err != nil {
		return s, err
	}
	return s, w.checkVariables()
}

func (w *written) readPrincipal(kind Kind, s *statement) error {
	switch {
	case w.NotPrincipal != nil:
		return errors.New("a NotPrincipal is not evaluated here; use Principal with a condition")
	case kind == Identity && w.Principal != nil:
		return errors.New("the Principal: the identity that has the policy is the principal; leave it out")
	case kind == Identity:
		s.anybody = true
		return nil
	case w.Principal == nil:
		return errors.New("the Principal is missing; name whom the statement is about")
	case w.Principal.anybody:
		s.anybody = true
		return nil
	}
	s.principals = map[string][]string{}
	for _, of := range slices.Sorted(maps.Keys(w.Principal.names)) {
		if !slices.Contains([]string{"AWS", "Service", "Federated"}, of) || len(w.Principal.names[of]) == 0 {
			return fmt.Errorf("the Principal %q: want names under AWS, Service or Federated", of)
		}
		s.principals[of] = w.Principal.names[of]
	}
	if len(s.principals) == 0 {
		return errors.New("the Principal is empty")
	}
	return nil
}

func (w *written) readResources(kind Kind, s *statement) (err error) {
	if kind == Trust {
		if w.Resource != nil || w.NotResource != nil {
			return errors.New("the Resource: the role is the resource of its trust; leave it out")
		}
		s.resources.list = []string{"*"}
		return nil
	}
	if s.resources, err = oneOf("Resource", w.Resource, w.NotResource); err != nil {
		return err
	}
	for _, resource := range s.resources.list {
		if resource != "*" && (!strings.HasPrefix(resource, "arn:") || strings.Count(resource, ":") < 5) {
			return fmt.Errorf("the Resource %q: want an ARN or *", resource)
		}
	}
	return nil
}

func oneOf(name string, plain, not Texts) (patterns, error) {
	switch {
	case plain != nil && not != nil:
		return patterns{}, fmt.Errorf("has %s and Not%s; want one of them", name, name)
	case len(plain) > 0:
		return patterns{list: plain}, nil
	case len(not) > 0:
		return patterns{list: not, not: true}, nil
	default:
		return patterns{}, fmt.Errorf("the %s is missing", name)
	}
}

// checkVariables finds policy variables such as ${aws:username}: taken for text they would match nothing, and a
// Deny would deny nothing.
func (w *written) checkVariables() error {
	all := slices.Concat(w.Resource, w.NotResource)
	for _, keys := range w.Condition {
		for key, values := range keys {
			all = append(append(all, key), values...)
		}
	}
	slices.Sort(all)
	for _, text := range all {
		if strings.Contains(text, "${") {
			return fmt.Errorf("%q: policy variables are not evaluated here", text)
		}
	}
	return nil
}

// Denying is a document with one statement, which denies actions on resources under conditions. No resources are all.
func Denying(actions, resources Texts, conditions Conditions) (*Document, error) {
	if len(resources) == 0 {
		resources = Texts{"*"}
	}
	w := written{Effect: "Deny", Action: actions, Resource: resources, Condition: conditions}
	s, err := w.read(Identity)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	s.name = "denied"
	return &Document{statements: []statement{s}}, nil
}
