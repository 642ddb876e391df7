package awsemu

import "github.com/dovetail-sh/dovetail/sandbox/awsemu/policy"

// Kinds of principals.
const (
	principalAWS       = "AWS"
	principalService   = "Service"
	principalFederated = "Federated"
)

// trustsPrincipal reports whether a role lets a principal take an action such as sts:AssumeRole.
func (r Role) trustsPrincipal(who policy.Principal, action string, context map[string][]string) bool {
	document, err := policy.Parse(policy.Trust, r.Trust)
	return err == nil && policy.Evaluate(&policy.Request{Action: action, Resource: "*", Principal: who, Context: context}, document).Allowed
}
