package awsemu

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/policy"
)

// Denial takes a right away from callers, over what their policies say: for tests of the messages that users get. Every member
// that is set must match.
type Denial struct {
	Key        string            `json:"key,omitempty"`  // access key id; empty matches every caller
	Role       string            `json:"role,omitempty"` // that the caller assumed; empty matches every caller
	Action     policy.Texts      `json:"action"`         // patterns such as ec2:CreateFleet or iam:*
	Resources  policy.Texts      `json:"resources,omitempty"`
	Conditions policy.Conditions `json:"conditions,omitempty"`
	Deny       *bool             `json:"deny,omitempty"`    // nothing else can be said; a right is given by a policy
	Message    string            `json:"message,omitempty"` // ends the refusal, such as: with an explicit deny in a service control policy

	statement *policy.Document
}

// check finds what would make a denial match never.
func (d *Denial) check() error {
	if len(d.Action) == 0 {
		return errors.New("action: is required; a pattern such as ec2:CreateFleet")
	}
	if d.Deny != nil && !*d.Deny {
		return errors.New("deny: false is not possible; a role has the rights of its policies, to which aws iam put-role-policy adds")
	}
	document, err := policy.Denying(d.Action, d.Resources, d.Conditions)
	if err != nil {
		return err
	}
	d.statement = document
	return nil
}

// policyDocument is the denial as a policy. One that came with a snapshot was checked when it was made.
func (d *Denial) policyDocument() *policy.Document {
	if d.statement == nil && d.check() != nil {
		d.statement = &policy.Document{}
	}
	return d.statement
}

// permissionsControl shows what is denied over the policies. POST adds a denial, PUT replaces all.
func (e *Emulator) permissionsControl() control {
	return control{
		http.MethodGet: func(*controlRequest) (any, error) { return append([]Denial{}, e.rules.Denials...), nil },
		http.MethodPost: func(r *controlRequest) (any, error) {
			var d Denial
			if err := r.decode(&d); err != nil {
				return nil, err
			}
			if err := d.check(); err != nil {
				return nil, err
			}
			e.rules.Denials = append(e.rules.Denials, d)
			return nil, nil
		},
		http.MethodPut: func(r *controlRequest) (any, error) {
			var list []Denial
			if err := r.decode(&list); err != nil {
				return nil, err
			}
			for n := range list {
				if err := list[n].check(); err != nil {
					return nil, fmt.Errorf("element %d: %w", n, err)
				}
			}
			e.rules.Denials = list
			return nil, nil
		},
		http.MethodDelete: func(*controlRequest) (any, error) { e.rules.Denials = nil; return nil, nil },
	}
}
