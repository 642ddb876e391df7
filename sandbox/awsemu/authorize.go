package awsemu

import (
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/sandbox/awsemu/policy"
	"github.com/dovetail-sh/dovetail/sandbox/awsemu/wire"
)

// access is one thing that a call wants to do. Most calls want one; a launch wants many.
type access struct {
	action   string              // such as iam:PassRole
	resource string              // ARN; empty when it cannot be said yet
	context  map[string][]string // what conditions can test, by key such as aws:RequestTag/Name
	// unsure are the prefixes of keys whose values are unknown: the tags of what does not exist. They
	// count in favour of the caller, so that the operation can say what is missing.
	unsure []string
}

// withContext adds a value that conditions can test.
func (a access) withContext(key string, values ...string) access {
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
		a = a.withContext(prefix+key, value)
	}
	return a
}

// Prefixes and names of the keys that conditions know.
const (
	keyRequestTag   = "aws:RequestTag/"
	keyResourceTag  = "aws:ResourceTag/"
	keyTagKeys      = "aws:TagKeys"
	keyRegion       = "aws:RequestedRegion"
	keyTLS          = "aws:SecureTransport"
	keyAccount      = "aws:PrincipalAccount"
	keyPrincipal    = "aws:PrincipalArn"
	keyCreateAction = "ec2:CreateAction"
	keyPassedTo     = "iam:PassedToService"
	keyShifted      = "arc-zonal-shift:ResourceIdentifier"
)

// withRequestTags adds the tags that a call sends for a resource.
func (a access) withRequestTags(tags map[string]string) access {
	if len(tags) == 0 {
		return a
	}
	return a.withTags(keyRequestTag, tags).withContext(keyTagKeys, slices.Sorted(maps.Keys(tags))...)
}

// authority is what decides over the calls of one caller.
type authority struct {
	caller   string             // ARN
	bound    bool               // a role: what its policies do not allow is denied. Static keys may do everything
	policies []*policy.Document // of the role
	denials  []*Denial          // that concern the caller
}

// isUnrestricted reports whether nothing can be denied.
func (a *authority) isUnrestricted() bool { return !a.bound && len(a.denials) == 0 }

// authorityOfKey finds who an access key belongs to and what that may do. The emulator must be locked.
func (e *Emulator) authorityOfKey(key string) *authority {
	a := &authority{caller: e.callerARN(key)}
	session, found := e.iamState().Sessions[key]
	if found {
		a.bound, a.policies = true, e.documentsOf(e.iamState().Roles[session.Role]) // a role that was deleted allows nothing
	}
	for n := range e.rules.Denials {
		if d := &e.rules.Denials[n]; (d.Key == "" || d.Key == key) && (d.Role == "" || d.Role == session.Role) {
			a.denials = append(a.denials, d)
		}
	}
	return a
}

// documentsOf are the policies of a role: those of the account and of AWS that are attached, and its own.
func (e *Emulator) documentsOf(r Role) []*policy.Document {
	var list []*policy.Document
	for _, arn := range r.Policies {
		if p, found := e.iamState().Policies[arn]; found {
			list = e.appendDocument(list, p.Document)
		} else if text, known := managedPolicy(arn); known {
			list = e.appendDocument(list, text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Inline)) {
		list = e.appendDocument(list, r.Inline[name])
	}
	return list
}

// maxDocuments bounds the texts that are kept as documents.
const maxDocuments = 500

// appendDocument reads a document, once for each text. One that cannot be read allows nothing; the calls that make
// policies refuse it.
func (e *Emulator) appendDocument(list []*policy.Document, text string) []*policy.Document {
	document, known := e.documents[text]
	if !known {
		parsed, err := policy.Parse(policy.Identity, text)
		if err == nil {
			document = parsed
		}
		if len(e.documents) >= maxDocuments {
			clear(e.documents)
		}
		e.documents[text] = document
	}
	if document == nil {
		return list
	}
	return append(list, document)
}

// checkPermissions says which of the things that a call wants its caller may not do. The emulator must be locked.
func (e *Emulator) checkPermissions(c *call, wanted ...access) error {
	by := e.authorityOfKey(c.Key)
	if by.isUnrestricted() {
		return nil
	}
	for _, a := range wanted {
		if isAlwaysAllowed(a.action) {
			continue
		}
		request := &policy.Request{
			Action: a.action, Resource: a.resource, Unknown: a.unsure,
			Context: a.withContext(keyRegion, c.Region).withContext(keyTLS, "true").withContext(keyAccount, e.fixture.Account).withContext(keyPrincipal, e.principalARN(c.Key)).context,
		}
		if why := by.whyDenied(request); why != "" {
			return accessDeniedError(c, by.caller, a, why)
		}
	}
	return nil
}

// isAlwaysAllowed are the actions that no policy is requested: the identity of the caller may always be queried, and who may use a web
// identity is in the trust of the role.
func isAlwaysAllowed(action string) bool {
	return slices.Contains([]string{"sts:GetCallerIdentity", webIdentityAction}, action)
}

// whyDenied says why a request is refused; empty if it is not. The end names the condition that was missed, which AWS
// does not: a missing tag should not take an hour to find.
func (a *authority) whyDenied(r *policy.Request) string {
	for _, d := range a.denials {
		if policy.Evaluate(r, d.policyDocument()).Denied == "" {
			continue
		}
		if d.Message != "" {
			return d.Message
		}
		return notAllowed(r.Action)
	}
	if !a.bound {
		return ""
	}
	verdict := policy.Evaluate(r, a.policies...)
	switch {
	case verdict.Denied != "":
		return "with an explicit deny in an identity-based policy (" + verdict.Denied + ")"
	case verdict.Allowed:
		return ""
	}
	if hints := policy.Missed(r, a.policies...); len(hints) > 0 {
		return notAllowed(r.Action) + " (" + strings.Join(hints, "; ") + ")"
	}
	return notAllowed(r.Action)
}

func notAllowed(action string) string {
	return "because no identity-based policy allows the " + action + " action"
}

// accessDeniedError words a refusal as the service does.
func accessDeniedError(c *call, caller string, a access, why string) error {
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
	return wire.Errorf(code, "You are not authorized to perform this operation. User: %s is not authorized to perform: %s%s %s", caller, a.action, resource, why)
}

// callerARN is who an access key belongs to.
func (e *Emulator) callerARN(key string) string {
	if session, found := e.iamState().Sessions[key]; found {
		return e.accountARN("sts", "assumed-role/"+session.Role+"/"+session.Name)
	}
	return e.accountARN("iam", "user/"+key)
}

// principalARN is the caller as conditions name it: of a session its role.
func (e *Emulator) principalARN(key string) string {
	session, found := e.iamState().Sessions[key]
	if !found {
		return e.callerARN(key)
	}
	return e.accountARN("iam", "role"+pathOf(e.iamState().Roles[session.Role].Path)+session.Role)
}
